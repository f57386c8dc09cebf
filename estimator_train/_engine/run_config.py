"""RunConfig: settings for checkpoints, summaries, logs and distribution, and this process's task in a cluster."""

from __future__ import annotations

import copy
import inspect
import os
from collections.abc import Callable, Sequence
from numbers import Real
from typing import Any, Literal

import numpy as np
import tensorflow as tf

from estimator_train._engine.argument_names import argument_names
from estimator_train._engine.distribution.private_tensorflow import leaves_out_a_replica
from estimator_train._engine.distribution.strategies import let_memory_grow
from estimator_train._engine.host.cluster_task import ClusterTask, TaskType, has_several_tasks, read_tf_config
from estimator_train._engine.keras_forms import refuses_keras_arguments
from estimator_train._engine.types import Strategy

_UNSET: Any = object()  # distinguishes "not given" from None, which turns saving off


class RunConfig:
    """The settings of a run. They are read-only; `replace` returns a changed copy.

    The constructor reads TF_CONFIG from the environment. The defaults are those of tf.estimator.RunConfig. You may add
    attributes with other names, and subclasses may override the properties.

        >>> config = et.RunConfig(model_dir="runs/mine", save_checkpoints_steps=500)
        >>> config.replace(tf_random_seed=1).save_checkpoints_steps
        500

    Args:
      model_dir: directory of checkpoints and summaries, str or PathLike; None takes it from TF_CONFIG or the Estimator.
      tf_random_seed: int, the seed of a model_fn's graphs; for a Keras model, passed to `tf.random.set_seed` when
        training starts.
      save_summary_steps: global steps between summaries.
      save_checkpoints_steps: global steps between checkpoints. Setting it makes `save_checkpoints_secs` None, and vice
        versa; if both are None, no checkpoints are saved.
      save_checkpoints_secs: seconds between checkpoints; 600 if neither of the two is given.
      session_config: `tf.compat.v1.ConfigProto` of v1 sessions; None means tf.estimator's default. Keras models use
        only its `gpu_options.allow_growth` and `visible_device_list`, and ignore `device_fn`, `protocol` and
        `session_creation_timeout_secs`.
      keep_checkpoint_max: number of recent checkpoints to keep; 0 or None keeps all.
      keep_checkpoint_every_n_hours: additionally keeps one checkpoint per this many hours.
      log_step_count_steps: global steps between log lines of loss and global_step/sec; None turns them off.
      train_distribute, eval_distribute: `tf.distribute.Strategy` for `train` and `evaluate`, shared by copies.
      device_fn: function of one argument, `op`, that returns the op's device.
      protocol: protocol of the cluster's servers: None (grpc), "grpc" or "grpc+verbs".
      experimental_distribute: an object with the attributes `train_distribute` and `eval_distribute`, for these two.
      experimental_max_worker_delay_secs: int, the longest delay in seconds of the staggered start of workers.
      session_creation_timeout_secs: seconds to wait for a session.
      checkpoint_save_graph_def: whether to write graph.pbtxt and the meta graph.
      steps_per_loop: training steps per compiled call; hooks see the last one. "auto": up to the step that a hook
        needs to see (docs/hooks.md), for at most 0.2 seconds, 0.8 on a GPU. An int >= 1: always that many, up to the
        next checkpoint, log line or end. This and the following settings but the last apply to Keras models only.
      accumulate_steps: batches per replica whose mean gradient makes one update, and thus one global step, int >= 1.
      mixed_precision: "bfloat16" or "float16", the dtype in which layers compute, except output and preprocessing
        layers, or in a function that builds the model, those with a dtype; variables stay float32. For float16, Keras'
        LossScaleOptimizer scales the loss.
      recompute: whether to save memory by computing most activations again in the backward pass; for functional and
        Sequential models. Layers that cannot run twice, such as BatchNormalization and Dropout, are not recomputed: a
        model with one after every convolution saves memory only with `jit_compile`.
      jit_compile: whether to compile training steps with XLA. On several replicas, it compiles the forward and backward
        pass of each.
      async_checkpoints: whether training continues while a checkpoint is written; not available with synchronous
        workers.
      resume_input: whether `train` resumes the data where the checkpoint's training stopped, even inside an epoch,
        instead of starting from the beginning as tf.estimator does. The order of the data must be the same each time.
        The input_fns of this package skip directly to that position; for others, earlier examples are read and dropped.
      deterministic: whether a program trains to the same weights, to the bit, each time it runs on the same machine, by
        TensorFlow's op determinism, for the whole process: ops take slower kernels, and an op without one raises an
        error. Needs `tf_random_seed`; set a seed before you build a Keras model, too, with
        `keras.utils.set_random_seed`. For a model_fn as well.

    Raises:
      ValueError: If a setting is out of range, settings conflict, or TF_CONFIG is invalid.
      TypeError: If `cluster`, `task` or `service` in TF_CONFIG is not a JSON object.
    """

    _other_checkpoint_steps: tuple[int, ...] = ()  # evaluations need checkpoints at their multiples, too

    @refuses_keras_arguments
    def __init__(
        self,
        model_dir: str | os.PathLike[str] | None = None,
        tf_random_seed: int | None = None,
        save_summary_steps: int | None = 100,
        save_checkpoints_steps: int | None = _UNSET,
        save_checkpoints_secs: float | None = _UNSET,
        session_config: tf.compat.v1.ConfigProto | None = None,
        keep_checkpoint_max: int | None = 5,
        keep_checkpoint_every_n_hours: float | None = 10000,
        log_step_count_steps: int | None = 100,
        train_distribute: tf.distribute.Strategy | None = None,
        device_fn: Callable[[tf.Operation], str] | None = None,
        protocol: str | None = None,
        eval_distribute: tf.distribute.Strategy | None = None,
        experimental_distribute: object | None = None,
        experimental_max_worker_delay_secs: int | None = None,
        session_creation_timeout_secs: float | None = 7200,
        checkpoint_save_graph_def: bool = True,
        *,
        steps_per_loop: int | Literal["auto"] = "auto",
        accumulate_steps: int = 1,
        mixed_precision: str | None = None,
        recompute: bool = False,
        jit_compile: bool = False,
        async_checkpoints: bool = False,
        resume_input: bool = False,
        deterministic: bool = False,
    ) -> None:
        self._model_dir: Any = model_dir
        self._tf_random_seed = tf_random_seed
        self._save_summary_steps = save_summary_steps
        self._save_checkpoints_steps = save_checkpoints_steps
        self._save_checkpoints_secs = save_checkpoints_secs
        self._session_config = session_config
        self._keep_checkpoint_max = keep_checkpoint_max
        self._keep_checkpoint_every_n_hours = keep_checkpoint_every_n_hours
        self._log_step_count_steps = log_step_count_steps
        self._train_distribute = train_distribute
        self._device_fn = device_fn
        self._protocol = protocol
        self._eval_distribute = eval_distribute
        self._experimental_distribute = experimental_distribute
        self._experimental_max_worker_delay_secs = experimental_max_worker_delay_secs
        self._session_creation_timeout_secs = session_creation_timeout_secs
        self._checkpoint_save_graph_def = checkpoint_save_graph_def
        self._steps_per_loop = steps_per_loop
        self._accumulate_steps = accumulate_steps
        self._mixed_precision = mixed_precision
        self._recompute = recompute
        self._jit_compile = jit_compile
        self._async_checkpoints = async_checkpoints
        self._resume_input = resume_input
        self._deterministic = deterministic
        self._normalize_and_check()
        self._take_task(read_tf_config())

    @property
    def model_dir(self) -> str | Any:  # None only until an Estimator has the config
        return self._model_dir

    @property
    def tf_random_seed(self) -> int | None:
        return self._tf_random_seed

    @property
    def save_summary_steps(self) -> int | None:
        return self._save_summary_steps

    @property
    def save_checkpoints_steps(self) -> int | None:
        return self._save_checkpoints_steps

    @property
    def save_checkpoints_secs(self) -> float | None:
        return self._save_checkpoints_secs

    @property
    def session_config(self) -> tf.compat.v1.ConfigProto | None:
        return self._session_config

    @property
    def keep_checkpoint_max(self) -> int | None:
        return self._keep_checkpoint_max

    @property
    def keep_checkpoint_every_n_hours(self) -> float | None:
        return self._keep_checkpoint_every_n_hours

    @property
    def log_step_count_steps(self) -> int | None:
        return self._log_step_count_steps

    @property
    def train_distribute(self) -> tf.distribute.Strategy | None:
        return self._train_distribute

    @property
    def device_fn(self) -> Callable[[tf.Operation], str] | None:
        return self._device_fn

    @property
    def protocol(self) -> str | None:
        return self._protocol

    @property
    def eval_distribute(self) -> tf.distribute.Strategy | None:
        return self._eval_distribute

    @property
    def experimental_distribute(self) -> object | None:  # always None: it has given the two strategies
        return self._experimental_distribute

    @property
    def experimental_max_worker_delay_secs(self) -> int | None:
        return self._experimental_max_worker_delay_secs

    @property
    def session_creation_timeout_secs(self) -> float | None:
        return self._session_creation_timeout_secs

    @property
    def checkpoint_save_graph_def(self) -> bool:
        return self._checkpoint_save_graph_def

    @property
    def steps_per_loop(self) -> int | Literal["auto"]:
        return self._steps_per_loop

    @property
    def accumulate_steps(self) -> int:
        return self._accumulate_steps

    @property
    def mixed_precision(self) -> str | None:
        return self._mixed_precision

    @property
    def recompute(self) -> bool:
        return self._recompute

    @property
    def jit_compile(self) -> bool:
        return self._jit_compile

    @property
    def async_checkpoints(self) -> bool:
        return self._async_checkpoints

    @property
    def resume_input(self) -> bool:
        return self._resume_input

    @property
    def deterministic(self) -> bool:
        return self._deterministic

    @property
    def cluster_spec(self) -> tf.train.ClusterSpec:
        """The cluster's jobs and addresses; empty if there is no cluster."""
        return self._cluster_spec

    @property
    def task_type(self) -> str:
        """One of `TaskType`."""
        return self._task_type

    @property
    def task_id(self) -> int:
        """Index of the task among the tasks of its type."""
        return self._task_id

    @property
    def global_id_in_cluster(self) -> int | None:
        """Index among all tasks of the cluster: the chief first, then by their jobs' names, parameter servers last."""
        return self._global_id_in_cluster

    @property
    def is_chief(self) -> bool:
        """Whether this task writes checkpoints and event files."""
        return self._is_chief

    @property
    def num_worker_replicas(self) -> int:
        """Number of tasks that train, including the chief."""
        return self._num_worker_replicas

    @property
    def num_ps_replicas(self) -> int:
        """Number of parameter servers."""
        return self._num_ps_replicas

    @property
    def master(self) -> str:
        """Address of the server that training sessions connect to; "" means this process."""
        return self._master

    @property
    def evaluation_master(self) -> str:
        """Address of the server that evaluation sessions connect to."""
        return self._evaluation_master

    @property
    def service(self) -> dict | None:
        """The `service` entry of TF_CONFIG."""
        return self._service

    def __setattr__(self, name: str, value: object) -> None:
        own = vars(RunConfig).get(name)
        if isinstance(own, property) and getattr(type(self), name) is own:  # a subclass may have another in its place
            way = "TF_CONFIG and the strategy decide it"
            if name in _SETTINGS:
                way = f"replace({name}=...) makes a changed copy"
            raise AttributeError(f"{name} of a RunConfig cannot be set; {way}.")
        super().__setattr__(name, value)

    def _take_task(self, tf_config: dict[str, Any]) -> None:
        """Takes this process' task, and what goes with it, from a decoded TF_CONFIG and the strategy."""
        coordinated = self.train_distribute is not None and has_several_tasks(tf_config)
        is_synchronous = isinstance(self.train_distribute, tf.distribute.MultiWorkerMirroredStrategy)
        if is_synchronous:
            task = ClusterTask.from_tf_config(tf_config | _cluster_of(self.train_distribute), synchronous=True)
        elif coordinated:  # other strategies have no cluster, so their config stays local
            task = ClusterTask()
        else:
            task = ClusterTask.from_tf_config(tf_config)
        self._cluster_spec = tf.train.ClusterSpec(task.cluster)
        self._task_type = task.task_type
        self._task_id = task.task_id
        self._global_id_in_cluster = task.global_id_in_cluster
        self._is_chief = task.is_chief
        self._num_worker_replicas = task.num_worker_replicas
        self._num_ps_replicas = task.num_ps_replicas
        self._master = task.master
        self._evaluation_master = task.evaluation_master
        self._service = task.service
        self._model_dir = _agreed_model_dir(self.model_dir, tf_config)
        self._distribute_coordinator_mode = "independent_worker" if coordinated else None
        if task.cluster and not is_synchronous and self.session_config is None:
            self._session_config = default_session_config(_device_filters(task))

    @property
    def _checkpoint_steps(self) -> tuple[int, ...]:
        """The numbers of global steps at whose multiples checkpoints are saved."""
        return (self.save_checkpoints_steps, *self._other_checkpoint_steps) if self.save_checkpoints_steps else ()

    def replace(self, **changes: Any) -> RunConfig:
        """Returns a copy with some constructor arguments changed, for the same task of the cluster.

        Changing one of `save_checkpoints_steps` and `save_checkpoints_secs` sets the other to None.

        Raises ValueError if a name is not a constructor argument, or the constructor would reject a value.
        """
        for name in changes:
            if name not in _SETTINGS:
                raise ValueError(f"Replacing {name} is not supported. Allowed properties are {_SETTINGS}.")
        if not changes.keys().isdisjoint(("save_checkpoints_steps", "save_checkpoints_secs")):
            changes = {"save_checkpoints_steps": _UNSET, "save_checkpoints_secs": _UNSET, **changes}
        replaced = copy.deepcopy(self)
        vars(replaced).update({f"_{name}": value for name, value in changes.items()})
        replaced._normalize_and_check()
        return replaced

    def __deepcopy__(self, memo: dict[int, Any]) -> RunConfig:
        # Variables are bound to the strategy object that made them, so a copied config must keep that object.
        for strategy in (self.train_distribute, self.eval_distribute):
            memo[id(strategy)] = strategy
        copied = copy.copy(self)
        vars(copied).update(copy.deepcopy(vars(self), memo))
        return copied

    def __repr__(self) -> str:
        """Shows the settings that differ from the defaults, and the task of a cluster, but no long session_config."""
        shown = [name for name, default in _DEFAULTS.items() if getattr(self, name) != default]
        if self.cluster_spec:
            shown += ["cluster_spec", "task_type", "task_id"]
        return f"{type(self).__name__}({', '.join(f'{name}={_short(getattr(self, name))}' for name in shown)})"

    def _normalize_and_check(self) -> None:
        settings = {name: vars(self)[f"_{name}"] for name in _SETTINGS}
        settings |= {name: int(value) for name, value in settings.items() if isinstance(value, np.integer)}
        if settings["model_dir"] is not None:
            settings["model_dir"] = os.fspath(settings["model_dir"])
        settings["save_checkpoints_steps"], settings["save_checkpoints_secs"] = _checkpoint_interval(
            settings["save_checkpoints_steps"], settings["save_checkpoints_secs"]
        )
        if settings["experimental_distribute"] is not None:
            for name in ("train_distribute", "eval_distribute"):
                settings[name] = _only_strategy(name, settings[name], settings["experimental_distribute"])
            settings["experimental_distribute"] = None
        _check(settings)
        vars(self).update({f"_{name}": value for name, value in settings.items()})


