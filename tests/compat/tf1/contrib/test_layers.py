"""tf.contrib.layers: initializers, regularizers, layers under contrib's names, optimize_loss, feature columns.

TensorFlow 1.15.5 (Python 3.7, tensorflow==1.15.5 with protobuf<3.21) ran these tests once with
`layers = tf.contrib.layers`, and all hold there but the message for an unknown mode and those of feature columns: it
sorts them otherwise, calls the table of a column `weights` below the column's name, and makes no one-hot of a
bucketized column.
"""

import numpy as np
import pytest
import tensorflow as tf

from estimator_train.compat.tf1.contrib import layers
from estimator_train.compat.tf1.contrib.framework import arg_scope, get_model_variables

v1 = tf.compat.v1


def test_initializers_draw_what_tensorflows_draw(run):
    pairs = [
        (layers.xavier_initializer(seed=3), v1.glorot_uniform_initializer(seed=3)),
        (layers.variance_scaling_initializer(uniform=True, seed=3),
         v1.variance_scaling_initializer(2.0, distribution="uniform", seed=3)),
        (layers.variance_scaling_initializer(1.0, "FAN_OUT", True, 3),
         v1.variance_scaling_initializer(1.0, "fan_out", "uniform", 3)),
    ]  # fmt: skip
    for shape in ([5, 7], [3, 3, 4, 6]):
        for ours, theirs in pairs:
            np.testing.assert_allclose(*run([ours(shape), theirs(shape, tf.float32)]), rtol=1e-6)
    normal = run(layers.variance_scaling_initializer(seed=1)([400, 300]))
    assert normal.std() == pytest.approx((2 / 400) ** 0.5, rel=0.02) and abs(normal).max() < 2.1 * (2.6 / 400) ** 0.5
    with pytest.raises(TypeError, match="Unknown mode fan"):
        layers.variance_scaling_initializer(mode="fan")


def test_regularizers_are_functions_of_weights(run):
    weights = tf.constant([[1.0, -2.0]])
    penalties = [layers.l1_regularizer(0.5), layers.l2_regularizer(0.1), layers.l1_l2_regularizer(0.5, 0.1)]
    assert run([penalty(weights) for penalty in penalties]) == pytest.approx([1.5, 0.25, 1.75])
    assert layers.l2_regularizer(0.0)(weights) is None
    assert run(layers.sum_regularizer([penalties[0], None, layers.l2_regularizer(0.0)])(weights)) == 1.5
    total = layers.apply_regularization(penalties[1], [weights, weights])
    assert run(total) == pytest.approx(0.5)
    assert v1.get_collection(v1.GraphKeys.REGULARIZATION_LOSSES) == [total]
    with pytest.raises(ValueError, match="scale cannot be an integer: 1"):
        layers.l1_regularizer(1)


def test_layers_have_contribs_names_and_defaults(run):
    images = tf.ones([2, 8, 8, 3])
    with arg_scope([layers.conv2d, layers.fully_connected], weights_regularizer=layers.l2_regularizer(0.1)):
        net = layers.conv2d(images, 4, [3, 3], normalizer_fn=layers.batch_norm, scope="first")
        net = layers.max_pool2d(net, 2)
        net = layers.conv2d_transpose(net, 2, 3, stride=2)
        net = layers.avg_pool2d(net, 2)
        net = layers.fully_connected(layers.flatten(net), 5)
        net = layers.layer_norm(net)
        logits = layers.linear(layers.dropout(net, is_training=False), 2, scope="logits")
    assert {variable.op.name: variable.shape.as_list() for variable in get_model_variables()} == {
        "first/weights": [3, 3, 3, 4],
        "first/BatchNorm/beta": [4],
        "first/BatchNorm/moving_mean": [4],
        "first/BatchNorm/moving_variance": [4],
        "Conv2d_transpose/weights": [3, 3, 2, 4],
        "Conv2d_transpose/biases": [2],
        "fully_connected/weights": [32, 5],
        "fully_connected/biases": [5],
        "LayerNorm/beta": [5],
        "LayerNorm/gamma": [5],
        "logits/weights": [5, 2],
        "logits/biases": [2],
    }
    assert len(v1.get_collection(v1.GraphKeys.REGULARIZATION_LOSSES)) == 3
    assert len(v1.get_collection(v1.GraphKeys.UPDATE_OPS)) == 2
    assert logits.shape == (2, 2) and np.isfinite(run(logits)).all()
    with v1.variable_scope("", reuse=True):
        again = layers.linear(net, 2, scope="logits", reuse=True)
    assert np.array_equal(*run([logits, again]))


@pytest.mark.parametrize("owner", ["framework", "slim"])
def test_one_scope_holds_for_slim_and_contrib_layers(contrib, owner):
    slim, both = contrib.slim, [contrib.slim.conv2d, contrib.layers.fully_connected]
    settings = {"weights_regularizer": contrib.layers.l2_regularizer(0.1), "normalizer_fn": slim.batch_norm}
    images = np.random.RandomState(0).normal(size=[16, 4, 4, 1]).astype("float32")
    with getattr(contrib, owner).arg_scope(both, normalizer_params={"decay": 0.5}, **settings):
        net = slim.conv2d(images, 2, 3, scope="conv")
        logits = contrib.layers.fully_connected(slim.flatten(net), 1, activation_fn=None, scope="logits")
    v1.losses.mean_squared_error(images.mean((1, 2)), logits)
    penalty, loss = v1.losses.get_regularization_loss(), v1.losses.get_total_loss()
    train_op = contrib.training.create_train_op(loss, v1.train.AdamOptimizer(0.1))
    variables = {variable.op.name: variable for variable in contrib.framework.get_model_variables()}
    for layer in ("conv", "logits"):
        assert f"{layer}/biases" not in variables  # the normalizer has its own
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        before = session.run([loss, penalty, variables])
        for _ in range(30):
            session.run(train_op)
        after = session.run([loss, penalty, variables])
    weights = [before[2][f"{layer}/weights"] for layer in ("conv", "logits")]
    assert before[1] == pytest.approx(0.1 * sum((each**2).sum() / 2 for each in weights), rel=1e-5)
    assert after[0] < before[0] and after[1] < before[1] / 2
    for layer in ("conv", "logits"):
        name = f"{layer}/BatchNorm/moving_mean"
        assert np.abs(before[2][name]).max() == 0 < np.abs(after[2][name]).min()


