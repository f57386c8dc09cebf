import numpy as np
import pytest
import tensorflow as tf
import tf_keras as keras

from estimator_train import Estimator, EstimatorSpec, RunConfig
from estimator_train._engine.graph.optimizers import train_op
from estimator_train.heads import RegressionHead

v1 = tf.compat.v1
schedules = keras.optimizers.schedules


def train(make_optimizer, steps=3):
    """Returns the variables and the global step after steps towards a loss of 0, in a new graph."""
    with tf.Graph().as_default():
        variables = [v1.get_variable("a", initializer=[1.0, -2.0]), v1.get_variable("b", initializer=[[0.5]])]
        loss = tf.add_n([tf.reduce_sum(tf.square(variable)) for variable in variables])
        op = train_op(make_optimizer(), loss, variables)
        step = v1.train.get_global_step()
        with v1.Session() as session:
            session.run(v1.global_variables_initializer())
            for _ in range(steps):
                session.run(op)
            values = session.run(variables)
            return np.concatenate([value.flatten() for value in values]), session.run(step)


def train_eagerly(optimizer, steps=3):
    variables = [tf.Variable([1.0, -2.0]), tf.Variable([[0.5]])]
    for _ in range(steps):
        with tf.GradientTape() as tape:
            loss = tf.add_n([tf.reduce_sum(tf.square(variable)) for variable in variables])
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
    return np.concatenate([variable.numpy().flatten() for variable in variables])


NEW_OPTIMIZERS = [
    ("Adadelta", {"rho": 0.8}),
    ("Adagrad", {"initial_accumulator_value": 0.2}),
    ("Adam", {"beta_1": 0.7, "amsgrad": True}),
    ("Adamax", {"beta_2": 0.9}),
    ("Ftrl", {"l1_regularization_strength": 0.01, "beta": 0.1}),
    ("Nadam", {"beta_1": 0.8}),
    ("RMSprop", {"rho": 0.8, "momentum": 0.5, "centered": True}),
    ("SGD", {"momentum": 0.5, "nesterov": True}),
    ("SGD", {"clipnorm": 0.1}),
    ("SGD", {"clipvalue": 0.1}),
    ("SGD", {"global_clipnorm": 0.1}),
    ("SGD", {"learning_rate": schedules.ExponentialDecay(0.1, 1, 0.5)}),
]


@pytest.mark.parametrize(
    ("name", "settings", "made_in"),
    [
        *((*case, "eager mode") for case in NEW_OPTIMIZERS),
        (*NEW_OPTIMIZERS[2], "the graph"),
        (*NEW_OPTIMIZERS[-1], "the graph"),
        *(
            pytest.param(*case, "the graph", marks=pytest.mark.slow)
            for case in (*NEW_OPTIMIZERS[:2], *NEW_OPTIMIZERS[3:-1])
        ),
    ],
)
def test_new_keras_optimizers_train_in_a_graph_as_they_do_eagerly(name, settings, made_in):
    settings = {"learning_rate": 0.1, **settings}
    eager = getattr(keras.optimizers, name)(**settings)
    values, step = train(lambda: eager if made_in == "eager mode" else getattr(keras.optimizers, name)(**settings))
    assert values == pytest.approx(train_eagerly(eager), abs=1e-5)
    assert step == 3


@pytest.mark.parametrize(
    "make",
    [
        lambda: keras.optimizers.legacy.SGD(0.25),
        lambda: keras.optimizers.SGD(0.25),
        lambda: v1.train.GradientDescentOptimizer(0.25),
        lambda: v1.train.GradientDescentOptimizer(tf.constant(0.25)),
        lambda: keras.optimizers.legacy.SGD(lambda: tf.constant(0.25)),
    ],
)
def test_a_step_follows_the_gradient_and_is_counted(make):
    values, step = train(make, steps=1)
    assert values.tolist() == [0.5, -1.0, 0.25]
    assert step == 1


@pytest.mark.parametrize(
    ("rate", "replicas"),
    [pytest.param(0.1, 2, marks=pytest.mark.slow), (schedules.ExponentialDecay(0.1, 1, 0.5), 1)],
    ids=["a rate", "a schedule"],
)
def test_a_new_keras_optimizers_own_variables_are_not_initialised_or_saved(tmp_path, rate, replicas):
    def model_fn(features):
        v = v1.get_variable("v", initializer=1.0)
        loss = tf.reduce_mean(features) * v
        return EstimatorSpec("train", loss=loss, train_op=train_op(keras.optimizers.SGD(rate), loss, [v]))

    strategy = tf.distribute.MirroredStrategy([f"CPU:{i}" for i in range(replicas)])
    estimator = Estimator(model_fn, tmp_path, RunConfig(train_distribute=strategy))
    estimator.train(lambda: tf.data.Dataset.from_tensors([1.0]).repeat(), steps=2)
    names = set(estimator.get_variable_names())
    assert {"global_step", "v"} < names and not {name for name in names if name.startswith(("iter", "current"))}
    assert estimator.get_variable_value("v") == pytest.approx(0.8 if rate == 0.1 else 0.85)


