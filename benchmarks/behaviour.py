"""Behaviours of tf.estimator that programs rely on, one function each, for TensorFlow 2.15 and for today's.

    python benchmarks/behaviour.py                           # TensorFlow 2.15
    python -m estimator_train run benchmarks/behaviour.py    # today's

Each function returns numbers, strings and lists of them. `python -m benchmarks.compare_tf215` shows both side by side,
and tests/test_behaviour.py has the values of TensorFlow 2.15.1.
"""

import json
import tempfile

import numpy as np
import tensorflow as tf

v1 = tf.compat.v1
X = np.arange(12, dtype="float32").reshape(6, 2)
Y = X.sum(axis=1, keepdims=True) + 1


def warm_start_from_a_path():
    """Returns the weight before and after training with a learning rate of 0, warm-started from a training with 0.5."""
    column = [tf.feature_column.numeric_column("x")]
    optimizers = [tf.keras.optimizers.legacy.SGD(0.5), tf.keras.optimizers.legacy.SGD(0.0)]
    first = tf.estimator.LinearClassifier(column, optimizer=lambda: optimizers[0])
    first.train(_rows, steps=2)
    second = tf.estimator.LinearClassifier(column, optimizer=lambda: optimizers[1], warm_start_from=first.model_dir)
    second.train(_rows, steps=2)
    return [float(each.get_variable_value("linear/linear_model/x/weights")[0, 0]) for each in (first, second)]


def warm_start_with_an_optimizer_of_v1():
    """A weight, BatchNorm's moving mean and Adam's moment after training and after a warm-started step of rate 0."""

    def model_fn(features, labels, mode, params):
        normed = v1.layers.batch_normalization(features["x"][:, None], training=True, name="norm")
        weight = v1.get_variable("weight", [], initializer=v1.ones_initializer())
        loss = tf.reduce_mean(weight * normed**2)
        optimizer = v1.train.AdamOptimizer(params["rate"])
        train_op = optimizer.minimize(loss, v1.train.get_global_step(), var_list=[weight])
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)

    first = tf.estimator.Estimator(model_fn, params={"rate": 0.5}).train(_rows, steps=1)
    second = tf.estimator.Estimator(model_fn, params={"rate": 0.0}, warm_start_from=first.model_dir)
    second.train(_rows, steps=1)
    return [float(each.get_variable_value(name)) for name in ("weight", "weight/Adam") for each in (first, second)]


def keras_model_of_a_graph():
    """Returns losses of a Keras model that was created in a v1 graph, before and after training."""
    with tf.Graph().as_default():
        model = tf.keras.Sequential(
            [
                tf.keras.layers.Dense(4, "relu", kernel_initializer=_uniform(), input_shape=(2,)),
                tf.keras.layers.Dense(1, kernel_initializer=_uniform()),
            ]
        )
        model.compile(v1.train.AdamOptimizer(0.1), "mse", metrics=["mae"])
        estimator = tf.keras.estimator.model_to_estimator(model)
        results = [estimator.evaluate(_dataset)]
        results.append(estimator.train(_dataset).evaluate(_dataset))
        prediction = next(estimator.predict(_dataset))["dense_1"]
    return [float(result[name]) for result in results for name in ("loss", "mae")] + [float(prediction[0])]


def keras_model_with_trained_weights_of_a_graph():
    """Returns the loss of a Keras model that was fitted in a v1 graph, in its session and in its Estimator."""
    with tf.Graph().as_default():
        model = tf.keras.Sequential([tf.keras.layers.Dense(1, kernel_initializer=_uniform(), input_shape=(2,))])
        model.compile(tf.keras.optimizers.legacy.SGD(0.01), "mse")
        model.fit(X, Y, batch_size=6, epochs=2, verbose=0)
        estimator = tf.keras.estimator.model_to_estimator(model)
        return [float(model.evaluate(X, Y, batch_size=2, verbose=0)), float(estimator.evaluate(_dataset)["loss"])]


def keras_steps_that_are_no_whole_number():
    """Returns the global steps after training for 2.5 steps, for 0.5 more, and up to 4.5."""
    estimator = _keras_estimator()
    steps = []
    for limit in ({"steps": 2.5}, {"steps": 0.5}, {"max_steps": 4.5}):
        estimator.train(lambda: _dataset().repeat(), **limit)
        steps.append(int(estimator.get_variable_value(_global_step(estimator))))
    return steps


def keras_input_fn_of_tensors():
    """Losses of a Keras model fed with tensors, arrays, an iterator's tensors and an unpacked numpy_input_fn."""
    rows = v1.estimator.inputs.numpy_input_fn(X, Y, batch_size=2, shuffle=False)

    def unpacked():
        features, labels = rows()
        return features, labels

    def of_iterator():
        return v1.data.make_one_shot_iterator(_dataset()).get_next()

    losses = []
    for input_fn in (lambda: (tf.constant(X), tf.constant(Y)), lambda: (X, Y), of_iterator, rows, unpacked):
        estimator = _keras_estimator().train(input_fn, steps=3)
        losses.append(float(estimator.evaluate(input_fn, steps=3)["loss"]))
        predictions = estimator.predict(input_fn)
        losses.append(float(next(iter(next(predictions).values()))[0]))
        predictions.close()
        tf.keras.backend.clear_session()
    return losses


def run_config_with_attributes_and_overrides():
    """Returns an attribute added to a RunConfig and one that a subclass overrides, as the Estimator sees them."""

    class Config(tf.estimator.RunConfig):
        @property
        def keep_checkpoint_max(self):
            return 17

    config = Config()
    config.use_tpu = "no"
    estimator = tf.estimator.Estimator(_constant_model_fn, config=config)
    return [estimator.config.use_tpu, estimator.config.keep_checkpoint_max]


