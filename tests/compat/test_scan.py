"""Each name in somebody's code gets a verdict: it works, works under --tf1, needs a change, or is absent."""

import importlib.util
import json
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from estimator_train.compat.scan import ABSENT, CHANGE, NOT_PYTHON_3, NOT_READ, WITH_TF1, WORKS, Name, Place, scan

PROGRAMS = Path(__file__).parents[1] / "data" / "programs"


@pytest.fixture
def verdicts(tmp_path):
    """Returns the names in a program, with verdict and advice."""

    def verdicts(code):
        (tmp_path / "program.py").write_text(code)
        (file,) = scan(tmp_path)
        return {name.name: (name.verdict, name.advice) for name in file.names if name.name != "tensorflow"}

    return verdicts


@pytest.mark.parametrize(
    ("use", "verdict", "advice"),
    [
        ("tf.estimator.Estimator", WORKS, ""),
        ("tf.compat.v1.layers.dense", WORKS, ""),
        ("tf.Session", WITH_TF1, ""),
        ("tf.contrib.crf.crf_decode", WITH_TF1, ""),
        ("tf.estimator.inputs.numpy_input_fn", WITH_TF1, ""),
        ("tf.estimator.KMeans", ABSENT, "use scikit-learn's KMeans or MiniBatchKMeans"),
        ("tf.contrib.boosted_trees", ABSENT, "use the ydf package (Yggdrasil Decision Forests)"),
        ("tf.contrib.rnn.NASCell", ABSENT, "use tf.nn.rnn_cell.LSTMCell"),
        (
            "tf.compat.v1.contrib",
            ABSENT,
            "use tf.contrib of `import tensorflow as tf`, with `estimator_train run --tf1`",
        ),
        ("tf.no_such_name", ABSENT, ""),
        ("tf.compat.v2.compat.v1.estimator.Estimator", WORKS, ""),
    ],
)
def test_a_name_has_a_verdict_and_advice(use, verdict, advice, verdicts):
    assert verdicts(f"import tensorflow as tf\n{use}") == {use: (verdict, advice)}


def test_names_in_the_files_of_tf_contrib_have_the_advice_of_their_module(verdicts):
    (found,) = verdicts("from tensorflow.contrib.learn.python.learn.estimators.dnn import DNNClassifier").values()
    assert found == (ABSENT, "use tf.estimator.DNNClassifier")


def test_a_part_of_tf_contrib_without_its_package_says_what_to_install(verdicts, monkeypatch):
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "tensorflow_gan" else find_spec(name))
    advice = "pip install tensorflow-gan, then run with `estimator_train run --tf1`"
    found = verdicts("import tensorflow as tf\nfrom tensorflow.contrib.gan import losses\ntf.contrib.gan.gan_model")
    assert found == {"tf.contrib.gan": (CHANGE, advice)}


@pytest.mark.parametrize(
    ("statement", "verdict"),
    [
        ("from tensorflow.contrib.tpu.python.tpu.tpu_estimator import TPUEstimator", WITH_TF1),
        ("from tensorflow.contrib.tpu.python.tpu import tpu_estimator", WITH_TF1),
        ("from tensorflow.contrib.tpu.python.tpu.tpu_estimator import NoSuchName", ABSENT),
        ("from tensorflow.contrib.learn.python.learn.estimators.rnn_common import no_such_function", ABSENT),
        ("from tensorflow.python.pywrap_tensorflow import NewCheckpointReader", WORKS),
        ("from tensorflow.python.pywrap_tensorflow import PyRecordWriter_New", ABSENT),
        ("from tensorflow.python import pywrap_tensorflow as p; p.ListDevices()", ABSENT),
    ],
)
def test_a_name_that_an_old_module_lacks_is_absent(statement, verdict, verdicts):
    assert verdicts(statement).popitem()[1][0] == verdict


def test_what_the_documentation_changes_is_named_with_its_page(verdicts):
    found = verdicts("import tensorflow_addons as tfa\ntfa.optimizers.AdamW(1)")
    assert found["tensorflow_addons"][0] == CHANGE and "docs/migrating.md" in found["tensorflow_addons"][1]
    found = verdicts("import tensorflow as tf\ntf.keras.optimizers.Adam(lr=1)\ntf.keras.optimizers.SGD(0.1)")
    assert found["tf.keras.optimizers.Adam"][0] == CHANGE and found["tf.keras.optimizers.SGD"][0] == WORKS