_SETTINGS = list(inspect.signature(RunConfig).parameters)

_DEFAULTS = {name: parameter.default for name, parameter in inspect.signature(RunConfig).parameters.items()}
_DEFAULTS |= {"save_checkpoints_steps": None, "save_checkpoints_secs": 600}
del _DEFAULTS["session_config"]  # for __repr__, where it would be long


def _short(value: object) -> str:
    if isinstance(value, tf.distribute.Strategy):
        return f"<{type(value).__name__} of {value.num_replicas_in_sync} replicas>"
    return repr(value)


def _check(settings: dict[str, Any]) -> None:
    for name, (requirement, holds) in _REQUIREMENTS.items():
        if (settings[name] is not None or name in _COUNTS) and not holds(settings[name]):
            raise ValueError(f"{name} {requirement}, got {settings[name]!r}.")
    if settings["deterministic"] and settings["tf_random_seed"] is None:
        raise ValueError("deterministic=True needs a seed; give tf_random_seed=1, or another int, too.")
    for name in ("train_distribute", "eval_distribute"):
        if settings[name] is not None and leaves_out_a_replica(settings[name]):
            raise ValueError(
                f"{name} has {settings[name].num_replicas_in_sync} replicas, and HierarchicalCopyAllReduce ignores "
                "the gradients of an odd one; take an even number of replicas, or other cross_device_ops."
            )


