"""Classifies reviews as good or bad, with a vocabulary file and an embedding column, and with a linear baseline.

The reviews are generated.
"""

import argparse
import json
import os
import tempfile

import numpy as np
import tensorflow as tf

GOOD = ["lovely", "great", "moving", "funny", "superb"]
BAD = ["dull", "awful", "boring", "flat", "clumsy"]
OTHER = ["film", "plot", "actor", "scene", "the", "a", "was", "very", "and", "music"]
LENGTH = 8


def write_reviews(count, seed):
    """Returns reviews of up to LENGTH words, padded with empty strings, and their labels."""
    random = np.random.RandomState(seed)
    labels = random.choice(["bad", "good"], size=count)
    words = np.full((count, LENGTH), "", dtype=object)
    for row, label in zip(words, labels):
        length = random.randint(4, LENGTH + 1)
        row[:length] = random.choice(OTHER + 3 * (GOOD if label == "good" else BAD), size=length)
    words[0, 0] = "unheard-of"
    return {"words": words.astype(str)}, labels


def write_vocabulary(model_dir):
    path = os.path.join(model_dir, "vocabulary.txt")
    tf.io.gfile.makedirs(model_dir)
    with tf.io.gfile.GFile(path, "w") as f:
        f.write("\n".join(OTHER + GOOD + BAD) + "\n")
    return path


def embedding_initializer(shape, dtype=tf.float32, partition_info=None):
    values = np.random.RandomState(3).normal(scale=0.5, size=tf.TensorShape(shape).as_list())
    return tf.constant(values, dtype)


def model_fn(features, labels, mode, params):
    net = tf.compat.v1.feature_column.input_layer(features, params["columns"])
    hidden = np.random.RandomState(4).normal(scale=0.4, size=[net.shape[1], params["units"]])
    net = tf.compat.v1.layers.dense(
        net, params["units"], tf.nn.relu, kernel_initializer=tf.compat.v1.constant_initializer(hidden)
    )
    output = np.random.RandomState(6).normal(scale=0.4, size=[params["units"], 2])
    logits = tf.compat.v1.layers.dense(net, 2, kernel_initializer=tf.compat.v1.constant_initializer(output))

    classes = tf.constant(params["classes"])
    predicted = tf.argmax(logits, axis=1)
    predictions = {"class": tf.gather(classes, predicted), "probabilities": tf.nn.softmax(logits)}
    if mode == tf.estimator.ModeKeys.PREDICT:
        export_outputs = {"serving_default": tf.estimator.export.PredictOutput(predictions)}
        return tf.estimator.EstimatorSpec(mode, predictions=predictions, export_outputs=export_outputs)

    # Labels are strings; their lookup table is initialized with the graph's other tables.
    indices = tf.range(len(params["classes"]), dtype=tf.int64)
    table = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(classes, indices), default_value=-1)
    label_ids = table.lookup(labels)
    loss = tf.compat.v1.losses.sparse_softmax_cross_entropy(labels=label_ids, logits=logits)
    if mode == tf.estimator.ModeKeys.EVAL:
        metrics = {
            "accuracy": tf.compat.v1.metrics.accuracy(label_ids, predicted),
            "auc": tf.compat.v1.metrics.auc(label_ids, predictions["probabilities"][:, 1]),
        }
        return tf.estimator.EstimatorSpec(mode, loss=loss, eval_metric_ops=metrics)

    optimizer = tf.compat.v1.train.AdagradOptimizer(params["learning_rate"])
    train_op = optimizer.minimize(loss, global_step=tf.compat.v1.train.get_or_create_global_step())
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model_dir", default=None)
    parser.add_argument("--steps", type=int, default=30)
    args = parser.parse_args()
    model_dir = args.model_dir or tempfile.mkdtemp()
    vocabulary = write_vocabulary(model_dir)

    train, test = write_reviews(200, seed=1), write_reviews(45, seed=2)

    def train_input_fn():
        return tf.data.Dataset.from_tensor_slices(train).repeat().batch(25)

    def eval_input_fn():
        dataset = tf.data.Dataset.from_tensor_slices(test).batch(20)
        return tf.compat.v1.data.make_one_shot_iterator(dataset).get_next()

    words = tf.feature_column.categorical_column_with_vocabulary_file("words", vocabulary, num_oov_buckets=2)
    embedded = tf.feature_column.embedding_column(
        words, dimension=6, combiner="sqrtn", initializer=embedding_initializer
    )
    network = tf.estimator.Estimator(
        model_fn,
        os.path.join(model_dir, "network"),
        params={"columns": [embedded], "units": 8, "classes": ["bad", "good"], "learning_rate": 0.1},
    )
    listed = tf.feature_column.categorical_column_with_vocabulary_list("words", GOOD + BAD)
    linear = tf.compat.v1.estimator.LinearClassifier(
        [listed], os.path.join(model_dir, "linear"), label_vocabulary=["bad", "good"], optimizer="Ftrl"
    )

    results = {}
    for name, estimator in [("network", network), ("linear", linear)]:
        estimator.train(train_input_fn, max_steps=args.steps)
        metrics = estimator.evaluate(eval_input_fn)
        rows = list(estimator.predict(eval_input_fn))[:3]
        results[name] = {
            "metrics": {key: float(value) for key, value in sorted(metrics.items())},
            "probabilities": [row["probabilities"].tolist() for row in rows],
        }
    print("results: " + json.dumps(results))


if __name__ == "__main__":
    main()
