"""A script that runs on both sides gives the same, and a planted difference is found by variable and step."""

import os
import re
import sys

import pytest
import tensorflow as tf
from click.testing import CliRunner

from estimator_train.app.cli import commands
from estimator_train.compat.verify import NotVerifiedError, compare_runs, verify
from estimator_train.compat.verify.runs import Run

v1 = tf.compat.v1

# Stands for an old TensorFlow where no training has to run.
FAKE = """
import types
__version__ = "2.15.1"

class CheckpointSaverHook:
    def __init__(self, checkpoint_dir): pass
    def after_create_session(self, session, coord): pass

train = types.SimpleNamespace(CheckpointSaverHook=CheckpointSaverHook)
compat = types.SimpleNamespace(v1=types.SimpleNamespace(train=train))
"""


@pytest.fixture
def fail(tmp_path, monkeypatch):
    """Verifies a script that does not come to the new side; returns the message of the error."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "tensorflow.py").write_text(FAKE)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "old"))

    def fail(code, **settings):
        (tmp_path / "script.py").write_text(code)
        with pytest.raises(NotVerifiedError) as error:
            verify("script.py", python=sys.executable, directory=tmp_path / "runs", **settings)
        return str(error.value)

    return fail


def test_a_script_that_fails_on_the_old_side_is_not_verified(fail):
    assert fail("1 / 0") == "script.py fails with TensorFlow 2.15.1: ZeroDivisionError: division by zero"


def test_a_model_dir_outside_the_directory_is_refused_before_training(fail, tmp_path):
    code = "import tensorflow as tf; tf.compat.v1.train.CheckpointSaverHook('{}'); print('trained')"
    message = fail(code.format(tmp_path / "model"))
    assert message.endswith(
        f"it trains in {tmp_path}/model, which the other side would find: give it a relative model_dir"
    )
    assert (tmp_path / "runs" / "old.stdout").read_text() == ""
    message = fail(code.format("model"), same_initial_values=True)
    assert message == "the script saves no initial values with the old TensorFlow"


def test_a_run_reads_copies_of_the_files_by_their_paths(fail, tmp_path):
    (tmp_path / "data" / "part").mkdir(parents=True)
    for path in ("data/part/a.csv", "b.csv"):
        (tmp_path / path).write_text("1")
    code = "import os; print(os.listdir('data/part'), os.path.islink('data')); open('b.csv', 'a').write('2'); 1 / 0"
    fail(code, files=["data", "b.csv"])
    assert (tmp_path / "runs" / "old.stdout").read_text() == "['a.csv'] False\n"
    assert (tmp_path / "b.csv").read_text() == "1"


def test_files_elsewhere_are_refused(fail):
    assert fail("", files=["../x.csv"]).startswith("../x.csv is not below the current directory; ")


def test_a_script_without_results_is_not_verified(tmp_path):
    runs = [Run(tmp_path / side, "", "", 0, 1.0) for side in ("old", "new")]
    with pytest.raises(NotVerifiedError, match="the script prints nothing and leaves nothing"):
        compare_runs(*runs)


def test_variables_of_keras_models_named_otherwise_are_counted(tmp_path):
    def layer(optimizer):
        with v1.variable_scope("dense"):
            return v1.get_variable("kernel", [2]), v1.get_variable(optimizer, [2], initializer=v1.zeros_initializer())

    runs = [Run(tmp_path / side, "", "", 0, 1.0) for side in ("old", "new")]
    for run in runs:
        (run.directory / "model").mkdir(parents=True)
    with tf.Graph().as_default(), v1.Session() as session:
        layer("momentum")
        session.run([variable.assign([1.0, 2.0]) for variable in v1.global_variables()])
        v1.train.Saver().save(session, str(tmp_path / "old" / "model" / "model.ckpt"), 1, write_meta_graph=False)
    with tf.Graph().as_default(), v1.Session() as session:
        kernel, momentum = layer("m")
        session.run([variable.assign([1.0, 2.5]) for variable in v1.global_variables()])
        objects = v1.train.Checkpoint(kernel=kernel, momentum=momentum)
        objects.save(str(tmp_path / "new" / "model" / "model.ckpt"), session=session)
    comparison, not_compared = compare_runs(*runs)
    assert [(each.name.name, each.difference) for each in comparison.compared[:-1]] == [("dense/kernel", 0.25)]
    assert not_compared == ["variables and scalars that trainings of Keras models name otherwise here (3)"]
    assert comparison.only_old == comparison.only_new == []


# Today's Python stands for the old side. It has no tf.estimator, by which the script knows where it is.
SCRIPT = """
import sys
import tempfile
import tensorflow as tf

