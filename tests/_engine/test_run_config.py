import copy
import functools
import inspect
import json
import pathlib
import pickle
import types

import numpy as np
import pytest
import tensorflow as tf

from estimator_train.run_config import RunConfig, TaskType

CLUSTER = {"chief": ["c:1"], "ps": ["p:1", "p:2"], "worker": ["w:1", "w:2"]}

DEFAULTS = {
    "model_dir": None,
    "tf_random_seed": None,
    "save_summary_steps": 100,
    "save_checkpoints_steps": None,
    "save_checkpoints_secs": 600,
    "session_config": None,
    "keep_checkpoint_max": 5,
    "keep_checkpoint_every_n_hours": 10000,
    "log_step_count_steps": 100,
    "train_distribute": None,
    "device_fn": None,
    "protocol": None,
    "eval_distribute": None,
    "experimental_distribute": None,
    "experimental_max_worker_delay_secs": None,
    "session_creation_timeout_secs": 7200,
    "checkpoint_save_graph_def": True,
    "steps_per_loop": "auto",
    "accumulate_steps": 1,
    "mixed_precision": None,
    "recompute": False,
    "jit_compile": False,
    "async_checkpoints": False,
    "resume_input": False,
    "deterministic": False,
}
ALONE = {
    "task_type": "worker",
    "task_id": 0,
    "global_id_in_cluster": 0,
    "is_chief": True,
    "num_worker_replicas": 1,
    "num_ps_replicas": 0,
    "master": "",
    "evaluation_master": "",
    "service": None,
}


@pytest.fixture(autouse=True)
def no_tf_config(monkeypatch):
    monkeypatch.delenv("TF_CONFIG", raising=False)


@pytest.fixture
def config_in(monkeypatch):
    """RunConfig built with TF_CONFIG set to a JSON value."""

    def build(tf_config, **settings):
        monkeypatch.setenv("TF_CONFIG", json.dumps(tf_config))
        return RunConfig(**settings)

    return build


@pytest.fixture
def strategy():
    return tf.distribute.OneDeviceStrategy("/cpu:0")


def read(config, names):
    return {name: getattr(config, name) for name in names}


# Settings


def test_defaults():
    assert read(RunConfig(), DEFAULTS) == DEFAULTS


def test_old_arguments_keep_their_order_and_new_ones_are_keyword_only():
    parameters = inspect.signature(RunConfig).parameters
    assert list(parameters) == list(DEFAULTS)
    by_keyword = [name for name, p in parameters.items() if p.kind is inspect.Parameter.KEYWORD_ONLY]
    assert by_keyword == list(DEFAULTS)[list(DEFAULTS).index("steps_per_loop") :]
    assert read(RunConfig("/m", 3, 7), DEFAULTS) == DEFAULTS | {
        "model_dir": "/m",
        "tf_random_seed": 3,
        "save_summary_steps": 7,
    }


@pytest.mark.parametrize(
    "given, steps, secs",
    [
        ({}, None, 600),
        ({"save_checkpoints_steps": 5}, 5, None),
        ({"save_checkpoints_secs": 7}, None, 7),
        ({"save_checkpoints_steps": 5, "save_checkpoints_secs": None}, 5, None),
        ({"save_checkpoints_steps": None, "save_checkpoints_secs": 7}, None, 7),
        ({"save_checkpoints_steps": None, "save_checkpoints_secs": None}, None, None),
        ({"save_checkpoints_steps": None}, None, None),
        ({"save_checkpoints_secs": None}, None, None),
    ],
)
def test_giving_one_checkpoint_interval_clears_the_other(given, steps, secs):
    config = RunConfig(**given)
    assert (config.save_checkpoints_steps, config.save_checkpoints_secs) == (steps, secs)


def test_integers_of_numpy_become_those_of_python():
    config = RunConfig(tf_random_seed=np.int64(3), accumulate_steps=np.int32(4)).replace(steps_per_loop=np.int64(5))
    assert config.tf_random_seed == 3 and config.accumulate_steps == 4 and config.steps_per_loop == 5
    assert {type(value) for value in (config.tf_random_seed, config.accumulate_steps, config.steps_per_loop)} == {int}


