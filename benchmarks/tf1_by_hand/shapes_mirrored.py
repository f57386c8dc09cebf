"""examples/legacy/tf1/shapes_mirrored.py for TensorFlow 2.15, without tf.contrib and on two logical CPUs."""

import json
import os
import tempfile
import time

import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()
cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)

tf.flags.DEFINE_string("model_dir", None, "Directory for checkpoints; a temporary one by default.")
tf.flags.DEFINE_integer("num_gpus", 2, "GPUs to train on.")
tf.flags.DEFINE_integer("batch_size", 8, "Images per step on each GPU.")
tf.flags.DEFINE_integer("epochs", 3, "Passes over the images.")
FLAGS = tf.flags.FLAGS

LABELS = ["circle", "cross", "square"]
IMAGE_SIZE = (16, 16)


class TimeHistory(tf.train.SessionRunHook):
    def begin(self):
        self.times = []

    def before_run(self, run_context):
        self.iter_time_start = time.time()

    def after_run(self, run_context, run_values):
        self.times.append(time.time() - self.iter_time_start)


def draw_images(folder, count, seed):
    random = np.random.RandomState(seed)
    y, x = np.mgrid[-1:1:24j, -1:1:24j]
    image = tf.placeholder(tf.uint8, [24, 24, 3])
    jpeg = tf.image.encode_jpeg(image, quality=95)
    with tf.Session() as session:
        for index in range(count):
            label = LABELS[index % len(LABELS)]
            across, down, size = random.uniform(-0.3, 0.3), random.uniform(-0.3, 0.3), random.uniform(0.4, 0.7)
            right, low = np.abs(x - across) / size, np.abs(y - down) / size
            inside = {
                "circle": right**2 + low**2 < 1,
                "square": np.maximum(right, low) < 0.9,
                "cross": (np.minimum(right, low) < 0.3) & (np.maximum(right, low) < 1),
            }[label]
            pixels = np.where(inside[..., None], random.randint(120, 256, 3), random.randint(0, 100, 3))
            path = os.path.join(folder, label, "%03d.jpeg" % index)
            tf.gfile.MakeDirs(os.path.dirname(path))
            with tf.gfile.GFile(path, "wb") as file:
                file.write(session.run(jpeg, {image: pixels.astype(np.uint8)}))
    return os.path.join(folder, "*", "*.jpeg")


def input_fn(file_pattern, labels, image_size, shuffle, batch_size, num_epochs=None, buffer_size=4096):
    num_classes = len(labels)
    ids = tf.range(num_classes, dtype=tf.int64)
    table = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(tf.constant(labels), ids), -1)

    def _map_func(filename):
        label = tf.string_split([filename], delimiter=os.sep).values[-2]
        image = tf.image.decode_jpeg(tf.read_file(filename), channels=3)
        image = tf.image.convert_image_dtype(image, dtype=tf.float32)
        image = tf.image.resize_images(image, size=image_size)
        return (image, tf.one_hot(table.lookup(label), num_classes))

    dataset = tf.data.Dataset.list_files(file_pattern, shuffle=False)
    if num_epochs is not None and shuffle:
        dataset = dataset.apply(tf.data.experimental.shuffle_and_repeat(buffer_size, num_epochs, seed=5))
    elif shuffle:
        dataset = dataset.shuffle(buffer_size)
    elif num_epochs is not None:
        dataset = dataset.repeat(num_epochs)
    dataset = dataset.apply(
        tf.data.experimental.map_and_batch(map_func=_map_func, batch_size=batch_size, num_parallel_calls=os.cpu_count())
    )
    return dataset.prefetch(buffer_size=None)


def make_model():
    layers = tf.keras.layers
    initializer = tf.keras.initializers.he_uniform
    model = tf.keras.Sequential(
        [
            layers.Conv2D(
                8, 3, activation="relu", input_shape=IMAGE_SIZE + (3,), kernel_initializer=initializer(seed=1)
            ),
            layers.MaxPooling2D(),
            layers.Conv2D(16, 3, activation="relu", kernel_initializer=initializer(seed=2)),
            layers.Flatten(),
            layers.Dense(len(LABELS), activation="softmax", kernel_initializer=initializer(seed=3)),
        ]
    )
    # TensorFlow 2.15 divides gradients by the replicas twice. Adam with half the epsilon gives the same updates.
    model.compile(
        optimizer=tf.train.AdamOptimizer(learning_rate=0.01, epsilon=0.5e-8),
        loss="categorical_crossentropy",
        metrics=["accuracy"],
    )
    return model


def main(unused_argv):
    tf.logging.set_verbosity(tf.logging.INFO)
    data_dir = tempfile.mkdtemp()
    train_files = draw_images(os.path.join(data_dir, "train"), 96, seed=1)
    test_files = draw_images(os.path.join(data_dir, "test"), 48, seed=2)

    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"], cross_device_ops=tf.distribute.ReductionToOneDevice())
    config = tf.estimator.RunConfig(train_distribute=strategy)
    model_dir = FLAGS.model_dir or tempfile.mkdtemp()
    estimator = tf.keras.estimator.model_to_estimator(make_model(), model_dir=model_dir, config=config)

    time_hist = TimeHistory()
    estimator.train(
        input_fn=lambda: input_fn(train_files, LABELS, IMAGE_SIZE, True, FLAGS.batch_size, FLAGS.epochs),
        hooks=[time_hist],
    )
    total_time = sum(time_hist.times)
    print("total time with %d GPUs: %.2f seconds" % (FLAGS.num_gpus, total_time))
    images = FLAGS.batch_size * FLAGS.num_gpus * len(time_hist.times)
    print("%.1f images/second with %d GPUs" % (images / total_time, FLAGS.num_gpus))

    metrics = estimator.evaluate(input_fn=lambda: input_fn(test_files, LABELS, IMAGE_SIZE, False, 16, num_epochs=1))
    predictions = estimator.predict(input_fn=lambda: input_fn(test_files, LABELS, IMAGE_SIZE, False, 16, num_epochs=1))
    (output,) = next(predictions).keys()

    results = {
        "steps": len(time_hist.times),
        "metrics": {name: float(value) for name, value in metrics.items()},
        "probabilities": [row[output].tolist() for row, _ in zip(predictions, range(6))],
    }
    print("results: " + json.dumps(results))


if __name__ == "__main__":
    tf.app.run()
