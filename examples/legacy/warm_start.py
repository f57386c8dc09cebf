"""Classifies reviews as kind or not, with networks that warm-start from another's checkpoint.

The second network has different scope names and a longer vocabulary in a different order; the third reuses everything.
"""

import argparse
import json
import os
import tempfile

import numpy as np
import tensorflow as tf

OLD_WORDS = ["good", "bad", "fine", "poor", "nice", "sad"]
NEW_WORDS = ["awful", "bad", "fine", "good", "grand", "nice", "poor", "sad"]
BAD_WORDS = {"bad", "poor", "sad", "awful"}
DIMENSION, UNITS = 4, 6


def make_input_fn(words, count, seed, batch_size=16):
    """Returns an input_fn of lines of three words, labelled by whether most of the words are good."""
    random = np.random.RandomState(seed)
    lines = random.choice(words, size=(count, 3))
    labels = [sum(word not in BAD_WORDS for word in line) >= 2 for line in lines]

    def input_fn(params):
        dataset = tf.data.Dataset.from_tensor_slices(({"words": lines}, np.array(labels, np.float32)[:, None]))
        return dataset.repeat(params.get("epochs")).batch(batch_size)

    return input_fn


def write_vocabulary(path, words):
    tf.io.gfile.makedirs(os.path.dirname(path))
    with open(path, "w") as f:
        f.write("\n".join(words))
    return path


def fixed_normal(seed):
    def initializer(shape, dtype=tf.float32, partition_info=None):
        values = np.random.RandomState(seed).normal(scale=0.5, size=tf.TensorShape(shape).as_list())
        return tf.constant(values, dtype)

    return initializer


def model_fn(features, labels, mode, params):
    table = tf.lookup.StaticHashTable(
        tf.lookup.TextFileInitializer(
            params["vocabulary"],
            key_dtype=tf.string,
            key_index=tf.lookup.TextFileIndex.WHOLE_LINE,
            value_dtype=tf.int64,
            value_index=tf.lookup.TextFileIndex.LINE_NUMBER,
        ),
        default_value=0,
    )
    with tf.compat.v1.variable_scope(params["scope"]):
        embeddings = tf.compat.v1.get_variable(
            "embeddings", [params["vocabulary_size"], DIMENSION], initializer=fixed_normal(1)
        )
        net = tf.reduce_mean(tf.nn.embedding_lookup(embeddings, table.lookup(features["words"])), axis=1)
        net = tf.compat.v1.layers.dense(net, UNITS, tf.nn.tanh, kernel_initializer=fixed_normal(2), name="hidden")
        logits = tf.compat.v1.layers.dense(net, 1, kernel_initializer=fixed_normal(3), name="logits")

    head = tf.estimator.BinaryClassHead()
    optimizer = tf.compat.v1.train.AdamOptimizer(0.05)
    return head.create_estimator_spec(
        features,
        mode,
        logits,
        labels=labels,
        train_op_fn=lambda loss: optimizer.minimize(loss, global_step=tf.compat.v1.train.get_global_step()),
    )


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model_dir", default=None)
    parser.add_argument("--steps", type=int, default=15)
    args = parser.parse_args()
    model_dir = args.model_dir or tempfile.mkdtemp()
    old = write_vocabulary(os.path.join(model_dir, "old.txt"), OLD_WORDS)
    new = write_vocabulary(os.path.join(model_dir, "new.txt"), NEW_WORDS)

    def build(name, scope, vocabulary, size, warm_start_from=None):
        return tf.estimator.Estimator(
            model_fn,
            model_dir=os.path.join(model_dir, name),
            params={"scope": scope, "vocabulary": vocabulary, "vocabulary_size": size},
            warm_start_from=warm_start_from,
        )

    def report(estimator, words):
        metrics = estimator.evaluate(make_input_fn(words, 64, seed=2), steps=4)
        return {name: float(value) for name, value in metrics.items()}

    first = build("first", "shop", old, len(OLD_WORDS))
    first.train(make_input_fn(OLD_WORDS, 160, seed=1), steps=args.steps)

    # Layers are renamed, and the rows of known words move to their new positions.
    vocab_info = tf.estimator.VocabInfo(
        new_vocab=new,
        new_vocab_size=len(NEW_WORDS),
        num_oov_buckets=0,
        old_vocab=old,
        backup_initializer=tf.compat.v1.ones_initializer(),
    )
    settings = tf.estimator.WarmStartSettings(
        ckpt_to_initialize_from=first.model_dir,
        vars_to_warm_start="market/(embeddings|hidden)",
        var_name_to_vocab_info={"market/embeddings": vocab_info},
        var_name_to_prev_var_name={
            "market/embeddings": "shop/embeddings",
            "market/hidden/kernel": "shop/hidden/kernel",
            "market/hidden/bias": "shop/hidden/bias",
        },
    )
    second = build("second", "market", new, len(NEW_WORDS), settings)
    second.train(make_input_fn(NEW_WORDS, 160, seed=3), steps=1)
    embeddings = second.get_variable_value("market/embeddings")

    third = build("third", "market", new, len(NEW_WORDS), tf.estimator.WarmStartSettings(second.model_dir))
    third.train(make_input_fn(NEW_WORDS, 160, seed=3), steps=args.steps)

    results = {
        "first": report(first, OLD_WORDS),
        "second": report(second, NEW_WORDS),
        "third": report(third, NEW_WORDS),
        "embeddings": embeddings.tolist(),
    }
    print("results: " + json.dumps(results))


if __name__ == "__main__":
    main()