ACCEPTED = [
    ("save_summary_steps", 0),
    ("save_checkpoints_steps", 0),
    ("save_checkpoints_secs", 0.5),
    ("keep_checkpoint_max", 0),
    ("keep_checkpoint_max", None),
    ("keep_checkpoint_every_n_hours", 0.5),
    ("log_step_count_steps", None),
    ("protocol", "grpc"),
    ("protocol", "grpc+verbs"),
    ("device_fn", lambda op: "/cpu:0"),
    ("device_fn", functools.partial(lambda op, device: device, device="/cpu:0")),
    ("session_config", tf.compat.v1.ConfigProto(allow_soft_placement=True)),
    ("experimental_max_worker_delay_secs", 0),
    ("session_creation_timeout_secs", 1),
    ("steps_per_loop", 10),
    ("accumulate_steps", 4),
    ("mixed_precision", "float16"),
]

REFUSED = [
    ("model_dir", ""),
    ("tf_random_seed", 1.5),
    ("tf_random_seed", "1"),
    ("save_summary_steps", -1),
    ("save_summary_steps", "often"),
    ("save_checkpoints_steps", -1),
    ("save_checkpoints_secs", -1),
    ("session_config", {}),
    ("keep_checkpoint_max", -1),
    ("keep_checkpoint_every_n_hours", 0),
    ("log_step_count_steps", 0),
    ("device_fn", "/cpu:0"),
    ("device_fn", lambda node: "/cpu:0"),
    ("device_fn", lambda op, other: "/cpu:0"),
    ("protocol", "http"),
    ("experimental_max_worker_delay_secs", 1.5),
    ("session_creation_timeout_secs", 0),
    ("steps_per_loop", 0),
    ("steps_per_loop", 2.0),
    ("steps_per_loop", None),
    ("steps_per_loop", "automatic"),
    ("accumulate_steps", "auto"),
    ("accumulate_steps", 0),
    ("mixed_precision", "float8"),
]


@pytest.mark.parametrize("name, value", ACCEPTED)
def test_settings_at_the_edge_of_their_range_are_accepted(name, value):
    assert getattr(RunConfig(**{name: value}), name) == value
    assert getattr(RunConfig().replace(**{name: value}), name) == value


@pytest.mark.parametrize("name, value", REFUSED)
def test_a_bad_setting_is_refused_by_name_and_value(name, value):
    for build in (RunConfig, RunConfig().replace):
        with pytest.raises(ValueError) as refusal:
            build(**{name: value})
        assert str(refusal.value).startswith((f"{name} must be ", f"{name} should be "))
        assert str(refusal.value).endswith(f"got {value!r}.")


def test_both_checkpoint_intervals_are_refused():
    for build in (RunConfig, RunConfig().replace):
        with pytest.raises(ValueError, match="`save_checkpoints_secs` cannot be both set, got 5 and 7"):
            build(save_checkpoints_steps=5, save_checkpoints_secs=7)


def test_bound_methods_of_one_op_are_device_functions():
    device_fn = tf.compat.v1.train.replica_device_setter(ps_tasks=1)
    assert RunConfig(device_fn=device_fn).device_fn == device_fn


def test_unknown_arguments_raise_type_error():
    with pytest.raises(TypeError, match="save_steps"):
        RunConfig(save_steps=5)


def test_model_dir_may_be_a_path():
    assert RunConfig(pathlib.Path("/some/where")).model_dir == "/some/where"
    assert RunConfig().replace(model_dir=pathlib.Path("/else")).model_dir == "/else"


