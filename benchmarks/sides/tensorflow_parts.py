"""Code shared by the sides on TensorFlow: models, built with the given Keras, and data."""

import math
import os
import tempfile
import types

import numpy as np
import tensorflow as tf

from benchmarks.scans import CLASSES
from benchmarks.sides.serve import now, since

BATCH = 32
EVALUATED = 8  # batches per evaluation during training

_IMAGENET_MEAN = (123.68, 116.779, 103.939)  # red, green, blue


def device():
    gpus = tf.config.list_physical_devices("GPU")
    return tf.config.experimental.get_device_details(gpus[0])["device_name"] if gpus else "CPU"


def vgg16(keras, optimizer, **compile_options):
    """The model that `models.build_model("vgg16")` builds, with random weights."""
    base = keras.applications.VGG16(weights=None, include_top=False, input_shape=(224, 224, 3))
    for layer in base.layers[:-4]:
        layer.trainable = False
    images = keras.Input((224, 224, 3))
    centred = keras.layers.Rescaling(255.0, offset=[-mean for mean in _IMAGENET_MEAN])(images)
    features = keras.layers.Flatten()(base(centred[:, :, :, ::-1]))
    model = keras.Model(images, keras.layers.Dense(len(CLASSES), "softmax")(features))
    model.compile(optimizer, "categorical_crossentropy", metrics=["accuracy"], **compile_options)
    return model


def small_cnn(keras, optimizer="adam", **compile_options):
    """The network of estimator_train/app/models/small_cnn.py, for images of 32 x 32."""
    return _classifier(keras, (32, 32, 3), _small_cnn(keras), optimizer, **compile_options)


def scan_cnn(keras):
    """The same network for scans; predicting one takes about as long as decoding its file."""
    return _classifier(keras, (224, 224, 3), _small_cnn(keras), "adam", classes=len(CLASSES))


def _small_cnn(keras):
    layers = [keras.layers.Rescaling(4.0, offset=-1.0)]
    for filters in (16, 32, 64, 128):
        layers += [keras.layers.Conv2D(filters, 3, padding="same", activation="relu"), keras.layers.MaxPooling2D()]
    return [*layers, keras.layers.GlobalMaxPooling2D()]


def tiny_cnn(keras, **compile_options):
    """A network whose step takes about a millisecond."""
    conv = keras.layers.Conv2D(4, 3, strides=3, activation="relu")
    return _classifier(keras, (28, 28, 1), [conv, keras.layers.MaxPooling2D()], "adam", **compile_options)


def small_ops(keras):
    """A network whose step is 300 small ops, one after the other: ten for each layer."""
    return _classifier(keras, (8,), [keras.layers.Dense(8, "tanh") for _ in range(30)], "sgd")


def deep_cnn(keras):
    """A network whose step is nearly all convolutions."""
    layers = [keras.layers.Conv2D(32, 3, padding="same", activation="relu") for _ in range(4)]
    return _classifier(keras, (32, 32, 3), [*layers, keras.layers.GlobalAveragePooling2D()], "adam")


def wide_network(keras):
    """A network with a checkpoint of about 100 MB: 8 million weights, and Adam's two slots for each."""
    return _classifier(keras, (28, 28, 1), [keras.layers.Flatten(), keras.layers.Dense(10_000, "relu")], "adam")


def wide_cnn(keras, optimizer="adam"):
    """A small CNN with 16 million weights, nearly all in one layer."""
    layers = [keras.layers.Conv2D(64, 3, padding="same", activation="relu"), keras.layers.MaxPooling2D()]
    layers += [keras.layers.Flatten(), keras.layers.Dense(1000, "relu")]
    return _classifier(keras, (32, 32, 3), layers, optimizer)


def _classifier(keras, input_shape, layers, optimizer, classes=10, **compile_options):
    layers = [keras.Input(input_shape), *layers, keras.layers.Flatten(), keras.layers.Dense(classes, "softmax")]
    model = keras.Sequential(layers)
    model.compile(optimizer, "categorical_crossentropy", metrics=["accuracy"], **compile_options)
    return model


