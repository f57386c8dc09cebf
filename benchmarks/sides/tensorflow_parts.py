"""What the sides on TensorFlow share: models, made by the Keras they are given, and data."""

import os

import numpy as np
import tensorflow as tf

from benchmarks.sides.serve import now, since

CLASSES = ["CNV", "DME", "DRUSEN", "NORMAL"]
BATCH = 32
EVALUATED = 8  # batches of an evaluation on the way

_IMAGENET_MEAN = (123.68, 116.779, 103.939)  # red, green, blue


def device():
    gpus = tf.config.list_physical_devices("GPU")
    return tf.config.experimental.get_device_details(gpus[0])["device_name"] if gpus else "CPU"


def vgg16(keras, optimizer, **compile_options):
    """The model of estimator_train/models/vgg16.py with random weights."""
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
    """The network of estimator_train/models/small_cnn.py, for images of 32 x 32."""
    return _classifier(keras, (32, 32, 3), _small_cnn(keras), optimizer, **compile_options)


def scan_cnn(keras):
    """The same for scans: its prediction of one takes about as long as the decoding of its file."""
    return _classifier(keras, (224, 224, 3), _small_cnn(keras), "adam", classes=len(CLASSES))


def _small_cnn(keras):
    layers = [keras.layers.Rescaling(4.0, offset=-1.0)]
    for filters in (16, 32, 64, 128):
        layers += [keras.layers.Conv2D(filters, 3, padding="same", activation="relu"), keras.layers.MaxPooling2D()]
    return [*layers, keras.layers.GlobalMaxPooling2D()]


def tiny_cnn(keras, **compile_options):
    """Its step takes about a millisecond."""
    conv = keras.layers.Conv2D(4, 3, strides=3, activation="relu")
    return _classifier(keras, (28, 28, 1), [conv, keras.layers.MaxPooling2D()], "adam", **compile_options)


def deep_cnn(keras):
    """Nearly all of its step is convolutions."""
    layers = [keras.layers.Conv2D(32, 3, padding="same", activation="relu") for _ in range(4)]
    return _classifier(keras, (32, 32, 3), [*layers, keras.layers.GlobalAveragePooling2D()], "adam")


def wide_network(keras):
    """Its checkpoint takes about 100 MB: 8 million weights, and Adam's two slots of each."""
    return _classifier(keras, (28, 28, 1), [keras.layers.Flatten(), keras.layers.Dense(10_000, "relu")], "adam")


def wide_cnn(keras, optimizer="adam"):
    """A small CNN with 16 million weights, nearly all of them in one layer."""
    layers = [keras.layers.Conv2D(64, 3, padding="same", activation="relu"), keras.layers.MaxPooling2D()]
    layers += [keras.layers.Flatten(), keras.layers.Dense(1000, "relu")]
    return _classifier(keras, (32, 32, 3), layers, optimizer)


def _classifier(keras, input_shape, layers, optimizer, classes=10, **compile_options):
    layers = [keras.Input(input_shape), *layers, keras.layers.Flatten(), keras.layers.Dense(classes, "softmax")]
    model = keras.Sequential(layers)
    model.compile(optimizer, "categorical_crossentropy", metrics=["accuracy"], **compile_options)
    return model


def repeated_batch(input_shape, batch_size=BATCH):
    """The same batch, from memory, without end."""
    images = np.random.default_rng(1).normal(size=(batch_size, *input_shape)).astype(np.float32)
    return tf.data.Dataset.from_tensors((images, np.eye(10, dtype=np.float32)[np.arange(batch_size) % 10])).repeat()


def two_batches():
    """Of small_cnn, 4 examples each."""
    return repeated_batch((32, 32, 3), 4).take(2)


def one_example():
    """A batch of one, of small_cnn."""
    return next(iter(two_batches()))[0][:1].numpy()


def epoch_of(batches, number):
    """A function that reads all batches once, of `number` images; three epochs have gone before, as of a training.

    An epoch ends with its last batch: what the deletion of an iterator may wait for, see docs/performance.md, is left
    out of all sides alike.
    """

    def epoch():
        begin, iterator = now(), iter(batches)
        assert sum(images.shape[0] for images, _ in iterator) == number
        return since(begin)

    for _ in range(3):
        epoch()
    return epoch


def cpu_devices(count):
    """Names of `count` logical CPU devices; call before TensorFlow has started."""
    logical = [tf.config.LogicalDeviceConfiguration()] * count
    tf.config.set_logical_device_configuration(tf.config.list_physical_devices("CPU")[0], logical)
    return [f"CPU:{index}" for index in range(count)]


def jpeg_paths(folder):
    return sorted(tf.io.gfile.glob(os.path.join(folder, "*", "*.jpeg")))


def jpeg_batches(paths, epochs=1, batch_size=BATCH):
    """Batches of images of 224 x 224 in [0, 1] and one-hot labels, as TensorFlow's own guide to tf.data has them."""

    def load(path):
        image = tf.io.decode_jpeg(tf.io.read_file(path), channels=3)
        image = tf.image.resize(tf.image.convert_image_dtype(image, tf.float32), (224, 224))
        return image, tf.cast(tf.equal(tf.strings.split(path, os.sep)[-2], CLASSES), tf.float32)

    files = tf.data.Dataset.from_tensor_slices(paths).shuffle(len(paths)).repeat(epochs)
    return files.map(load, num_parallel_calls=tf.data.AUTOTUNE).batch(batch_size).prefetch(tf.data.AUTOTUNE)