def _is_count(value: object) -> bool:
    return isinstance(value, int) and value >= 1


_NOT_NEGATIVE = ("should be >= 0, or None", lambda value: isinstance(value, Real) and value >= 0)  # type: ignore[operator]
_POSITIVE = ("should be > 0, or None", lambda value: isinstance(value, Real) and value > 0)  # type: ignore[operator]
_INTEGER = ("must be integer, or None", lambda value: isinstance(value, int))
_FLAG = ("must be True or False", lambda value: isinstance(value, (bool, np.bool_)))
_SUPPORTED_STRATEGY = (
    "must be a tf.distribute.MirroredStrategy or MultiWorkerMirroredStrategy, such as those that "
    "estimator_train.distribution makes (an Estimator cannot drive the TF 2 ParameterServerStrategy)",
    lambda value: (
        isinstance(value, (tf.distribute.Strategy, tf.compat.v1.distribute.Strategy))
        and not isinstance(value, tf.distribute.ParameterServerStrategy)
    ),
)

# The requirement on each setting, which may be None unless it is a count: its wording in the error, and the predicate.
_REQUIREMENTS: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "model_dir": ("should be non-empty, or None", bool),
    "tf_random_seed": _INTEGER,
    "save_summary_steps": _NOT_NEGATIVE,
    "save_checkpoints_steps": _NOT_NEGATIVE,
    "save_checkpoints_secs": _NOT_NEGATIVE,
    "session_config": (
        "must be instance of ConfigProto, or None",
        lambda value: isinstance(value, tf.compat.v1.ConfigProto),
    ),
    "keep_checkpoint_max": _NOT_NEGATIVE,
    "keep_checkpoint_every_n_hours": _POSITIVE,
    "log_step_count_steps": _POSITIVE,
    "train_distribute": _SUPPORTED_STRATEGY,
    "device_fn": (
        'must be callable with exactly one argument "op", or None',
        lambda value: callable(value) and argument_names(value) == ["op"],
    ),
    "protocol": ("should be grpc or grpc+verbs, or None", lambda value: value in ("grpc", "grpc+verbs")),
    "eval_distribute": _SUPPORTED_STRATEGY,
    "experimental_max_worker_delay_secs": _INTEGER,
    "session_creation_timeout_secs": _POSITIVE,
    "mixed_precision": ("must be 'bfloat16', 'float16' or None", lambda value: value in ("bfloat16", "float16")),
    "steps_per_loop": ("must be an int >= 1 or 'auto'", lambda value: value == "auto" or _is_count(value)),
    "accumulate_steps": ("must be an int >= 1", _is_count),
    "recompute": _FLAG,
    "jit_compile": _FLAG,
    "async_checkpoints": _FLAG,
    "resume_input": _FLAG,
    "deterministic": _FLAG,
}
_COUNTS = ("steps_per_loop", "accumulate_steps")


