"""tf.contrib.learn.learn_runner: which method of which Experiment it calls.

TensorFlow 1.15.5 (Python 3.7, tensorflow==1.15.5 with protobuf<3.21) ran these tests once with
`learn = tf.contrib.learn`, and they hold there but for two messages; its hparams must be HParams, and its run_config
that of the Experiment's Estimator.
"""

import pytest

import estimator_train as et
from estimator_train.compat.tf1.contrib import learn


@pytest.fixture
def experiment(tmp_path, monkeypatch):
    """An Experiment whose methods return their names."""
    estimator = et.Estimator(lambda features, labels, mode: None, tmp_path)
    experiment = learn.Experiment(estimator, lambda: None, lambda: None)
    for name in ("train", "evaluate", "train_and_evaluate"):
        monkeypatch.setattr(experiment, name, lambda name=name: name)
    return experiment


@pytest.mark.parametrize(
    ("schedule", "called"), [(None, "train_and_evaluate"), ("train", "train"), ("evaluate", "evaluate")]
)
def test_a_schedule_is_a_method_of_the_experiment(schedule, called, experiment):
    given = []

    def experiment_fn(*arguments, **by_name):
        given.append(arguments or by_name)
        return experiment

    config, hparams = learn.RunConfig(model_dir="a"), object()
    assert learn.learn_runner.run(experiment_fn, "b", schedule) == called
    assert learn.learn_runner.run(experiment_fn, schedule=schedule, run_config=config, hparams=hparams) == called
    assert given == [{"output_dir": "b"}, (config, hparams)]


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({}, ValueError, "Must set value for `output_dir` or `run_config`"),
        ({"output_dir": "a", "run_config": et.RunConfig("a")}, ValueError, "Cannot provide both `output_dir` and"),
        ({"output_dir": "a", "hparams": {}}, ValueError, "Cannot provide both `hparams` and `output_dir`"),
        ({"run_config": et.RunConfig()}, ValueError, "Must specify a model directory `model_dir` in `run_config`."),
        (
            {"output_dir": "a", "schedule": "serve"},
            ValueError,
            "non-existent task serve; there are continuous_train_and",
        ),
        ({"output_dir": "a", "schedule": "_train_spec"}, ValueError, "non-existent task _train_spec"),
        ({"output_dir": "a", "experiment_fn": 1}, TypeError, 'Experiment builder "1" is not callable.'),
        (
            {"output_dir": "a", "experiment_fn": lambda output_dir: output_dir},
            TypeError,
            "an Experiment instance, got <class 'str'> instead.",
        ),
    ],
)
def test_a_call_that_tensorflow_1_refused_is_refused(arguments, error, message, experiment):
    with pytest.raises(error, match=message):
        learn.learn_runner.run(**{"experiment_fn": lambda **_: experiment} | arguments)


@pytest.mark.parametrize(
    "statement",
    [
        "from tensorflow.contrib.learn.python.learn import learn_runner; found = learn_runner.run",
        "from tensorflow.contrib.learn.python.learn.learn_runner import run as found",
        "from tensorflow.contrib.learn import learn_runner; found = learn_runner.run",
        "from tensorflow.contrib.learn.python.learn.utils import saved_model_export_utils as u; "
        "found = u.make_export_strategy",
        "from tensorflow.contrib.learn.python.learn.utils.saved_model_export_utils import "
        "make_export_strategy as found",
        "from tensorflow.contrib.learn import utils as u; found = u.saved_model_export_utils.make_export_strategy",
        "from tensorflow.contrib.learn.python.learn.experiment import Experiment as found",
    ],
)
def test_every_way_to_an_experiment_leads_to_ours(statement, contrib):
    scope = {}
    exec(statement, scope)
    ours = learn.learn_runner.run, learn.make_export_strategy, learn.Experiment
    assert scope["found"] in ours


def test_a_run_config_has_the_arguments_of_contribs_own_estimators():
    config = learn.RunConfig("grpc://a", gpu_memory_fraction=0.5, evaluation_master="grpc://b", tf_random_seed=3)
    assert (config.master, config.evaluation_master, config.tf_random_seed) == ("grpc://a", "grpc://b", 3)
    assert isinstance(config.replace(model_dir="c"), et.RunConfig) and learn.RunConfig().master == ""
