"""examples/legacy/tf1/surnames_rnn.py for TensorFlow 2.15, without tf.contrib."""

import json
import os
import tempfile

import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()

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
    lines = tf.lookup.TextFileInitializer(
        vocabulary_file, tf.string, tf.lookup.TextFileIndex.WHOLE_LINE, tf.int64, tf.lookup.TextFileIndex.LINE_NUMBER
    )
    table = tf.lookup.StaticVocabularyTable(lines, num_oov_buckets=2)
    ids = tf.range(len(ORIGINS), dtype=tf.int64)
    origin_table = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(ORIGINS, ids), -1)

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
        cells = [
            tf.nn.rnn_cell.LSTMCell(params["num_units"], forget_bias=1.0),
            tf.nn.rnn_cell.GRUCell(params["num_units"]),
        ]
        cells = [
            tf.nn.rnn_cell.DropoutWrapper(cell, output_keep_prob=params["keep_prob"] if is_training else 1.0)
            for cell in cells
        ]
        _, states = tf.nn.dynamic_rnn(
            tf.nn.rnn_cell.MultiRNNCell(cells), inputs, sequence_length=features["length"], dtype=tf.float32
        )

    def l2(weights):
        return 1e-3 * tf.nn.l2_loss(weights)

    def weights_of(inputs, units, scope):
        with tf.variable_scope(scope):
            initializer = tf.glorot_uniform_initializer(seed=5)
            weights = tf.get_variable("weights", [inputs.shape[-1], units], initializer=initializer, regularizer=l2)
            return weights, tf.get_variable("biases", [units], initializer=tf.zeros_initializer())

    net = tf.concat([states[0].h, states[1]], 1)
    weights, biases = weights_of(net, 10, "hidden")
    net = tf.nn.tanh(tf.matmul(net, weights) + biases)
    weights, biases = weights_of(net, len(ORIGINS), "logits")
    logits = tf.matmul(net, weights) + biases

    ids = tf.argmax(logits, 1)
    numbers = tf.range(len(ORIGINS), dtype=tf.int64)
    origins = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(numbers, ORIGINS), "unknown")
    predictions = {"origin": origins.lookup(ids), "probabilities": tf.nn.softmax(logits)}
    if mode == tf.estimator.ModeKeys.PREDICT:
        return tf.estimator.EstimatorSpec(mode, predictions=predictions)

    tf.losses.sparse_softmax_cross_entropy(labels, logits)
    loss = tf.losses.get_total_loss()
    train_op = None
    if is_training:
        global_step = tf.train.get_global_step()
        with tf.variable_scope("OptimizeLoss"):
            initializer = tf.constant_initializer(0.1)
            rate = tf.get_variable("learning_rate", [], trainable=False, initializer=initializer)
        optimizer = tf.train.AdagradOptimizer(tf.train.exponential_decay(rate, global_step, 20, 0.9))
        gradients, variables = zip(*optimizer.compute_gradients(loss))
        gradients, _ = tf.clip_by_global_norm(gradients, 1.0)
        train_op = optimizer.apply_gradients(zip(gradients, variables), global_step)
    metrics = {"accuracy": tf.metrics.accuracy(labels, ids)}
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
