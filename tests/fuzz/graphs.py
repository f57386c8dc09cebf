"""Random graphs of model_fns: many steps in a call give what single steps give, to the bit, also resumed."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

OPTIMIZERS = {
    "sgd": "GradientDescentOptimizer",
    "momentum": "MomentumOptimizer",
    "adam": "AdamOptimizer",
    "adagrad": "AdagradOptimizer",
    "ftrl": "FtrlOptimizer",
    "rmsprop": "RMSPropOptimizer",
}
PIECES = (
    "dense",
    "relu",
    "dropout",
    "noise",
    "shuffle",
    "cond",
    "while",
    "function",
    "map",
    "numpy",
    "python",
    "table",
)
PIECES += ("counted words", "embedding", "batch norm", "local variable", "summary", "assert", "print", "clip", "rnn")


def draw(rng: random.Random) -> dict:
    """Returns a random graph, with the settings of its training."""
    return {
        "seed": rng.randrange(1000),
        "pieces": [rng.choice(PIECES) for _ in range(rng.randrange(1, 6))],
        "optimizer": rng.choice(sorted(OPTIMIZERS)),
        "batch_size": rng.choice([1, 5, 8]),
        "steps": [rng.randrange(2, 40) for _ in range(2)],
        "ends": rng.random() < 0.4,
        "config": {
            "log_step_count_steps": rng.choice([None, 3, 10]),
            "save_summary_steps": rng.choice([None, 4, 7]),
            "save_checkpoints_steps": rng.choice([5, 100]),
        },
    }


def smaller(case: dict) -> Iterator[dict]:
    """Yields simpler cases."""
    for index in range(len(case["pieces"])):
        yield case | {"pieces": case["pieces"][:index] + case["pieces"][index + 1 :]}
    for name, value in (("optimizer", "sgd"), ("batch_size", 8), ("ends", False), ("steps", [5, 5])):
        if case[name] != value:
            yield case | {name: value}


def check(case: dict, folder: Path) -> None:
    """Raises AssertionError if calls of many steps give other variables, metrics, events or lines."""
    import numpy as np

    single, looped = (_observed(case, folder / str(steps), steps) for steps in (1, "auto"))
    assert looped["lines"] == single["lines"]
    assert looped["events"] == single["events"]
    for part in ("variables", "metrics"):
        for name, value in single[part].items():
            np.testing.assert_array_equal(looped[part][name], value, name)


def _observed(case: dict, directory: Path, steps_per_loop: int | str) -> dict:
    import logging
    import re

    import tensorflow as tf
    import tf_keras

    import estimator_train as et
    from estimator_train._engine.graph import looped_steps

    looped_steps._LONG_STEP = float("inf")  # on a busy machine, any step is long
    looped_steps._LOOP_SECONDS = looped_steps._FEW_STEPS = 0  # cases are short
    tf_keras.utils.set_random_seed(case["seed"])
    log, lines, handler = tf.get_logger(), [], logging.Handler(logging.INFO)
    handler.emit = lambda record: lines.append(record.getMessage())
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    config = et.RunConfig(str(directory), case["seed"], steps_per_loop=steps_per_loop, **case["config"])
    estimator = et.Estimator(lambda features, labels, mode: _model_fn(case, features, labels, mode), config=config)
    metrics = {}
    try:
        first, more = case["steps"]
        estimator.train(lambda: _data(case), steps=first)
        if case["ends"]:
            estimator.train(lambda: _data(case).take(more))
        else:
            estimator.train(lambda: _data(case), steps=more)
        metrics = estimator.evaluate(lambda: _data(case).take(13))
    except et.NanLossDuringTrainingError:
        lines.append("loss is NaN")  # drawn rates may make a model diverge; both ways must end there
    finally:
        log.removeHandler(handler)
    kept = [re.sub(r" \([\d.]+ sec\)|at \S+|/\S+", "", line) for line in lines if line.startswith(("loss", "Saving"))]
    variables = {name: estimator.get_variable_value(name) for name in estimator.get_variable_names()}
    return {"lines": kept, "variables": variables, "metrics": metrics, "events": _events(directory)}


def _events(directory: Path) -> list:
    import tensorflow as tf

    found = []
    for path in sorted(directory.rglob("*.tfevents.*")):
        for event in tf.compat.v1.train.summary_iterator(str(path)):
            values = [value for value in event.summary.value if not _is_of_time(value.tag)]
            found.append((event.step, [value.SerializeToString(deterministic=True) for value in values]))
    return [each for each in found if each[1]]


def _is_of_time(tag: str) -> bool:
    return "sec" in tag or tag == "checkpoint_path"


def _data(case: dict):
    import numpy as np
    import tensorflow as tf

    rng = np.random.default_rng(case["seed"])
    x = rng.normal(size=[64, 4]).astype(np.float32)
    features = {"x": x, "word": np.array(["a", "b", "c"])[rng.integers(3, size=64)]}
    dataset = tf.data.Dataset.from_tensor_slices((features, x.sum(1)))
    return dataset.shuffle(64, seed=case["seed"]).repeat().batch(case["batch_size"])


def _model_fn(case: dict, features, labels, mode):
    import tensorflow as tf

    import estimator_train as et

    v1 = tf.compat.v1
    net, more = features["x"], []
    for index, piece in enumerate(case["pieces"]):
        with v1.variable_scope(f"piece{index}"):
            net = _with(piece, net, features["word"], mode == "train", more)
            net = tf.ensure_shape(net, [None, 4])
    weights = v1.get_variable("weights", [4, 1])
    loss = tf.reduce_mean((net @ weights - labels[:, None]) ** 2)
    kind = getattr(v1.train, OPTIMIZERS[case["optimizer"]])
    optimizer = kind(0.01, momentum=0.9) if case["optimizer"] == "momentum" else kind(0.01)
    train_op = tf.group(optimizer.minimize(loss, v1.train.get_global_step()), *more)
    metrics = {"mean": v1.metrics.mean(net), "error": v1.metrics.mean_absolute_error(labels[:, None], net @ weights)}
    return et.EstimatorSpec(mode, loss=loss, train_op=train_op, eval_metric_ops=metrics)


def _with(piece: str, net, words, trains: bool, more: list):
    import tensorflow as tf
    import tf_keras

    v1 = tf.compat.v1

    def variable(*shape):
        return v1.get_variable("w", shape, initializer=v1.initializers.glorot_uniform(seed=3) if shape[1:] else None)

    table = {
        "dense": lambda: net @ variable(4, 4),
        "relu": lambda: tf.nn.relu(net) + net,
        "dropout": lambda: tf.nn.dropout(net, 0.3),
        "noise": lambda: net + v1.random_normal([4]) * v1.random_uniform([1]),
        "shuffle": lambda: v1.random_shuffle(net),
        "cond": lambda: tf.cond(tf.reduce_sum(net) > 0, lambda: net * 0.5, lambda: net - 1),
        "while": lambda: tf.while_loop(lambda i, _: i < 3, lambda i, x: (i + 1, tf.tanh(x * 0.9)), (0, net))[1],
        "function": lambda: tf.function(lambda x: tf.sigmoid(x) + x)(net),
        "map": lambda: tf.map_fn(lambda row: row * 2, net),
        "numpy": lambda: net + tf.ensure_shape(tf.numpy_function(lambda x: x + 1, [net], tf.float32), [None, 4]),
        "python": lambda: tf.ensure_shape(tf.py_function(lambda x: x * 0.5, [net], tf.float32), [None, 4]),
        "embedding": lambda: net + tf.gather(variable(3, 4), tf.strings.to_hash_bucket_fast(words, 3)),
        "clip": lambda: tf.clip_by_norm(net, 2.0),
    }
    if piece in table:
        return table[piece]()
    if piece == "table":
        found = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(["a", "b"], [1.0, 2.0]), 3.0)
        return net * found.lookup(words)[:, None]
    if piece == "counted words":
        seen = tf.lookup.experimental.MutableHashTable(tf.string, tf.float32, 0)
        before = seen.lookup(words)
        more.append(seen.insert(words, before + 0.1))
        return net + before[:, None]
    if piece == "local variable":
        count = v1.get_local_variable("count", [], initializer=v1.zeros_initializer(), use_resource=True)
        seen = net + count
        with tf.control_dependencies([seen]):
            more.append(count.assign_add(0.1))
        return seen
    if piece == "batch norm":
        layer = tf_keras.layers.BatchNormalization()
        net = layer(net, training=trains)
        more += layer.updates
        return net
    if piece == "rnn":
        state = tf.scan(lambda state, row: tf.tanh(state + row), net)
        return state + net
    if piece == "summary":
        v1.summary.histogram("net", net)
        return net
    check = v1.assert_positive(tf.size(net)) if piece == "assert" else tf.print("mean", tf.reduce_mean(net))
    with tf.control_dependencies([check]):
        return tf.identity(net)