def default_session_config(device_filters: Sequence[str] = ()) -> tf.compat.v1.ConfigProto:
    """Returns the default config of an Estimator's v1 sessions: soft placement and one pass of the graph optimizers."""
    session_config = tf.compat.v1.ConfigProto(
        allow_soft_placement=True,
        graph_options=tf.compat.v1.GraphOptions(rewrite_options={"meta_optimizer_iterations": 1}),
        device_filters=device_filters,
    )
    # With a config of its own, a session would open all GPUs, and not only those that `tf.config` has made visible.
    there, visible = tf.config.list_physical_devices("GPU"), tf.config.get_visible_devices("GPU")
    if visible != there:
        session_config.gpu_options.visible_device_list = ",".join(str(there.index(gpu)) for gpu in visible)
        if not visible:  # an empty list means all
            session_config.device_count["GPU"] = 0
    if visible and all(tf.config.experimental.get_memory_growth(gpu) for gpu in visible):
        session_config.gpu_options.allow_growth = True
    return session_config


def use_gpu_options(session_config: tf.compat.v1.ConfigProto) -> None:
    """Applies the GPU options of a v1 session's config, but no fraction of memory, to TensorFlow's runtime."""
    # TensorFlow opens each GPU once, with the options it has by then, so a model_fn's session would come too late as
    # well if the program runs anything eagerly before it.
    options = session_config.gpu_options
    try:
        if options.visible_device_list:
            there = tf.config.list_physical_devices("GPU")
            indices = map(int, options.visible_device_list.split(","))
            tf.config.set_visible_devices([there[index] for index in indices if index < len(there)], "GPU")
        if options.allow_growth:
            let_memory_grow(tf.config.get_visible_devices("GPU"))
    except RuntimeError:
        tf.get_logger().warning(
            "gpu_options of session_config come too late: TensorFlow has opened its GPUs already. Create the Estimator "
            "before anything else uses TensorFlow."
        )


