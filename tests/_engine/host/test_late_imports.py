import subprocess
import sys

import pytest

from estimator_train._engine.host import late_imports

PROGRAM = """
import estimator_train, sys
import numpy as np
import tf_keras as keras
assert {"pandas", "scipy"}.isdisjoint(sys.modules)

image, axes = np.eye(4)[..., None], {"row_axis": 0, "col_axis": 1, "channel_axis": 2}
turned = keras.preprocessing.image.apply_affine_transform(image, theta=90, **axes)
np.testing.assert_allclose(turned[..., 0], np.eye(4)[::-1], atol=1e-6)
assert "scipy.ndimage" in sys.modules and "pandas" not in sys.modules

model = keras.Sequential([keras.layers.Dense(1, use_bias=False, kernel_initializer="ones")])
import pandas
np.testing.assert_allclose(model.predict(pandas.DataFrame({"a": [1.0, 2.0], "b": [3.0, 4.0]}), verbose=0), [[4], [6]])
"""


@pytest.mark.slow
def test_tf_keras_imports_pandas_and_scipy_when_it_needs_them():
    pytest.importorskip("pandas")
    pytest.importorskip("scipy")
    subprocess.run([sys.executable, "-c", PROGRAM], check=True)


def test_a_missing_package_remains_missing(monkeypatch):
    monkeypatch.setattr(late_imports, "_LATE", ("no_such_package",))
    with pytest.raises(ModuleNotFoundError, match="no_such_package"):
        late_imports._import("no_such_package.part", fromlist=("name",))


def test_a_package_that_is_there_is_imported_at_its_first_use(monkeypatch):
    monkeypatch.setattr(late_imports, "_LATE", ("xmlrpc",))
    for name in [name for name in sys.modules if name.partition(".")[0] == "xmlrpc"]:
        monkeypatch.delitem(sys.modules, name)
    late = late_imports._import("xmlrpc", fromlist=("client",))
    assert "xmlrpc" not in sys.modules
    assert late.client.Fault.__name__ == "Fault"
    assert late_imports._import("xmlrpc.client", fromlist=("Fault",)) is sys.modules["xmlrpc.client"]