@pytest.mark.parametrize("name", [*DEFAULTS, *ALONE, "cluster_spec"])
def test_every_property_is_read_only(name):
    way = "TF_CONFIG and the strategy decide it"
    if name in DEFAULTS:
        way = rf"replace\({name}=\.\.\.\) makes a changed copy"
    with pytest.raises(AttributeError, match=f"^{name} of a RunConfig cannot be set; {way}\\.$"):
        setattr(RunConfig(), name, None)


def test_a_pickled_config_comes_back_with_the_same_settings():
    config = RunConfig("/m", save_checkpoints_steps=3, steps_per_loop=2)
    config.use_tpu = False
    assert vars(pickle.loads(pickle.dumps(config))) == vars(config)


def test_repr_shows_what_differs_from_the_defaults():
    assert repr(RunConfig("/m", save_summary_steps=7)) == "RunConfig(model_dir='/m', save_summary_steps=7)"


def test_vars_are_the_settings_and_the_place_in_the_cluster():
    settings = DEFAULTS | ALONE | {"model_dir": "/m", "cluster_spec": tf.train.ClusterSpec({})}
    settings["distribute_coordinator_mode"] = None
    assert vars(RunConfig("/m")) == {
        f"_{name}": value for name, value in settings.items()
    }  # the names of tf.estimator's log line


def test_attributes_can_be_added_and_are_in_copies():
    config = RunConfig()
    config.use_tpu = False
    assert config.replace(save_summary_steps=7).use_tpu is False


def test_a_subclass_overrides_properties():
    class Weekly(RunConfig):
        @property
        def save_checkpoints_steps(self):
            return 7

        @property
        def is_chief(self):
            return not super().is_chief

    config = Weekly(save_summary_steps=3).replace(keep_checkpoint_max=2)
    assert (config.save_checkpoints_steps, config.is_chief, config.keep_checkpoint_max) == (7, False, 2)


# Strategies


def test_strategies_are_stored_as_given(strategy):
    config = RunConfig(train_distribute=strategy, eval_distribute=strategy)
    assert config.train_distribute is strategy
    assert config.eval_distribute is strategy


def test_experimental_distribute_gives_both_strategies(strategy):
    distribute = types.SimpleNamespace(train_distribute=strategy, eval_distribute=strategy)
    for config in (
        RunConfig(experimental_distribute=distribute),
        RunConfig().replace(experimental_distribute=distribute),
    ):
        assert config.train_distribute is strategy
        assert config.eval_distribute is strategy
        assert config.replace(tf_random_seed=1).train_distribute is strategy


def test_experimental_distribute_completes_the_plain_arguments(strategy):
    distribute = types.SimpleNamespace(train_distribute=None, eval_distribute=strategy)
    config = RunConfig(train_distribute=strategy, experimental_distribute=distribute)
    assert config.train_distribute is strategy
    assert config.eval_distribute is strategy


@pytest.mark.parametrize("name", ["train_distribute", "eval_distribute"])
def test_a_strategy_given_twice_is_refused(strategy, name):
    distribute = types.SimpleNamespace(train_distribute=strategy, eval_distribute=strategy)
    with pytest.raises(ValueError, match=f"{name} is .* experimental_distribute has .*; give one"):
        RunConfig(**{name: strategy}, experimental_distribute=distribute)


@pytest.mark.parametrize("name", ["train_distribute", "eval_distribute"])
def test_the_tf2_parameter_server_strategy_is_refused(name):
    # Its constructor connects to a cluster.
    strategy = object.__new__(tf.distribute.ParameterServerStrategy)
    with pytest.raises(ValueError, match=f"{name} must be .*MirroredStrategy"):
        RunConfig(**{name: strategy})


@pytest.mark.parametrize("name", ["train_distribute", "eval_distribute"])
def test_a_strategy_that_ignores_gradients_of_a_replica_is_refused(name):
    reduction = tf.distribute.HierarchicalCopyAllReduce()
    odd = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1", "CPU:2"], cross_device_ops=reduction)
    with pytest.raises(ValueError, match=f"{name} has 3 replicas, and Hierarchical.* ignores .* take an even number"):
        RunConfig(**{name: odd})