v1 = tf.compat.v1
planted = hasattr(tf, "estimator") and sys.argv[1]
print("TensorFlow", "2.21.0" if planted else "2.15.1", tempfile.mkstemp()[1])
with tf.Graph().as_default():
    step = v1.train.get_or_create_global_step()
    deviation = 0.0 if planted == "initializer" else 1.0
    weight = v1.get_variable("weight", initializer=tf.random.normal([3], stddev=deviation))
    loss = tf.reduce_sum(tf.square(weight - 3.0))
    optimizer = v1.train.AdamOptimizer(0.1)
    update, skip = optimizer.minimize(loss, step), v1.assign_add(step, 1)
    hooks = [v1.train.StopAtStepHook(4)]
    model_dir = tempfile.mkdtemp()
    with v1.train.MonitoredTrainingSession("", True, model_dir, None, hooks, save_checkpoint_steps=1) as session:
        for number in range(1, 5):
            session.run(skip if planted == "update" and number == 3 else update)
    print("trained to step 4")
    print("trained in 2 s")
"""


@pytest.fixture
def command(tmp_path, monkeypatch):
    """Runs the command on SCRIPT with a difference planted; returns its exit code and output."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "script.py").write_text(SCRIPT)

    def command(planted, *flags):
        arguments = ["verify", "script.py", "--python215", sys.executable, *flags, "--", planted]
        result = CliRunner().invoke(commands, arguments, standalone_mode=False)
        return result.return_value, result.output

    return command


@pytest.mark.slow
def test_a_script_that_does_the_same_is_equal_from_the_same_initial_values(command, tmp_path):
    code, output = command("nothing", "--same-initial-values", "--out", "runs")
    assert code == 0 and output.endswith(
        "\nnot compared: random initial values of fewer than 300 numbers, whose distributions may differ "
        "unseen (1); printed versions (1); printed durations and speeds (1)\n\nequal up to 0.0e+00\n"
    )
    # The global step, two powers of beta, and a weight with two slots, five times.
    assert re.search(r"^checkpoint +60 +0 to 4 +0\.0e\+00$", output, re.MULTILINE)
    assert not list(tmp_path.glob("tmp*")) and (tmp_path / "runs" / "new" / "tmp" / "tmp0" / "checkpoint").exists()


@pytest.mark.slow
def test_a_planted_difference_is_named_by_variable_and_step(command):
    code, output = command("update", "--same-initial-values")
    first, *table = re.findall(r"^checkpoint tmp/tmp0/model\.ckpt: (\S+) +(\d) ", output, re.MULTILINE)
    assert code == 1 and output.endswith(" differs from the first by 0.0e+00\n")
    assert first[1] == "3" and ("weight", "3") in [first, *table]


@pytest.mark.slow
def test_another_initial_value_is_named_though_both_start_from_the_same(command):
    code, output = command("initializer", "--same-initial-values")
    assert code == 1 and output.endswith("\ndifferent\n")
    assert re.search(r"^initial value tmp/tmp0/model\.ckpt: weight +0 +drawn anew +the same again +inf$", output, re.M)
    assert re.search(r"^checkpoint +60 +0 to 4 +0\.0e\+00$", output, re.M)


@pytest.mark.slow
def test_a_script_without_seeds_gets_a_line_that_names_them(command):
    code, output = command("nothing")
    assert code == 1 and "but so are two runs with TensorFlow" in output
    assert output.splitlines()[-1].endswith(
        "give --same-initial-values, and a seed to shuffle(), to dropout, and to the random numbers of NumPy and Python"
    )


ESTIMATOR = """
import sys
import numpy as np
import tensorflow as tf

planted = not tf.__version__.startswith("2.15") and sys.argv[1] == "epsilon"
columns = [tf.feature_column.numeric_column("x", [2])]
x = np.random.RandomState(1).normal(size=(64, 2)).astype("float32")

def input_fn():
    return tf.data.Dataset.from_tensor_slices(({"x": x}, (x[:, 0] > 0).astype("int64"))).repeat().batch(8)

estimator = tf.estimator.DNNClassifier(
    [4],
    columns,
    "model",
    optimizer=lambda: tf.keras.optimizers.legacy.Adam(0.1, epsilon=0.01 if planted else 1e-7),
    config=tf.estimator.RunConfig(save_checkpoints_steps=2),
)
parse = tf.estimator.export.build_parsing_serving_input_receiver_fn(tf.feature_column.make_parse_example_spec(columns))
exporter = tf.estimator.LatestExporter("latest", parse)
evaluation = tf.estimator.EvalSpec(input_fn, steps=2, exporters=exporter, start_delay_secs=0, throttle_secs=0)
tf.estimator.train_and_evaluate(estimator, tf.estimator.TrainSpec(input_fn, max_steps=6), evaluation)
print(estimator.evaluate(input_fn, steps=2))
"""


@pytest.mark.slow
@pytest.mark.skipif("ESTIMATOR_TRAIN_TF215" not in os.environ, reason="needs a Python with TensorFlow 2.15")
@pytest.mark.parametrize("planted", ["nothing", "epsilon"])
def test_an_estimator_is_compared_with_that_of_tensorflow_2_15(planted, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "script.py").write_text(ESTIMATOR)
    python = os.environ["ESTIMATOR_TRAIN_TF215"]
    result = verify("script.py", [planted], python=python, directory=tmp_path / "runs", same_initial_values=True)
    kinds = {each.name.kind for each in result.comparison.compared}
    assert kinds == {"initial value", "checkpoint", "event", "export", "printed", "exit"}
    assert result.comparison.only_old == result.comparison.only_new == []
    different = [each.name for each in result.comparison.compared if each.difference > 1e-5]
    assert [(name.kind, name.step) for name in different[:1]] == {"nothing": [], "epsilon": [("checkpoint", 2)]}[
        planted
    ]