def empty_model_dir():
    """Returns whether a model_dir of "" is a temporary directory."""
    return str(tf.estimator.Estimator(_constant_model_fn, model_dir="").model_dir.startswith(tempfile.gettempdir()))


def session_config():
    """Returns the default session_config of an Estimator."""
    config = tf.estimator.Estimator(_constant_model_fn).config.session_config
    return [str(config.allow_soft_placement), config.graph_options.rewrite_options.meta_optimizer_iterations]


def numpy_input_fn_unpacked():
    """Returns weighted sums of the batches of a numpy_input_fn that an input_fn unpacks."""
    rows = v1.estimator.inputs.numpy_input_fn({"x": X}, Y, batch_size=4, shuffle=False)

    def input_fn():
        features, labels = rows()
        return {"x": 2 * features["x"]}, 3 * labels

    def model_fn(features, labels, mode):
        return tf.estimator.EstimatorSpec(mode, loss=tf.reduce_sum(features["x"]) + 100 * tf.reduce_sum(labels))

    return float(tf.estimator.Estimator(model_fn).evaluate(input_fn)["loss"])


def logits_of_unknown_rank():
    """Predictions of a head from logits whose shape is known only at run time, first a valid, then an invalid one."""
    head = tf.estimator.BinaryClassHead()
    results = []
    for logits in ([[0.0], [0.0]], [[0.0, 0.0], [0.0, 0.0]]):
        with tf.Graph().as_default(), v1.Session() as session:
            fed = v1.placeholder(tf.float32)
            try:
                predictions = head.predictions(fed)["probabilities"]
                results.append(session.run(predictions, {fed: logits}).tolist())
            except tf.errors.InvalidArgumentError as error:
                results.append(type(error).__name__)
    return results


def spec_of_eager_tensors():
    """Returns the loss of an EstimatorSpec created in eager mode, as in unit tests of a model_fn."""
    spec = tf.estimator.EstimatorSpec("train", loss=tf.constant(3.0), train_op=tf.constant(1))
    return float(spec.loss)


def arrays_reach_model_fn():
    """Returns the types of features and labels of an input_fn that returns an array and a list."""
    seen = []

    def model_fn(features, labels, mode):
        seen.extend([type(features["x"]).__name__, type(labels).__name__])
        loss = tf.reduce_mean(tf.cast(features["x"], tf.float32)) + tf.reduce_mean(tf.cast(labels, tf.float32))
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=v1.assign_add(v1.train.get_global_step(), 1))

    tf.estimator.Estimator(model_fn).train(lambda: ({"x": X}, [1.0, 2.0]), steps=2)
    return seen


def initial_values_of_a_seed():
    """Initial values of a model_fn's variables with tf_random_seed, and of Keras layers with set_random_seed."""

    def model_fn(features, labels, mode):
        by_v1 = v1.get_variable("by_v1", [2], initializer=v1.random_normal_initializer())
        glorot = v1.get_variable("glorot", [2, 1])
        by_keras = v1.layers.dense(features["x"][:, None], 2, name="by_keras")
        loss = tf.reduce_sum(by_v1) + tf.reduce_sum(glorot) + tf.reduce_mean(by_keras)
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=v1.assign_add(v1.train.get_global_step(), 1))

    tf.keras.utils.set_random_seed(3)
    config = tf.estimator.RunConfig(tf_random_seed=5)
    estimator = tf.estimator.Estimator(model_fn, config=config).train(_rows, steps=1)
    names = ["by_v1", "glorot", "by_keras/kernel"]
    return [float(value) for name in names for value in estimator.get_variable_value(name).ravel()]


def _rows():
    return tf.data.Dataset.from_tensors(({"x": [1.0, 3.0]}, [1, 0])).repeat()


def _dataset():
    return tf.data.Dataset.from_tensor_slices((X, Y)).batch(2)


def _uniform():
    return tf.keras.initializers.RandomUniform(-0.5, 0.5, seed=4)


def _keras_estimator():
    model = tf.keras.Sequential([tf.keras.layers.Dense(1, kernel_initializer="ones", input_shape=(2,))])
    model.compile(tf.keras.optimizers.legacy.SGD(0.001), "mse")
    return tf.keras.estimator.model_to_estimator(model)


def _global_step(estimator):
    """Returns the global step under the name it has in object-based checkpoints of 2.15."""
    return next(name for name in estimator.get_variable_names() if "global_step" in name and "CONFIG" not in name)


def _constant_model_fn(features, labels, mode):
    return tf.estimator.EstimatorSpec(mode, loss=tf.constant(1.0))


BEHAVIOURS = [
    warm_start_from_a_path,
    warm_start_with_an_optimizer_of_v1,
    keras_model_of_a_graph,
    keras_model_with_trained_weights_of_a_graph,
    keras_steps_that_are_no_whole_number,
    keras_input_fn_of_tensors,
    run_config_with_attributes_and_overrides,
    empty_model_dir,
    session_config,
    numpy_input_fn_unpacked,
    logits_of_unknown_rank,
    spec_of_eager_tensors,
    arrays_reach_model_fn,
    initial_values_of_a_seed,
]


def main():
    results = {}
    for behaviour in BEHAVIOURS:
        results[behaviour.__name__] = behaviour()
        tf.keras.backend.clear_session()
    print("results: " + json.dumps(results))


if __name__ == "__main__":
    main()