def test_determinism_needs_a_seed():
    with pytest.raises(ValueError, match="deterministic=True needs a seed; give tf_random_seed=1"):
        RunConfig(deterministic=True)
    assert RunConfig(tf_random_seed=0).replace(deterministic=True).deterministic


# Copies


@pytest.mark.parametrize("name", DEFAULTS)
def test_replace_accepts_every_constructor_argument(name):
    value = {"save_checkpoints_secs": None, "steps_per_loop": 2}.get(name, DEFAULTS[name])
    assert getattr(RunConfig().replace(**{name: value}), name) == value


def test_replace_changes_a_copy():
    config = RunConfig("/m", tf_random_seed=1)
    replaced = config.replace(tf_random_seed=2, steps_per_loop=4)
    assert read(config, DEFAULTS) == DEFAULTS | {"model_dir": "/m", "tf_random_seed": 1}
    assert read(replaced, DEFAULTS) == (DEFAULTS | {"model_dir": "/m", "tf_random_seed": 2, "steps_per_loop": 4})


def test_replacing_one_checkpoint_interval_clears_the_other():
    every_5_steps = RunConfig().replace(save_checkpoints_steps=5)
    assert read(every_5_steps, ["save_checkpoints_steps", "save_checkpoints_secs"]) == {
        "save_checkpoints_steps": 5,
        "save_checkpoints_secs": None,
    }
    every_7_secs = every_5_steps.replace(save_checkpoints_secs=7)
    assert every_7_secs.save_checkpoints_steps is None
    assert every_7_secs.replace(tf_random_seed=1).save_checkpoints_secs == 7


def test_replace_keeps_disabled_checkpoints_disabled():
    config = RunConfig(save_checkpoints_steps=None, save_checkpoints_secs=None).replace(tf_random_seed=1)
    assert config.save_checkpoints_steps is None
    assert config.save_checkpoints_secs is None


@pytest.mark.parametrize("copied", [copy.deepcopy, RunConfig.replace])
def test_copies_share_the_strategy_and_copy_the_session_config(strategy, copied):
    session_config = tf.compat.v1.ConfigProto(allow_soft_placement=True)
    config = RunConfig(train_distribute=strategy, eval_distribute=strategy, session_config=session_config)
    other = copied(config)
    assert other is not config
    assert other.train_distribute is strategy
    assert other.eval_distribute is strategy
    assert other.session_config == session_config
    assert other.session_config is not session_config


def test_replace_keeps_the_cluster_task_despite_a_changed_environment(config_in, monkeypatch):
    config = config_in({"cluster": CLUSTER, "task": {"type": "worker", "index": 1}, "model_dir": "/m"})
    monkeypatch.setenv("TF_CONFIG", "not read again")
    replaced = config.replace(tf_random_seed=1, model_dir="/else")
    names = [*ALONE, "cluster_spec"]
    assert read(replaced, names) == read(config, names)
    assert replaced.task_id == 1
    assert replaced.model_dir == "/else"


def test_replace_keeps_a_subclass_and_its_attributes():
    class ProjectConfig(RunConfig):
        def __init__(self, project, **settings):
            super().__init__(**settings)
            self.project = project

    replaced = ProjectConfig("oct", tf_random_seed=1).replace(tf_random_seed=2)
    assert isinstance(replaced, ProjectConfig)
    assert (replaced.project, replaced.tf_random_seed) == ("oct", 2)


# TF_CONFIG


@pytest.mark.parametrize("tf_config", [None, "", "{}", '{"task": {"type": "worker", "index": 0}}'])
def test_without_a_cluster_the_process_is_a_chief_on_its_own(monkeypatch, tf_config):
    if tf_config is not None:
        monkeypatch.setenv("TF_CONFIG", tf_config)
    config = RunConfig()
    assert read(config, ALONE) == ALONE
    assert config.cluster_spec == tf.train.ClusterSpec({})


