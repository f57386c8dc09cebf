"""add_metrics: extends the evaluation of an Estimator with custom metrics."""

from estimator_train import estimator_v1
from estimator_train._engine.argument_names import argument_names
from estimator_train._engine.keras_forms import is_model, shown
from estimator_train._engine.types import MetricFn
from estimator_train.estimator import Estimator

_ARGUMENTS = ("features", "labels", "predictions", "config")


def add_metrics(estimator: Estimator, metric_fn: MetricFn) -> Estimator:
    """Returns an `Estimator` with the same model and directory, whose `evaluate` adds the metrics of `metric_fn`.

        >>> def metric_fn(labels, predictions):
        ...     error = keras.metrics.MeanAbsoluteError()
        ...     error.update_state(labels, *predictions.values())
        ...     return {"mae": error}
        >>> estimator = et.add_metrics(estimator, metric_fn)
        >>> sorted(estimator.evaluate(eval_input_fn))
        ['global_step', 'loss', 'mae']

    Args:
      estimator: an `Estimator` of a Keras model or of a model_fn.
      metric_fn: a function of any of `features`, `labels`, `predictions` and `config`, which returns a dict of metric
        names to Keras metrics or v1 (value, update op) pairs. They replace metrics of the model that have the same
        name. A Keras model's predictions are a dict keyed by output name. Other arguments raise ValueError.

    Raises TypeError if `estimator` is no Estimator, or `metric_fn` no function.
    """
    if not isinstance(estimator, Estimator):
        way = "; pass what et.model_to_estimator returns for it" if is_model(estimator) else ""
        raise TypeError(f"estimator must be an Estimator, given: {shown(estimator)}{way}.")
    if not callable(metric_fn) or hasattr(metric_fn, "update_state"):
        raise TypeError(
            f"metric_fn must be a function that returns a dict of names to updated metrics, given: {shown(metric_fn)}; "
            "compile a Keras model with its metrics instead."
        )
    unexpected = [name for name in argument_names(metric_fn) if name not in _ARGUMENTS]
    if unexpected:
        raise ValueError(
            f"metric_fn ({metric_fn}) has following not expected args: {unexpected}; it can have {list(_ARGUMENTS)}."
        )
    kind = estimator_v1.Estimator if hasattr(estimator, "export_savedmodel") else Estimator
    return kind(estimator._model.with_metrics(metric_fn), config=estimator.config, params=estimator.params)
