"""TPUEstimator(use_tpu=False): an Estimator that passes the batch size of each mode in `params`."""

from __future__ import annotations

import abc
import dataclasses
import enum
import functools
import inspect
import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from estimator_train import estimator_v1
from estimator_train._engine.argument_names import argument_names
from estimator_train._engine.events import event_writer
from estimator_train._engine.graph.warm_start import WarmStartSettings
from estimator_train._engine.hooks import check_hooks
from estimator_train._engine.model_fn import EstimatorSpec, ModeKeys, ModelFn
from estimator_train._engine.session.timer import StepTimer
from estimator_train.compat.drop_in.tpu.tpu_config import RunConfig
from estimator_train.export import ExportOutput

v1 = tf.compat.v1
log = tf.get_logger()

_RESERVED_PARAMS = ("batch_size", "context")
_HOOKS = ("training_hooks", "evaluation_hooks", "prediction_hooks")

# A function and its tensor arguments, as a list or as a dict keyed by name.
HostCall = tuple[Callable[..., Any], Sequence[Any] | dict[str, Any]]


class ExportSavedModelApiVersion(enum.Enum):
    """How a SavedModel for TPUs is written; has no effect on CPUs and GPUs."""

    V1 = 1
    V2 = 2


class _TPUEstimatorSpec(NamedTuple):
    mode: str
    predictions: Any = None
    loss: tf.Tensor | None = None
    train_op: tf.Operation | tf.Tensor | None = None
    eval_metrics: HostCall | None = None
    export_outputs: dict[str, ExportOutput] | None = None
    scaffold_fn: Callable[[], tf.compat.v1.train.Scaffold] | None = None
    host_call: HostCall | None = None
    training_hooks: Iterable[tf.compat.v1.train.SessionRunHook] = ()
    evaluation_hooks: Iterable[tf.compat.v1.train.SessionRunHook] = ()
    prediction_hooks: Iterable[tf.compat.v1.train.SessionRunHook] = ()


class TPUEstimatorSpec(_TPUEstimatorSpec):
    """The spec that a `TPUEstimator`'s model_fn returns: an `EstimatorSpec` with functions for metrics and scaffold.

        def metric_fn(labels, logits):
            return {"accuracy": tf.compat.v1.metrics.accuracy(labels, tf.argmax(logits, 1))}

        return TPUEstimatorSpec(mode, loss=loss, eval_metrics=(metric_fn, {"labels": labels, "logits": logits}))

    The arguments of the function in `eval_metrics` are the tensors behind it, a list or a dict keyed by name; it
    returns the eval_metric_ops of an `EstimatorSpec`. `host_call` is such a pair, too; the ops or tensors that its
    function returns are run with each step of training, evaluation and prediction.
    """

    __slots__ = ()

    __signature__ = inspect.signature(_TPUEstimatorSpec)

    def __new__(cls, *args: Any, **kwargs: Any) -> TPUEstimatorSpec:
        spec = super().__new__(cls, *args, **kwargs)
        _check_host_call("eval_metrics", spec.eval_metrics)
        _check_host_call("host_call", spec.host_call)
        if spec.predictions is None:
            spec = spec._replace(predictions={})
        hooks: dict[str, Any] = {name: check_hooks(getattr(spec, name)) for name in _HOOKS}
        return spec._replace(**hooks)

    def as_estimator_spec(self) -> EstimatorSpec:
        """Converts the spec to an `EstimatorSpec`, and raises what its constructor raises."""
        arguments: dict[str, Any] = {name: getattr(self, name) for name in ("export_outputs", *_HOOKS)}
        if self.eval_metrics is not None:
            arguments["eval_metric_ops"] = _call(self.eval_metrics)
        if self.host_call is not None:
            host_hook = _HostCallHook(_call(self.host_call))
            arguments |= {name: (*arguments[name], host_hook) for name in _HOOKS}
        if self.scaffold_fn:
            arguments["scaffold"] = self.scaffold_fn()
        return EstimatorSpec(self.mode, self.predictions, self.loss, self.train_op, **arguments)


