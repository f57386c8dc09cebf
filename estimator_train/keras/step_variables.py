"""Creates variables before the first step, because tf.function traces a function that creates variables twice."""

from __future__ import annotations

import tensorflow as tf
import tf_keras as keras

from estimator_train.session import private_names


def of_optimizer(model, strategy):
    """Makes the slots of `model.optimizer`, as its first update would."""
    optimizer = model.optimizer
    if isinstance(optimizer, keras.optimizers.Optimizer) and model.built:
        with strategy.scope():
            optimizer.build(model.trainable_variables)


def of_metrics(model, strategy, element_spec, data):
    """Makes what the compiled losses and metrics of a functional `model` keep.

    Which accuracy is meant by "accuracy", say, goes by the shapes of labels and predictions, and so do its variables.

    Args:
      element_spec: the `tf.TypeSpec` of the batches of all replicas.
      data: what makes of a replica's batch what Keras takes: (features[, labels[, sample weights]]).
    """
    if model.inputs is None or model.compiled_metrics is None or model.compiled_metrics.built:
        return

    # Losses and metrics of the user's own go through AutoGraph, as in the step.
    compiled_loss = private_names.with_autograph(model.compiled_loss)
    compute_metrics = private_names.with_autograph(model.compute_metrics)

    def update(batch):
        features, labels, weights = keras.utils.unpack_x_y_sample_weight(data(batch))
        predictions = tf.nest.map_structure(_placeholder, model.output)
        compiled_loss(labels, predictions, weights)
        compute_metrics(features, labels, predictions, weights)

    @tf.function(autograph=False)
    def update_replicas(batch):
        if not model.compiled_metrics.built:  # else this is the second trace, and the variables are there
            strategy.run(update, args=(batch,))

    update_replicas.get_concrete_function(element_spec)  # traced, and never run


def _placeholder(output):
    zeros = tf.zeros([size or 0 for size in output.shape], output.dtype)
    return tf.raw_ops.PlaceholderWithDefault(input=zeros, shape=output.shape)