def repeated_batch(input_shape, batch_size=BATCH):
    """Returns a dataset that repeats one batch from memory forever."""
    images = np.random.default_rng(1).normal(size=(batch_size, *input_shape)).astype(np.float32)
    return tf.data.Dataset.from_tensors((images, np.eye(10, dtype=np.float32)[np.arange(batch_size) % 10])).repeat()


def two_batches():
    """Returns two batches of 4 examples for small_cnn."""
    return repeated_batch((32, 32, 3), 4).take(2)


def one_example():
    """Returns a batch of one example for small_cnn."""
    return next(iter(two_batches()))[0][:1].numpy()


def epoch_of(batches, number):
    """Returns a function that reads all batches, of `number` images, once, after three epochs of warm-up.

    The epoch ends with its last batch. Deleting an iterator may have to wait, see docs/measured.md, and is excluded
    on all sides.
    """

    for _ in range(3):
        read(batches, number)
    return lambda: read(batches, number)


def read(batches, number):
    """Reads all batches of `number` examples and returns the time it took, excluding the iterator's deletion."""
    begin, iterator = now(), iter(batches)
    assert sum(labels.shape[0] for _, labels in iterator) == number
    return since(begin)


def cpu_devices(count):
    """Creates `count` logical CPU devices and returns their names; call it before TensorFlow starts."""
    logical = [tf.config.LogicalDeviceConfiguration()] * count
    tf.config.set_logical_device_configuration(tf.config.list_physical_devices("CPU")[0], logical)
    return [f"CPU:{index}" for index in range(count)]


def jpeg_paths(folder):
    return sorted(tf.io.gfile.glob(os.path.join(folder, "*", "*.jpeg")))


def jpeg_batches(paths, epochs=1, batch_size=BATCH):
    """Returns batches of 224 x 224 images in [0, 1] and one-hot labels, as in TensorFlow's guide to tf.data."""
    files = tf.data.Dataset.from_tensor_slices(paths).shuffle(len(paths)).repeat(epochs)
    return files.map(_load, num_parallel_calls=tf.data.AUTOTUNE).batch(batch_size).prefetch(tf.data.AUTOTUNE)


def cached_jpeg_batches(paths):
    """Returns the same batches, decoded once and then shuffled."""
    images = tf.data.Dataset.from_tensor_slices(paths).map(_load, num_parallel_calls=tf.data.AUTOTUNE).cache()
    return images.shuffle(len(paths)).batch(BATCH).prefetch(tf.data.AUTOTUNE)


def decoded_forever(encoded):
    """Returns a dataset that decodes one JPEG again and again, each time on one core, as `image_files` does."""
    options = tf.data.Options()
    options.threading.max_intra_op_parallelism = 1
    images = tf.data.Dataset.from_tensors(encoded).repeat().map(_decode, num_parallel_calls=tf.data.AUTOTUNE)
    return images.batch(BATCH).with_options(options)


def _load(path):
    label = tf.cast(tf.equal(tf.strings.split(path, os.sep)[-2], CLASSES), tf.float32)
    return _decode(tf.io.read_file(path)), label


def _decode(encoded):
    image = tf.io.decode_jpeg(encoded, channels=3)
    return tf.image.resize(tf.image.convert_image_dtype(image, tf.float32), (224, 224))