def test_batch_norm_updates_with_its_outputs_when_it_has_no_collection(run):
    outputs = layers.batch_norm(tf.constant([[1.0], [3.0]]), decay=0.5, updates_collections=None, scale=True)
    (mean,) = [variable for variable in v1.global_variables() if variable.op.name.endswith("moving_mean")]
    assert v1.get_collection(v1.GraphKeys.UPDATE_OPS) == []
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        np.testing.assert_allclose(session.run(outputs), [[-1], [1]], atol=1e-3)
        assert session.run(mean) == pytest.approx([1.0])


def test_stacks_and_embeddings(run):
    net = layers.stack(tf.ones([1, 3]), layers.fully_connected, [4, 5], scope="mlp")
    net = layers.repeat(net, 2, layers.fully_connected, 5, scope="again")
    embedded = layers.embed_sequence(tf.constant([[1, 2]]), vocab_size=3, embed_dim=4)
    assert run([net, embedded])[1].shape == (1, 2, 4)
    assert [variable.op.name for variable in v1.trainable_variables()][::2] == [
        "mlp/mlp_1/weights",
        "mlp/mlp_2/weights",
        "again/again_1/weights",
        "again/again_2/weights",
        "EmbedSequence/embeddings",
    ]


@pytest.mark.parametrize(
    "optimizer",
    ["SGD", v1.train.GradientDescentOptimizer, lambda rate: v1.train.GradientDescentOptimizer(learning_rate=rate)],
    ids=["name", "class", "function"],
)
def test_optimize_loss_steps_clips_and_decays(optimizer):
    weight = v1.get_variable("weight", initializer=[3.0, 4.0])
    step = v1.train.get_or_create_global_step()
    loss = tf.reduce_sum(weight * weight) / 2  # its gradient is the weight, of norm 5
    train = layers.optimize_loss(
        loss, step, 0.5, optimizer, clip_gradients=1.0, learning_rate_decay_fn=lambda rate, step: rate * 2,
        gradient_multipliers={"weight": 10.0},
    )  # fmt: skip
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        assert session.run(train) == 12.5
        assert session.run([weight, step])[0] == pytest.approx([3 - 0.6, 4 - 0.8])
        rate = next(variable for variable in v1.global_variables() if variable.op.name == "OptimizeLoss/learning_rate")
        assert session.run([step, rate]) == [1, 0.5]
    assert len(v1.get_collection(v1.GraphKeys.SUMMARIES)) == 4  # rate, loss, norms before and after clipping


def test_optimize_loss_names_wrong_arguments():
    loss = tf.reduce_sum(v1.get_variable("weight", [2]))
    for optimizer, message in [("Sgd", "Optimizer name should be one of"), (3, "Unrecognized optimizer.*Got 3")]:
        with pytest.raises(ValueError, match=message):
            layers.optimize_loss(loss, None, 0.1, optimizer)
    with pytest.raises(ValueError, match="Summaries should be one of"):
        layers.optimize_loss(loss, None, 0.1, "SGD", summaries=["speed"])


def test_feature_columns(run):
    age = layers.real_valued_column("age")
    word = layers.sparse_column_with_keys("word", ["a", "b"])
    hashed = layers.sparse_column_with_hash_bucket("kind", 10)
    columns = [
        age,
        layers.one_hot_column(layers.bucketized_column(age, [10.0])),
        layers.one_hot_column(word),
        layers.embedding_column(hashed, 2),
        layers.one_hot_column(layers.crossed_column([word, hashed], 5)),
    ]
    features = {"age": [[5.0], [20.0]], "word": [["b"], ["c"]], "kind": [["x"], ["y"]]}
    net = run(
        layers.input_from_feature_columns({name: tf.constant(value) for name, value in features.items()}, columns)
    )
    assert net.shape == (2, 1 + 2 + 2 + 2 + 5) and net[:, 0].tolist() == [5, 20]
    assert set(layers.create_feature_spec_for_parsing(columns)) == {"age", "word", "kind"}
    with pytest.raises(ValueError, match="combiner='mean': pass it where the column is used"):
        layers.sparse_column_with_hash_bucket("kind", 10, combiner="mean")


def test_embeddings_start_from_values_for_the_size_of_the_vocabulary(run):
    """tf.feature_column takes the dimension for it."""
    left, right, alone = [layers.sparse_column_with_hash_bucket(name, 10000) for name in ("left", "right", "alone")]
    shared = layers.shared_embedding_columns([left, right], 4, "mean", "both")
    ids = {name: tf.constant([["x"]]) for name in ("left", "right", "alone")}
    net = layers.input_from_feature_columns(ids, [*shared, layers.embedding_column(alone, 4)])
    tables = {table.op.name.split("/")[2]: table for table in v1.trainable_variables()}
    assert net.shape == (1, 12) and set(tables) == {"alone_embedding", "both"}
    of_vocabulary = 10000**-0.5 * 0.88  # as truncated
    assert [values.std() for values in run(list(tables.values()))] == pytest.approx([of_vocabulary] * 2, rel=0.02)
