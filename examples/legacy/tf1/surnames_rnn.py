"""Predicts the origin of a surname with a recurrent network over its letters, for TensorFlow 1.10; made-up surnames."""

import json
import os
import tempfile

import numpy as np
import tensorflow as tf
from tensorflow.contrib import lookup, rnn
from tensorflow.contrib.framework.python.ops import arg_scope
from tensorflow.contrib.layers import fully_connected, l2_regularizer, optimize_loss

tf.flags.DEFINE_string("model_dir", None, "Directory for checkpoints; a temporary one by default.")
tf.flags.DEFINE_integer("steps", 60, "Training steps.")
tf.flags.DEFINE_integer("num_units", 12, "Units of each recurrent layer.")
FLAGS = tf.flags.FLAGS

ENDINGS = {"italian": ["ini", "elli", "one"], "polish": ["ski", "czyk", "wicz"], "scottish": ["lay", "gow", "ness"]}
ORIGINS = sorted(ENDINGS)


def draw_names(count, seed):
    random = np.random.RandomState(seed)
    names, origins = [], []
    for _ in range(count):
        origin = ORIGINS[random.randint(len(ORIGINS))]
        stem = [random.choice(list("bcdfglmnprst")) + random.choice(list("aeiou")) for _ in range(random.randint(1, 4))]
        names.append(" ".join("".join(stem) + ENDINGS[origin][random.randint(3)]))
        origins.append(origin)
    return names, origins


def write_vocabulary(path):
    with tf.gfile.Open(path, "w") as vocabulary:
        vocabulary.write("\n".join("abcdefghiklmnoprstuwy"))  # without z, which is out of vocabulary
    return path


def input_fn(names, origins, vocabulary_file, batch_size, num_epochs):
    table = lookup.index_table_from_file(vocabulary_file, num_oov_buckets=2)
    origin_table = lookup.index_table_from_tensor(tf.constant(ORIGINS))

    def parse(name, origin):
        letters = table.lookup(tf.string_split([name]).values) + 1
        return {"letters": letters, "length": tf.size(letters)}, origin_table.lookup(origin)

    dataset = tf.data.Dataset.from_tensor_slices((names, origins)).map(parse).repeat(num_epochs)
    dataset = dataset.padded_batch(batch_size, ({"letters": [None], "length": []}, []))
    iterator = dataset.make_initializable_iterator()
    tf.add_to_collection(tf.GraphKeys.TABLE_INITIALIZERS, iterator.initializer)
    return iterator.get_next()


def rnn_model_fn(features, labels, mode, params):
    is_training = mode == tf.estimator.ModeKeys.TRAIN
    with tf.variable_scope("rnn", initializer=tf.random_uniform_initializer(-0.3, 0.3, seed=4)):
        embeddings = tf.get_variable("embeddings", [params["vocabulary_size"], 8])
        inputs = tf.nn.embedding_lookup(embeddings, features["letters"])
        cells = [rnn.LSTMCell(params["num_units"], forget_bias=1.0), rnn.GRUCell(params["num_units"])]
        cells = [
            rnn.DropoutWrapper(cell, output_keep_prob=params["keep_prob"] if is_training else 1.0) for cell in cells
        ]
        _, states = tf.nn.dynamic_rnn(
            rnn.MultiRNNCell(cells), inputs, sequence_length=features["length"], dtype=tf.float32
        )
    with arg_scope(
        [fully_connected],
        weights_initializer=tf.contrib.layers.xavier_initializer(seed=5),
        weights_regularizer=l2_regularizer(1e-3),
    ):
        net = fully_connected(tf.concat([states[0].h, states[1]], 1), 10, activation_fn=tf.nn.tanh, scope="hidden")
        logits = fully_connected(net, len(ORIGINS), activation_fn=None, scope="logits")

    ids = tf.argmax(logits, 1)
    origins = lookup.index_to_string_table_from_tensor(ORIGINS, default_value="unknown")
    predictions = {"origin": origins.lookup(ids), "probabilities": tf.nn.softmax(logits)}
    if mode == tf.contrib.learn.ModeKeys.INFER or mode == tf.estimator.ModeKeys.PREDICT:
        return tf.estimator.EstimatorSpec(mode, predictions=predictions)

    tf.losses.sparse_softmax_cross_entropy(labels, logits)
    loss = tf.losses.get_total_loss()
    train_op = None
    if is_training:
        train_op = optimize_loss(
            loss,
            tf.contrib.framework.get_global_step(),
            learning_rate=0.1,
            optimizer="Adagrad",
            clip_gradients=1.0,
            learning_rate_decay_fn=lambda rate, step: tf.train.exponential_decay(rate, step, 20, 0.9),
        )
    metrics = {"accuracy": tf.contrib.metrics.streaming_accuracy(ids, labels)}
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op, eval_metric_ops=metrics)


def main(unused_argv):
    tf.logging.set_verbosity(tf.logging.INFO)
    model_dir = FLAGS.model_dir or tempfile.mkdtemp()
    vocabulary_file = write_vocabulary(os.path.join(tempfile.mkdtemp(), "letters.txt"))
    params = {"vocabulary_size": 24, "num_units": FLAGS.num_units, "keep_prob": 1.0}
    classifier = tf.estimator.Estimator(rnn_model_fn, model_dir, params=params)

    train, test = draw_names(240, seed=1), draw_names(90, seed=2)
    classifier.train(lambda: input_fn(train[0], train[1], vocabulary_file, 24, None), steps=FLAGS.steps)
    metrics = classifier.evaluate(lambda: input_fn(test[0], test[1], vocabulary_file, 30, 1))
    predictions = classifier.predict(lambda: input_fn(test[0][:6], test[1][:6], vocabulary_file, 6, 1))
    predictions = list(predictions)

    results = {
        "metrics": {name: float(value) for name, value in metrics.items()},
        "origins": [row["origin"].decode() for row in predictions],
        "probabilities": [row["probabilities"].tolist() for row in predictions],
        "weights": classifier.get_variable_value("hidden/weights")[0].tolist(),
        "learning_rate": float(classifier.get_variable_value("OptimizeLoss/learning_rate")),
    }
    print("results: " + json.dumps(results))


if __name__ == "__main__":
    tf.app.run()