def write_tfrecords(paths):
    """Writes JPEGs into a TFRecord file for training, and one of them for evaluation; returns their directory."""
    folder = tempfile.mkdtemp()
    with open(os.path.join(folder, "labels.txt"), "w") as file:
        file.write("\n".join(CLASSES))
    for name, of_file in (("train", paths), ("test", paths[:1])):
        with tf.io.TFRecordWriter(os.path.join(folder, f"{name}.tfrecord")) as writer:
            for path in of_file:
                with open(path, "rb") as image:
                    encoded = tf.train.BytesList(value=[image.read()])
                label = tf.train.Int64List(value=[CLASSES.index(path.split(os.sep)[-2])])
                of_image = {
                    "image/encoded": tf.train.Feature(bytes_list=encoded),
                    "image/class/label": tf.train.Feature(int64_list=label),
                }
                features = tf.train.Features(feature=of_image)
                writer.write(tf.train.Example(features=features).SerializeToString())
    return folder


def tfrecord_batches(folder):
    """Returns batches of the training images of `write_tfrecords`, as in the guides to TFRecord and tf.data."""
    features = {
        "image/encoded": tf.io.FixedLenFeature([], tf.string),
        "image/class/label": tf.io.FixedLenFeature([], tf.int64),
    }

    def parse(record):
        example = tf.io.parse_single_example(record, features)
        return _decode(example["image/encoded"]), tf.one_hot(example["image/class/label"], len(CLASSES))

    records = tf.data.TFRecordDataset(os.path.join(folder, "train.tfrecord")).shuffle(4096)
    return records.map(parse, num_parallel_calls=tf.data.AUTOTUNE).batch(BATCH).prefetch(tf.data.AUTOTUNE)


def write_npz(examples):
    """Writes an npz file of 28 x 28 grayscale images in ten classes; returns its path."""
    rng, path = np.random.default_rng(1), os.path.join(tempfile.mkdtemp(), "images.npz")
    arrays = {
        f"{name}_{side}": rng.integers(0, below, shape, np.uint8)
        for side, number in (("train", examples), ("test", BATCH))
        for name, below, shape in (("x", 256, (number, 28, 28)), ("y", 10, (number,)))
    }
    np.savez(path, **arrays)
    return path


def npz_batches(path):
    """Returns batches of the training images of `write_npz`, as in TensorFlow's guide to NumPy data."""
    with np.load(path) as arrays:
        images, labels = arrays["x_train"], arrays["y_train"]

    def as_input(images, labels):
        images = tf.image.convert_image_dtype(images[..., tf.newaxis], tf.float32)
        return tf.image.grayscale_to_rgb(images), tf.one_hot(labels, 10)

    batches = tf.data.Dataset.from_tensor_slices((images, labels)).shuffle(len(labels)).batch(BATCH)
    return batches.map(as_input, num_parallel_calls=tf.data.AUTOTUNE).prefetch(tf.data.AUTOTUNE)


def rows_of_a_table(examples):
    """Returns a function that creates a generator of rows of 20 numbers with labels."""
    table = np.random.default_rng(1).normal(size=(examples, 20)).astype(np.float32)
    labels = np.arange(examples) % 10

    def rows():
        yield from zip(table, labels, strict=True)

    return rows


def model_fn(estimator, blocks):
    """Returns a model_fn with `blocks` residual blocks of two convolutions; `estimator` is a tf.estimator module."""
    v1 = tf.compat.v1

    def build(features, labels, mode):
        net = v1.layers.conv2d(features, 16, 3, strides=2, padding="same")
        for _ in range(blocks):
            within = net
            for _ in range(2):
                within = tf.nn.relu(v1.layers.batch_normalization(within, training=True))
                within = v1.layers.conv2d(within, 16, 3, padding="same")
            net += within
        logits = v1.layers.dense(tf.reduce_mean(net, axis=[1, 2]), 10)
        loss = v1.losses.softmax_cross_entropy(labels, logits)
        train_op = v1.train.AdamOptimizer().minimize(loss, v1.train.get_global_step())
        return estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)

    return build


class Clock(tf.compat.v1.train.SessionRunHook):
    """Notes when the first step and the last one ended, and needs to see no others."""

    first = None

    def next_look(self, global_step):
        return math.inf

    def after_run(self, run_context, run_values):
        self.last = now()
        self.first = self.first or self.last


