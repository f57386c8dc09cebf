"""Named-entity recognition for TensorFlow 1: a bidirectional LSTM under a CRF, by train_and_evaluate.

    python tagger.py DIR

The sentences are a toy: a word after "in" is a place, one after "mr" is a person.
"""

import functools
import json
import os
import sys

import numpy as np
import tensorflow as tf
from tensorflow.contrib import predictor

WORDS = ["in", "mr", "paris", "rome", "smith", "jones", "lives", "works"]
TAGS = ["O", "B-LOC", "B-PER"]
SENTENCES = [
    (["mr", "smith", "lives", "in", "paris"], ["O", "B-PER", "O", "O", "B-LOC"]),
    (["in", "rome"], ["O", "B-LOC"]),
    (["mr", "jones", "works"], ["O", "B-PER", "O"]),
    (["lives"], ["O"]),
    (["mr", "rome", "works", "in", "smith"], ["O", "B-PER", "O", "O", "B-LOC"]),
]


def sentences():
    for words, tags in SENTENCES:
        yield (words, len(words)), tags


def input_fn(epochs=1, shuffle=False):
    shapes = (([None], ()), [None])
    types = ((tf.string, tf.int32), tf.string)
    defaults = (("<pad>", 0), "O")
    dataset = tf.data.Dataset.from_generator(sentences, output_shapes=shapes, output_types=types)
    if shuffle:
        dataset = dataset.shuffle(len(SENTENCES), seed=1)
    return dataset.repeat(epochs).padded_batch(2, shapes, defaults).prefetch(1)


def serving_input_receiver_fn():
    words = tf.placeholder(tf.string, [None, None], name="words")
    lengths = tf.placeholder(tf.int32, [None], name="nwords")
    receiver = {"words": words, "nwords": lengths}
    return tf.estimator.export.ServingInputReceiver(receiver, receiver)


def model_fn(features, labels, mode, params):
    if isinstance(features, dict):  # when it serves
        features = features["words"], features["nwords"]
    words, lengths = features
    training = mode == tf.estimator.ModeKeys.TRAIN

    ids = tf.contrib.lookup.index_table_from_file(params["words"], num_oov_buckets=1).lookup(words)
    table = tf.get_variable("embeddings", [len(WORDS) + 1, params["dim"]], tf.float32)
    embeddings = tf.layers.dropout(tf.nn.embedding_lookup(table, ids), rate=params["dropout"], training=training)

    by_time = tf.transpose(embeddings, perm=[1, 0, 2])
    forward = tf.contrib.rnn.LSTMBlockFusedCell(params["lstm_size"])
    backward = tf.contrib.rnn.TimeReversedFusedRNN(tf.contrib.rnn.LSTMBlockFusedCell(params["lstm_size"]))
    output_fw, _ = forward(by_time, dtype=tf.float32, sequence_length=lengths)
    output_bw, _ = backward(by_time, dtype=tf.float32, sequence_length=lengths)
    output = tf.transpose(tf.concat([output_fw, output_bw], axis=-1), perm=[1, 0, 2])
    output = tf.layers.dropout(output, rate=params["dropout"], training=training)

    logits = tf.layers.dense(output, len(TAGS))
    transitions = tf.get_variable("crf", [len(TAGS), len(TAGS)], dtype=tf.float32)
    decoded, _ = tf.contrib.crf.crf_decode(logits, transitions, lengths)
    if mode == tf.estimator.ModeKeys.PREDICT:
        names = tf.contrib.lookup.index_to_string_table_from_file(params["tags"])
        predictions = {"pred_ids": decoded, "tags": names.lookup(tf.to_int64(decoded))}
        return tf.estimator.EstimatorSpec(mode, predictions=predictions)

    tags = tf.contrib.lookup.index_table_from_file(params["tags"]).lookup(labels)
    likelihood, _ = tf.contrib.crf.crf_log_likelihood(logits, tags, lengths, transitions)
    loss = tf.reduce_mean(-likelihood)
    weights = tf.sequence_mask(lengths)
    metrics = {"acc": tf.metrics.accuracy(tags, decoded, weights)}
    for name, metric in metrics.items():
        tf.summary.scalar(name, metric[1])
    if mode == tf.estimator.ModeKeys.EVAL:
        return tf.estimator.EstimatorSpec(mode, loss=loss, eval_metric_ops=metrics)
    train_op = tf.train.AdamOptimizer(0.05).minimize(loss, global_step=tf.train.get_or_create_global_step())
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


def made_params(directory):
    """Returns the params, after writing the vocabularies that they name."""
    params = {"dim": 6, "lstm_size": 5, "dropout": 0.1}
    for name, lines in (("words", WORDS), ("tags", TAGS)):
        params[name] = os.path.join(directory, f"{name}.txt")
        with tf.gfile.Open(params[name], "w") as file:
            file.write("\n".join(lines) + "\n")
    return params


def main(directory):
    tf.logging.set_verbosity(tf.logging.INFO)
    params = made_params(directory)
    config = tf.estimator.RunConfig(save_checkpoints_steps=20, tf_random_seed=1)
    estimator = tf.estimator.Estimator(model_fn, os.path.join(directory, "model"), config, params)
    hook = tf.contrib.estimator.stop_if_no_increase_hook(estimator, "acc", 200, min_steps=1000, run_every_secs=10)
    train_spec = tf.estimator.TrainSpec(functools.partial(input_fn, 40, True), hooks=[hook])
    eval_spec = tf.estimator.EvalSpec(input_fn, throttle_secs=0)
    tf.estimator.train_and_evaluate(estimator, train_spec, eval_spec)

    tags = [row["tags"] for row in estimator.predict(input_fn)]
    export = estimator.export_saved_model(os.path.join(directory, "saved"), serving_input_receiver_fn)
    served = predictor.from_saved_model(export.decode())({"words": [SENTENCES[0][0]], "nwords": [5]})
    print(
        json.dumps(
            {
                "metrics": {name: float(value) for name, value in estimator.evaluate(input_fn).items()},
                "tags": [
                    [tag.decode() for tag in row[: len(words)]] for row, (words, _) in zip(tags, SENTENCES, strict=True)
                ],
                "served": [tag.decode() for tag in np.squeeze(served["tags"])],
                "variables": estimator.get_variable_names(),
            }
        )
    )


if __name__ == "__main__":
    main(sys.argv[1])