class _OneBaseForBoth(abc.ABCMeta):
    """Allows bases (Estimator, TPUEstimator), by dropping Estimator, which is already a base of TPUEstimator."""

    def __new__(mcls, name, bases, namespace, **kwargs):
        derived = {base for other in bases for base in other.__mro__[1:]}
        return super().__new__(mcls, name, tuple(base for base in bases if base not in derived), namespace, **kwargs)


class TPUEstimator(estimator_v1.Estimator, metaclass=_OneBaseForBoth):
    """An `Estimator` that passes `params["batch_size"]` to input_fn and model_fn; runs on CPUs and GPUs.

        estimator = TPUEstimator(model_fn, config=RunConfig(model_dir="runs/a"), use_tpu=False, train_batch_size=32)
        estimator.train(lambda params: dataset.batch(params["batch_size"]), max_steps=1000)

    `export_saved_model` passes no batch size. An incomplete last batch is not dropped. The model_fn may return a
    `TPUEstimatorSpec`, and its `params["use_tpu"]` is False; `params` may be a `tf.contrib.training.HParams`. Arguments
    for TPUs alone are ignored.
    """

    def __init__(
        self,
        model_fn: ModelFn,
        model_dir: str | os.PathLike[str] | None = None,
        config: RunConfig | None = None,
        params: Any = None,
        use_tpu: bool = True,
        train_batch_size: int | None = None,
        eval_batch_size: int | None = None,
        predict_batch_size: int | None = None,
        batch_axis: Sequence[int] | None = None,
        eval_on_tpu: bool = True,
        export_to_tpu: bool = True,
        export_to_cpu: bool = True,
        warm_start_from: str | os.PathLike[str] | WarmStartSettings | None = None,
        embedding_config_spec: Any = None,
        export_saved_model_api_version: ExportSavedModelApiVersion = ExportSavedModelApiVersion.V1,
    ) -> None:
        if use_tpu or embedding_config_spec is not None:
            raise ValueError(
                "TPUs and their embeddings are not supported; TPUEstimator(use_tpu=False) runs on CPUs and GPUs."
            )
        _check(config, params or {})
        sizes = {ModeKeys.TRAIN: train_batch_size, ModeKeys.EVAL: eval_batch_size, ModeKeys.PREDICT: predict_batch_size}
        self._batch_sizes = _checked_sizes(sizes)
        if "params" in argument_names(model_fn):
            params = params or {}
        elif self._batch_sizes:
            raise ValueError(
                f"model_fn ({model_fn}) does not include params argument, required by TPUEstimator to pass batch size "
                "as params['batch_size']"
            )
        super().__init__(_for_estimator(model_fn), model_dir, config, params, warm_start_from)

    def _prepare(self, mode, input_fn, checkpoint, last_step, hooks=()):
        batch_size = self._batch_sizes.get(mode)
        if batch_size is not None and "params" not in argument_names(input_fn):
            raise ValueError(
                f"input_fn ({input_fn}) does not include params argument, required by TPUEstimator to pass batch size "
                'as params["batch_size"]'
            )
        run = super()._prepare(mode, input_fn, checkpoint, last_step, hooks)
        every_steps = self.config.log_step_count_steps
        if mode == ModeKeys.TRAIN and batch_size is not None and every_steps and self.config.is_chief:
            rate = _ExamplesPerSecondHook(batch_size, every_steps, self._config.model_dir)
            run = dataclasses.replace(run, input_hooks=(*run.input_hooks, rate))
        return run

    def _params_in(self, mode):
        params = super()._params_in(mode)
        if mode in self._batch_sizes:
            _set(params, "batch_size", self._batch_sizes[mode])
        return params


def _for_estimator(model_fn):
    """Returns a model_fn with the same arguments that returns an `EstimatorSpec`."""

    @functools.wraps(model_fn)
    def call(**arguments):
        if "params" in arguments:
            _set(arguments["params"], "use_tpu", False)
        spec = model_fn(**arguments)
        return spec.as_estimator_spec() if isinstance(spec, TPUEstimatorSpec) else spec

    return call


