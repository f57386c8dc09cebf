"""Private names of tf_keras and Keras 3 that this package uses, each behind a function."""

from typing import Any

import tensorflow as tf

from estimator_train._engine.libraries import private_names_of


@private_names_of("tf_keras", "keras")
def compile_arguments(model: Any) -> dict[str, Any]:
    """Returns the `compile()` arguments, in v1 graphs without the optimizer; get_compile_config() fails for lambdas."""
    if hasattr(model, "_compile_weighted_metrics"):
        metrics = {"metrics": model._compile_metrics, "weighted_metrics": model._compile_weighted_metrics}
        return metrics | {"loss": model.loss, "loss_weights": model.loss_weights}
    return dict(model._compile_config.config)


@private_names_of("keras")
def compiled_loss(model: Any) -> Any:
    """Returns the object that computes the compiled losses of a Keras 3 model, or None if it has none."""
    return model._compile_loss


@private_names_of("keras")
def losses_in(compiled: Any) -> list[Any]:
    """Returns the losses of outputs in a `compiled_loss` that has been built."""
    return [getattr(part, "loss", part) for part in compiled._flat_losses]


@private_names_of("tf_keras", "keras")
def mask_of(prediction: tf.Tensor) -> tf.Tensor | None:
    """Returns the mask that a layer has attached for losses; public properties only work for symbolic tensors."""
    return getattr(prediction, "_keras_mask", None)


@private_names_of("tf_keras", "keras")
def attach_mask(prediction: tf.Tensor, mask: tf.Tensor | None) -> None:
    """Makes losses and metrics of `prediction` read `mask`, unless it is None."""
    if mask is not None:
        prediction._keras_mask = mask