def test_a_cluster_gives_the_task_and_its_cluster_spec(config_in):
    tf_config = {"cluster": CLUSTER, "task": {"type": "worker", "index": 1}, "service": {"key": 1}}
    config = config_in(tf_config | {"eval_session_master": "grpc://b:1"})
    assert read(config, ALONE) == {
        "task_type": "worker",
        "task_id": 1,
        "global_id_in_cluster": 2,
        "is_chief": False,
        "num_worker_replicas": 3,
        "num_ps_replicas": 2,
        "master": "grpc://w:2",
        "evaluation_master": "grpc://b:1",
        "service": {"key": 1},
    }
    assert isinstance(config.cluster_spec, tf.train.ClusterSpec)
    assert config.cluster_spec.as_dict() == CLUSTER
    assert repr(config.cluster_spec) in repr(config)


def test_the_cluster_spec_of_an_evaluator_is_empty(config_in):
    config = config_in({"cluster": CLUSTER, "task": {"type": "evaluator", "index": 0}})
    assert (config.task_type, config.num_worker_replicas, config.global_id_in_cluster) == ("evaluator", 0, None)
    assert config.cluster_spec == tf.train.ClusterSpec({})


@pytest.mark.parametrize(
    "tf_config, error", [({"cluster": CLUSTER}, ValueError), ({"cluster": []}, TypeError), ([], ValueError)]
)
def test_a_wrong_tf_config_is_refused(config_in, tf_config, error):
    with pytest.raises(error, match="TF_CONFIG"):
        config_in(tf_config)


def test_task_types_are_here_as_in_tf_estimator():
    assert TaskType.EVALUATOR == "evaluator"


def test_model_dir_comes_from_tf_config(config_in):
    assert config_in({"model_dir": "/m"}).model_dir == "/m"
    assert config_in({"model_dir": "/m"}, model_dir="/m").model_dir == "/m"
    assert config_in({"model_dir": "/m"}, model_dir=pathlib.Path("/m")).model_dir == "/m"


def test_a_model_dir_that_differs_from_tf_config_is_refused(config_in):
    with pytest.raises(ValueError, match="model_dir is '/other', but TF_CONFIG has '/m'"):
        config_in({"model_dir": "/m"}, model_dir="/other")


def test_an_empty_model_dir_in_tf_config_is_refused(config_in):
    with pytest.raises(ValueError, match="model_dir in TF_CONFIG is ''"):
        config_in({"model_dir": ""}, model_dir="/m")


def test_a_cluster_under_a_strategy_is_left_to_the_strategy(config_in, strategy):
    tf_config = {
        "cluster": {"worker": ["w:1", "w:2"]},
        "task": {"type": "worker", "index": 1},
        "model_dir": "/m",
    }
    config = config_in(tf_config, train_distribute=strategy)
    assert config._distribute_coordinator_mode == "independent_worker"
    assert read(config, ALONE) == ALONE
    assert config.model_dir == "/m"


def test_a_chief_on_its_own_may_have_any_strategy(config_in, strategy):
    tf_config = {"cluster": {"chief": ["c:1"]}, "task": {"type": "chief", "index": 0}}
    config = config_in(tf_config, train_distribute=strategy)
    assert config.task_type == "chief" and config._distribute_coordinator_mode is None


@pytest.mark.parametrize("tf_config", [{}, {"cluster": CLUSTER, "task": {"type": "chief", "index": 0}}])
def test_without_a_strategy_there_is_no_coordinator(config_in, tf_config):
    assert config_in(tf_config)._distribute_coordinator_mode is None


def test_settings_are_under_their_old_private_names_too():
    """EasyRec, adanet and tensor2tensor read and set them."""
    config = RunConfig("runs/old", save_checkpoints_steps=7)
    assert (config._model_dir, config._save_checkpoints_steps) == (config.model_dir, 7)
    assert (config._is_chief, config._num_worker_replicas, config._task_type) == (True, 1, "worker")
    assert config._session_config is config.session_config
    config._is_chief = False
    assert not config.is_chief