def test_a_file_that_needs_tf1_is_judged_as_it_runs_there(verdicts):
    found = verdicts(
        "import tensorflow as tf\ntf.Session()\ntf.keras.optimizers.Adam(lr=1)\ntf.keras.utils.set_random_seed(1)"
    )
    assert found["tf.keras.optimizers.Adam"] == (WITH_TF1, "")  # tf.keras has the optimizers that know lr
    assert found["tf.keras.utils.set_random_seed"] == (
        ABSENT,
        "`estimator_train run --tf1`, which other names in this file need, lacks it",
    )


def test_a_name_that_a_program_can_do_without_works(verdicts):
    code = "import tensorflow as tf\ntry: tf.no_such_name\nexcept AttributeError: pass"
    assert verdicts(code) == {"tf.no_such_name": (WORKS, "")}
    code = "try:\n  from tensorflow import no_such_name\nexcept ImportError:\n  no_such_name = None\nno_such_name.x"
    assert set(verdicts(code).values()) == {(WORKS, "")}


def test_files_and_lines_are_named(tmp_path):
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "a.py").write_text("import tensorflow as tf\n\ntf.Session(); tf.Session()\ntf.Session()")
    (tmp_path / "old.py").write_text("print 'x'")
    (tmp_path / "broken.ipynb").write_text("{")
    broken, old, deep = scan(tmp_path)
    assert (broken.path, broken.names, broken.problem, broken.why) == (
        "broken.ipynb",
        [],
        NOT_READ,
        "a damaged notebook",
    )
    assert (old.path, old.problem) == ("old.py", NOT_PYTHON_3)
    assert deep.path == "deep/a.py" and deep.problem is None
    assert deep.names[1] == Name("tf.Session", WITH_TF1, "", [Place(3), Place(4)])


def test_a_bad_cell_does_not_hide_the_names_of_the_others(tmp_path):
    sources = ["import tensorflow as tf", "print 'x'", "tf.Session()", "(" * 1000]
    cells = [{"cell_type": "code", "source": source} for source in sources]
    (tmp_path / "a.ipynb").write_text(json.dumps({"cells": cells}))
    (file,) = scan(tmp_path)
    assert [(name.name, name.places) for name in file.names][1:] == [("tf.Session", [Place(1, 3)])]
    assert file.problem == NOT_PYTHON_3 and file.why.startswith("cell 2, line 1: ") and "; cell 4, " in file.why


def test_a_single_file_is_scanned_also_through_a_link(tmp_path):
    (tmp_path / "program").write_text("import tensorflow as tf\ntf.Session()")
    (tmp_path / "link.py").symlink_to("program")
    for name in ("program", "link.py"):
        (file,) = scan(tmp_path / name)
        assert (file.path, file.problem) == (name, None) and file.names[1].name == "tf.Session"


def test_programs_that_run_here_are_found_to_work():
    """tests/compat/test_programs.py runs them: the ranker as it is, the others under --tf1."""
    verdicts = {file.path: {name.verdict for name in file.names} for file in scan(PROGRAMS) if file.names}
    assert verdicts["ranker.py"] == {WORKS} and verdicts["tagger.py"] == {WORKS, WITH_TF1}
    assert set().union(*verdicts.values()) == {WORKS, WITH_TF1}


def test_neither_tensorflow_nor_the_code_is_imported(tmp_path):
    (tmp_path / "program.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\nimport tensorflow as tf\ntf.Session")
    program = f"""
        import sys
        from estimator_train.compat.scan import scan
        scan({str(tmp_path)!r}), scan({str(PROGRAMS)!r})
        print([name for name in ("keras", "program", "tensorflow", "tf_keras", "tf_slim") if name in sys.modules])
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n" and not (tmp_path / "ran").exists()


@pytest.mark.slow
def test_hundreds_of_files_take_seconds(tmp_path):
    for number in range(300):
        (tmp_path / f"program_{number}.py").write_text((PROGRAMS / "tagger.py").read_text())
    start = time.process_time()
    assert len(scan(tmp_path)) == 300
    assert time.process_time() - start < 9  # 2 on a slow core