KERAS = """
import numpy as np
import tensorflow as tf

layers = [tf.keras.layers.Dense(4, "relu", input_shape=(2,)), tf.keras.layers.Dense(1)]
model = tf.keras.Sequential(layers)
model.compile(tf.keras.optimizers.legacy.Adam(0.1), "mse")
x = np.random.RandomState(1).normal(size=(64, 2)).astype("float32")

def input_fn():
    return tf.data.Dataset.from_tensor_slices((x, x[:, :1])).repeat().batch(8)

config = tf.estimator.RunConfig(save_checkpoints_steps=2)
estimator = tf.keras.estimator.model_to_estimator(model, model_dir="model", config=config)
estimator.train(input_fn, max_steps=6)
print(estimator.evaluate(input_fn, steps=2))
"""


@pytest.mark.slow
@pytest.mark.skipif("ESTIMATOR_TRAIN_TF215" not in os.environ, reason="needs a Python with TensorFlow 2.15")
def test_a_keras_model_starts_from_the_values_of_tensorflow_2_15(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "script.py").write_text(KERAS)
    python = os.environ["ESTIMATOR_TRAIN_TF215"]
    result = verify("script.py", python=python, directory=tmp_path / "runs", same_initial_values=True)
    assert result.comparison.largest < 1e-5
    steps = {each.name.step for each in result.comparison.compared if each.name.name == "dense/kernel"}
    assert steps == {0, 2, 4, 6}
    assert {each.name.name for each in result.comparison.compared if each.name.place == "model/eval"} == {"loss"}


PLANTED = """
import sys
import tempfile
import time
import numpy as np
import tensorflow as tf

v1 = tf.compat.v1
planted = "" if tf.__version__.startswith("2.15") else sys.argv[1]
x = np.random.RandomState(1).normal(size=(64, 20)).astype("float32")

def input_fn():
    return tf.data.Dataset.from_tensor_slices((x, x[:, :1])).repeat().batch(8)

def model_fn(features, labels, mode):
    kernel = v1.get_variable("kernel", [20, 20], initializer=v1.random_normal_initializer(
        stddev=2.0 if planted == "initializer" else 1.0))
    loss = tf.reduce_mean(tf.square(features @ kernel - labels))
    if planted == "regularizer":
        loss += 0.001 * tf.reduce_sum(tf.square(kernel))
    optimizer = v1.train.AdamOptimizer(
        0.011 if planted == "learning rate" else 0.01, epsilon=1e-3 if planted == "epsilon" else 1e-8)
    gradients = optimizer.compute_gradients(loss)
    step = v1.train.get_global_step()
    train_op = tf.cond(
        tf.equal(step, 3 if planted == "update" else -1),
        lambda: v1.assign_add(step, 1).op, lambda: optimizer.apply_gradients(gradients, step))
    return tf.estimator.EstimatorSpec(mode, None, loss, train_op)

start = time.time()
print("TensorFlow", tf.__version__, tf.version.GIT_VERSION, "at", time.ctime(), "in", tempfile.mkdtemp())
estimator = tf.estimator.Estimator(model_fn, "model", tf.estimator.RunConfig(save_checkpoints_steps=1))
estimator.train(input_fn, max_steps=5)
print("loss %.5f, %.2f steps/s, %.3f seconds" % (
    estimator.evaluate(input_fn, steps=2)["loss"], 5 / (time.time() - start), time.time() - start))
"""


@pytest.mark.slow
@pytest.mark.skipif("ESTIMATOR_TRAIN_TF215" not in os.environ, reason="needs a Python with TensorFlow 2.15")
@pytest.mark.parametrize(
    ("planted", "kind", "step"),
    [
        ("nothing", None, None),
        ("initializer", "initial value", 0),
        ("learning rate", "checkpoint", 1),
        ("epsilon", "checkpoint", 1),
        ("regularizer", "checkpoint", 1),
        ("update", "checkpoint", 4),
    ],
)
def test_whatever_is_planted_is_named_at_the_step_where_it_begins(planted, kind, step, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "script.py").write_text(PLANTED)
    python = os.environ["ESTIMATOR_TRAIN_TF215"]
    result = verify("script.py", [planted], python=python, directory=tmp_path / "runs", same_initial_values=True)
    different = [each.name for each in result.comparison.compared if each.difference > 1e-5]
    assert [(name.kind, name.step) for name in different[:1]] == ([(kind, step)] if kind else [])
    assert result.comparison.only_old == result.comparison.only_new == []
    if result.noise:
        assert result.noise.comparison.largest < 1e-5