def _device_filters(task: ClusterTask) -> list[str]:
    """Returns the tasks that a task sees: itself and parameter servers, so that no trainer waits for a lost worker."""
    if task.task_type == TaskType.PS:
        return ["/job:ps", "/job:worker", "/job:chief", "/job:master"]
    if task.task_type == TaskType.WORKER:
        return ["/job:ps", f"/job:worker/task:{task.task_id}"]
    return ["/job:ps", f"/job:{task.task_type}"]


def _checkpoint_interval(steps: int | None, secs: float | None) -> tuple[int | None, float | None]:
    """Returns (steps, secs), at most one of which is not None."""
    if steps is _UNSET and secs is _UNSET:
        return None, 600
    steps = None if steps is _UNSET else steps
    secs = None if secs is _UNSET else secs
    if steps is not None and secs is not None:
        raise ValueError(
            f"`save_checkpoints_steps` and `save_checkpoints_secs` cannot be both set, got {steps!r} and {secs!r}."
        )
    return steps, secs


def _only_strategy(name: str, given: Strategy | None, experimental_distribute: object) -> Strategy | None:
    experimental = getattr(experimental_distribute, name)
    if given is not None and experimental is not None:
        raise ValueError(f"{name} is {given!r}, but experimental_distribute has {experimental!r}; give one.")
    return given if experimental is None else experimental


def _agreed_model_dir(model_dir: str | None, tf_config: dict[str, Any]) -> str | None:
    from_environment = tf_config.get("model_dir")
    if from_environment is None:
        return model_dir
    if not from_environment:
        raise ValueError("model_dir in TF_CONFIG is ''; set it to a directory or remove the key.")
    if model_dir not in (None, from_environment):
        raise ValueError(f"model_dir is {model_dir!r}, but TF_CONFIG has {from_environment!r}; give one.")
    return from_environment


def _cluster_of(strategy: tf.distribute.MultiWorkerMirroredStrategy) -> dict[str, Any]:
    """Returns the cluster and task of a MultiWorkerMirroredStrategy, in the form of TF_CONFIG."""
    resolver = strategy.cluster_resolver
    cluster = resolver.cluster_spec().as_dict()
    if not cluster:
        return {}
    return {"cluster": cluster, "task": {"type": resolver.task_type, "index": resolver.task_id}}
