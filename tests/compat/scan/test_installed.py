"""Names of installed modules are read from their files."""

import sys

import pytest

from estimator_train.compat.scan import installed
from estimator_train.compat.scan.installed import Target

CODE = """
import os, xml.dom, xml.sax as sax
from .sibling import name as other
from ..top import *
from . import sibling
if sax:
    try:
        import inside
    except ImportError:
        inside = None
class Class: hidden = 1
def function(): local = 1
value, (second, *_) = 1, (2, 3)
alias = other
deep = os.path.join
typed: int = 1
gone = 1
del gone
__all__ = ["alias", "value"]
lazy = LazyLoader("lazy", globals(), "xml.dom")
keras = _KerasLazyLoader(globals(), submodule="layers", mode="v1")
setattr(_current_module, "set_later", alias)
_current_module.below.name = sax
"""


@pytest.fixture
def names(tmp_path, monkeypatch):
    """Returns the names of the module scanned.below.module with this code."""

    def names(code, name="module"):
        folder = tmp_path / "scanned" / "below"
        folder.mkdir(parents=True)
        (folder / f"{name}.py").write_text(code)
        monkeypatch.syspath_prepend(tmp_path)
        return installed.names_of(f"scanned.below.{name}")

    yield names
    installed.names_of.cache_clear()
    installed.file_of.cache_clear()
    assert "scanned" not in sys.modules


def test_each_name_has_what_it_refers_to(names):
    found = names(CODE)
    assert found.targets == {
        "os": Target("os"),
        "xml": Target("xml"),
        "sax": Target("xml.sax"),
        "other": Target("scanned.below.sibling", "name"),
        "sibling": Target("scanned.below", "sibling"),
        "inside": None,
        "Class": None,
        "function": None,
        "value": None,
        "second": None,
        "alias": Target("scanned.below.sibling", "name"),
        "deep": Target("os", "path.join"),
        "typed": None,
        "gone": None,
        "lazy": Target("xml.dom"),
        "keras": Target("tf_keras.api._v1.keras.layers"),
        "set_later": Target("scanned.below.sibling", "name"),
        "below.name": Target("xml.sax"),
    }
    assert found.stars == ["scanned.top"] and found.public == ["alias", "value"] and found.deleted == {"gone"}


@pytest.mark.parametrize("code", ["globals()['a'] = 1", "globals().update(a=1)", "def __getattr__(name): pass"])
def test_names_that_a_module_makes_when_it_runs_are_unknown(code, names):
    assert not names(code).known


def test_names_of_protocol_buffers_and_absent_modules_are_unknown(names):
    assert not names("a = 1", "a_pb2").known and not installed.names_of("scanned.below.absent").known


def test_files_are_found_without_importing_their_package():
    assert installed.file_of("tensorflow.python.ops").name == "__init__.py"
    assert (
        installed.file_of("tensorflow.python.no_such_module") is None and installed.file_of("no_such_package") is None
    )
    assert installed.file_of("json.decoder").name == "decoder.py"
