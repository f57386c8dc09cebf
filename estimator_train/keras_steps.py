"""The compiled steps of a Keras model over the replicas of a strategy, as Keras' own fit, evaluate and predict do them."""

from __future__ import annotations

import tensorflow as tf

from estimator_train.distribution import batch_size

# Values that a step gives beside the model's own: how many examples it took over all replicas, and the seconds that it
# waited for them.
EXAMPLES = "estimator_train/examples"
INPUT_SECONDS = "estimator_train/input_seconds"
ABOUT_STEP = (EXAMPLES, INPUT_SECONDS)


def training(model, strategy, global_step, rename):
    """A tf.function (iterator, count) -> (done, values) that runs up to `count` training steps.

    `values` is a dict: what `model.train_step` returned for the last step's batch, each through `rename(logs)`, and
    EXAMPLES and INPUT_SECONDS over all steps done. `done`, int64, is less than `count` where the data ended.
    """

    def replica_step(batch):
        logs = model.train_step(_keras_data(batch))
        with tf.control_dependencies(tf.nest.flatten(logs)):
            model.reset_metrics()  # a step's values are of its own batch, not running means over the epoch
        return rename(logs), batch_size(batch)

    return _loop(_compile(replica_step, model.jit_compile), strategy, global_step)


def evaluation(model, strategy, rename):
    """As `training`, with `model.test_step`; `values` are those of all examples since `model.reset_metrics()`."""

    def replica_step(batch):
        return rename(model.test_step(_keras_data(batch))), batch_size(batch)

    return _loop(_compile(replica_step, model.jit_compile), strategy)


def prediction(model):
    """A tf.function (iterator, count) -> (1, dict of output names to one batch of predictions).

    Raises `tf.errors.OutOfRangeError` at the end of the data.
    """
    predict_step = _compile(lambda features: _by_output_name(model, model.predict_step((features,))), model.jit_compile)

    @tf.function
    def predict(iterator, count):
        del count  # always 1
        batch = iterator.get_next()
        features = batch[0] if isinstance(batch, tuple) else batch
        return tf.constant(1, tf.int64), predict_step(features)

    return predict


def _loop(replica_step, strategy, global_step=None):
    @tf.function
    def step(batch):
        logs, examples = strategy.run(replica_step, args=(batch,))
        logs = {name: _mean(strategy, value) for name, value in logs.items()}
        return logs, strategy.reduce(tf.distribute.ReduceOp.SUM, examples, axis=None)

    @tf.function
    def loop(iterator, count):
        logs, examples = tf.nest.map_structure(
            lambda spec: tf.zeros(spec.shape, spec.dtype),
            step.get_concrete_function(iterator.element_spec).structured_outputs,
        )
        done, seconds = tf.constant(0, tf.int64), tf.constant(0.0, tf.float64)
        for _ in tf.range(count):
            with tf.control_dependencies([done]):
                asked = tf.timestamp()
            with tf.control_dependencies([asked]):
                batch = iterator.get_next_as_optional()
                has_batch = batch.has_value()
            # A step must not run, nor count, when the data has ended: not even its ops that need no data do.
            if not has_batch:
                break
            data = batch.get_value()
            with tf.control_dependencies(tf.nest.flatten(data, expand_composites=True)):
                seconds += tf.timestamp() - asked
            logs, more = step(data)
            examples += more
            with tf.control_dependencies(tf.nest.flatten(logs)):
                done += 1
                if global_step is not None:
                    global_step.assign_add(1)
        return done, {**logs, EXAMPLES: examples, INPUT_SECONDS: seconds}

    return loop


def _compile(function, jit_compile):
    return tf.function(function, jit_compile=True, reduce_retracing=True) if jit_compile else function


def _mean(strategy, value):
    """One value of the replicas' values. Keras metrics are summed over the replicas already, so that all agree."""
    if tf.as_dtype(strategy.experimental_local_results(value)[0].dtype).is_floating:
        return strategy.reduce(tf.distribute.ReduceOp.MEAN, value, axis=None)
    return strategy.experimental_local_results(value)[0]


def _keras_data(batch):
    """(features, labels[, sample weights]) as Keras takes it; tf.estimator put sample weights among the features."""
    features, *rest = batch if isinstance(batch, tuple) else (batch,)
    if isinstance(features, dict) and features.keys() == {"features", "sample_weights"} and len(rest) == 1:
        return features["features"], rest[0], features["sample_weights"]
    return (features, *rest)


def _by_output_name(model, predictions):
    if isinstance(predictions, dict):
        return predictions
    predictions = list(predictions) if isinstance(predictions, (list, tuple)) else [predictions]
    names = model.output_names or [f"output_{index}" for index, _ in enumerate(predictions, 1)]
    return dict(zip(names, predictions, strict=True))