def test_a_new_keras_optimizer_trains_in_one_graph_after_the_other():
    optimizer = keras.optimizers.Adam(0.1)
    assert train(lambda: optimizer)[0].tolist() == train(lambda: optimizer)[0].tolist()


def test_a_new_keras_optimizer_of_another_graph_trains():
    with tf.Graph().as_default():
        optimizer = keras.optimizers.SGD(0.25)
    assert train(lambda: optimizer, steps=1)[0].tolist() == [0.5, -1.0, 0.25]


def test_an_optimizer_that_counts_in_the_global_step_already():
    def make():
        optimizer = keras.optimizers.legacy.SGD(0.25)
        optimizer.iterations = v1.train.get_or_create_global_step()
        return optimizer

    assert train(make)[1] == 3


def test_a_legacy_optimizer_of_another_graph_is_refused():
    optimizer = keras.optimizers.legacy.SGD(0.25)
    train(lambda: optimizer)
    with pytest.raises(ValueError, match="SGD optimizer has been used in another graph"):
        train(lambda: optimizer)


@pytest.mark.parametrize("kind", [keras.optimizers.legacy.SGD, v1.train.GradientDescentOptimizer])
def test_one_of_two_optimizers_counts_the_steps(kind):
    with tf.Graph().as_default():
        first, second = v1.get_variable("first", initializer=1.0), v1.get_variable("second", initializer=1.0)
        ops = [
            train_op(kind(0.25), first**2, [first]),
            train_op(kind(0.25), second**2, [second], counts_steps=False),
        ]
        step = v1.train.get_global_step()
        with v1.Session() as session:
            session.run(v1.global_variables_initializer())
            session.run(ops)
            assert session.run([first, second, step]) == [0.5, 0.5, 1]


class MyAdam(keras.optimizers.Adam):
    pass


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: keras.optimizers.AdamW(0.1), "AdamW cannot train in a v1 graph and has no equivalent"),
        (lambda: keras.optimizers.Lion(0.1), "Lion cannot train in a v1 graph and has no equivalent"),
        (lambda: MyAdam(0.1), "MyAdam cannot train in a v1 graph and has no equivalent"),
        (lambda: keras.optimizers.Adam(0.1, weight_decay=0.01), "has no weight_decay; remove it"),
        (lambda: keras.optimizers.SGD(0.1, use_ema=True), "has no use_ema; remove it"),
        (
            lambda: keras.optimizers.Adam(v1.train.exponential_decay(0.1, v1.train.create_global_step(), 1, 0.5)),
            "would never update its learning rate",
        ),
        (lambda: "adam", "The given optimizer is not a tf.keras.optimizers.Optimizer instance, .* Given: 'adam'"),
    ],
)
def test_an_optimizer_that_would_train_otherwise_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        train(make)


LEGACY, NEW, V1 = keras.optimizers.legacy.SGD, keras.optimizers.SGD, v1.train.GradientDescentOptimizer


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "shared", "reduction"),
    [
        (LEGACY, True, "sum"),
        (NEW, True, "sum_over_batch_size"),
        (LEGACY, False, "sum_over_batch_size"),
        (V1, True, "sum_over_batch_size"),
    ],
)
def test_replicas_average_their_gradients_or_add_up_summed_losses(
    kind, shared, reduction, tmp_path, mirrored, log_lines
):
    # Weights of TensorFlow 2.15.1's LinearRegressor with a legacy SGD. It reported a loss of 42, the sum, for the mean.
    weight, loss = {"sum_over_batch_size": (1.7, 21.0), "sum": (6.8, 84.0)}[reduction]
    outside = kind(0.1)

    def model_fn(features, labels, mode):
        kernel = v1.get_variable("kernel", initializer=[[0.0]])
        return RegressionHead(loss_reduction=reduction).create_estimator_spec(
            features,
            mode,
            features["x"] @ kernel,
            labels,
            optimizer=outside if shared else kind(0.1),
            trainable_variables=[kernel],
        )

    def input_fn():
        x = np.arange(4, dtype=np.float32)[:, np.newaxis]
        return tf.data.Dataset.from_tensor_slices(({"x": x}, 2 * x + 1)).batch(2)

    config = RunConfig(train_distribute=mirrored(2), save_summary_steps=None)
    estimator = Estimator(model_fn, tmp_path, config)
    estimator.train(input_fn, steps=1)
    assert estimator.get_variable_value("kernel").item() == pytest.approx(weight)
    assert estimator.get_variable_value("global_step") == 1
    assert f"Loss for final step: {loss}." in log_lines