class _HostCallHook(tf.compat.v1.train.SessionRunHook):
    """Runs `fetches` with every step, and opens and flushes the graph's tf.summary writers."""

    def __init__(self, fetches):
        self._fetches = fetches

    def begin(self):
        operations = v1.get_default_graph().get_operations()
        self._open_writers = [each for each in operations if each.type == "CreateSummaryFileWriter"]
        self._flush_writers = [tf.raw_ops.FlushSummaryWriter(writer=each.inputs[0]) for each in self._open_writers]

    def after_create_session(self, session, coord):
        session.run(self._open_writers)

    def before_run(self, run_context):
        return v1.train.SessionRunArgs(self._fetches)

    def end(self, session):
        session.run(self._flush_writers)


class _ExamplesPerSecondHook(tf.compat.v1.train.SessionRunHook):
    """Logs examples/sec every `every_steps` global steps and writes it to the event files of `model_dir`."""

    def __init__(self, batch_size, every_steps, model_dir):
        self._batch_size = batch_size
        self._timer = StepTimer(every_steps=every_steps)
        self._model_dir = model_dir

    def begin(self):
        self._step = v1.train.get_global_step()
        self._writer = event_writer(self._model_dir)
        self._timer.reset()

    def after_create_session(self, session, coord):
        self._timer.update_last_triggered_step(session.run(self._step))

    def before_run(self, run_context):
        return v1.train.SessionRunArgs(self._step)

    def after_run(self, run_context, run_values):
        step = run_values.results
        if self._timer.should_trigger_for_step(step):
            seconds, steps = self._timer.update_last_triggered_step(step)
            rate = self._batch_size * steps / seconds
            log.info("examples/sec: %g", rate)
            summary = v1.Summary(value=[v1.Summary.Value(tag="examples/sec", simple_value=rate)])
            self._writer.add_summary(summary, step)


def _check(config, params):
    if not isinstance(config, RunConfig):
        raise ValueError(
            f"config must be provided with type tpu_config.RunConfig, given: {config!r}; "
            "tf.compat.v1.estimator.tpu.RunConfig takes all arguments of tf.estimator.RunConfig."
        )
    reserved = [name for name in _RESERVED_PARAMS if name in params]
    if reserved:
        raise ValueError(f"{list(_RESERVED_PARAMS)} are reserved keys but existed in params {params}: {reserved}")


def _checked_sizes(sizes):
    """Returns the batch sizes that are given."""
    given = {mode: size for mode, size in sizes.items() if size}
    for size in given.values():
        if not isinstance(size, int) or size < 0:
            raise ValueError(f"A batch size must be a positive int, given: {size!r}")
    return given


def _set(params, name, value):
    """Sets an item of `params`, the Estimator's copy of a dict or a tf.contrib.training.HParams."""
    if not hasattr(params, "set_hparam"):
        params[name] = value
    elif name in params:
        params.set_hparam(name, value)
    else:
        params.add_hparam(name, value)


def _call(host_call):
    function, tensors = host_call
    return function(**tensors) if isinstance(tensors, dict) else function(*tensors)


def _check_host_call(name, host_call):
    if host_call is None:
        return
    if not isinstance(host_call, (tuple, list)) or len(host_call) != 2:
        raise ValueError(f"{name} should be tuple or list of two elements, (function, tensors), given: {host_call!r}")
    function, tensors = host_call
    if not callable(function):
        raise TypeError(f"{name}[0] should be callable, given: {function!r}")
    if not isinstance(tensors, (tuple, list, dict)):
        raise ValueError(f"{name}[1] should be tuple or list, or dict, given: {tensors!r}")
    if isinstance(tensors, dict):
        return
    try:
        inspect.signature(function).bind(*tensors)
    except TypeError as error:
        raise RuntimeError(
            f"In TPUEstimatorSpec.{name}, length of tensors {len(tensors)} does not match method args of the function "
            f"{function}: {error}"
        ) from error
