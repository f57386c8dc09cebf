"""Each name in somebody's code gets a verdict: it works, works under --tf1, needs a change, or is absent."""

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
    ],
)
def test_a_name_has_a_verdict_and_advice(use, verdict, advice, verdicts):
    assert verdicts(f"import tensorflow as tf\n{use}") == {use: (verdict, advice)}


def test_names_in_the_files_of_tf_contrib_have_the_advice_of_their_module(verdicts):
    (found,) = verdicts("from tensorflow.contrib.learn.python.learn.estimators.dnn import DNNClassifier").values()
    assert found == (ABSENT, "use tf.estimator.DNNClassifier")


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