def train_canned(estimator, kind, steps):
    """Returns a function that trains a canned estimator for `steps` steps after the first, and times these."""

    def run():
        clock = Clock()
        config = estimator.RunConfig(tempfile.mkdtemp())
        canned_estimator(estimator, kind, config).train(lambda: rows(4096).repeat(), hooks=[clock], steps=steps + 1)
        return since(clock.first, clock.last)

    run()
    return run


def evaluate_canned(estimator, kind, examples):
    """Returns a function that evaluates a canned estimator, and times this with the start."""
    evaluated = canned_estimator(estimator, kind, estimator.RunConfig(tempfile.mkdtemp()))
    evaluated.train(lambda: rows(4096), steps=1)

    def run():
        begin = now()
        evaluated.evaluate(lambda: rows(examples))
        return since(begin)

    run()
    return run


def canned_estimator(estimator, kind, config):
    """Returns a "linear" classifier with Ftrl, a "dnn" of 64 and 32 units, or one that is "wide and deep"."""
    column = tf.feature_column
    number = column.numeric_column("x", [20])
    word = column.categorical_column_with_vocabulary_list("word", ["a", "b", "c", "d"])
    bucket = column.categorical_column_with_hash_bucket("id", 100, tf.int64)
    if kind == "linear":
        return estimator.LinearClassifier([number, word], optimizer="Ftrl", config=config)
    if kind == "dnn":
        return estimator.DNNClassifier([64, 32], [number], config=config)
    return estimator.DNNLinearCombinedClassifier(
        linear_feature_columns=[word, bucket, column.crossed_column(["word", "id"], 1000)],
        dnn_feature_columns=[number, column.embedding_column(bucket, 8)],
        dnn_hidden_units=[64, 32],
        config=config,
    )


def rows(count):
    """A dataset of `count` rows of 20 numbers, a word and an id, in batches of 32."""
    random = np.random.default_rng(1)
    x = random.normal(size=[count, 20]).astype(np.float32)
    words = np.array(["a", "b", "c", "d"])[random.integers(4, size=count)]
    features = {"x": x, "word": words, "id": random.integers(500, size=count)}
    return tf.data.Dataset.from_tensor_slices((features, (x.sum(1) > 0).astype(np.int64))).batch(32).prefetch(8)


def train_model_fn(estimator, blocks, steps, end=False):
    """Returns a function that trains `model_fn` for `steps` steps after the first, and times these.

    With `end`, it times the end of training after the last step instead.
    """

    def run():
        clock = Clock()
        config = estimator.RunConfig(tempfile.mkdtemp(), save_summary_steps=None, log_step_count_steps=None)
        trained = estimator.Estimator(model_fn(estimator, blocks), config=config)
        trained.train(lambda: repeated_batch((32, 32, 3)).prefetch(tf.data.AUTOTUNE), hooks=[clock], steps=steps + 1)
        return since(clock.last) if end else since(clock.first, clock.last)

    run()
    return run


def run_bare_graph(blocks, steps):
    """A function that runs the graph of `model_fn` in a MonitoredTrainingSession without checkpoints."""
    v1 = tf.compat.v1
    spec = types.SimpleNamespace(EstimatorSpec=lambda mode, loss, train_op: (loss, train_op))

    def run():
        with tf.Graph().as_default():
            v1.train.create_global_step()
            iterator = v1.data.make_initializable_iterator(repeated_batch((32, 32, 3)).prefetch(tf.data.AUTOTUNE))
            fetched = model_fn(spec, blocks)(*iterator.get_next(), "train")
            initialize = tf.group(v1.train.Scaffold.default_local_init_op(), iterator.initializer)
            with v1.train.MonitoredTrainingSession(scaffold=v1.train.Scaffold(local_init_op=initialize)) as session:
                session.run(fetched)
                begin = now()
                for _ in range(steps):
                    session.run(fetched)
                return since(begin)

    run()
    return run
