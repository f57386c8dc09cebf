"""TensorFlow 2.15 with its own tf.estimator."""

import os
import tempfile
import time

import tensorflow as tf

from benchmarks.sides import tensorflow_parts as parts
from benchmarks.sides.serve import cpu_seconds, serve

keras = tf.keras


def input_pipeline(files):
    paths = parts.jpeg_paths(files)
    return parts.epoch_of(blog(os.path.join(files, "*", "*.jpeg")), len(paths))


def blog(pattern, image_size=(224, 224), batch_size=64, buffer_size=4096):
    """The input_fn of the post "Multi-GPU training with Estimators, tf.keras and tf.data", with TensorFlow 2 names."""
    initializer = tf.lookup.KeyValueTensorInitializer(parts.CLASSES, range(len(parts.CLASSES)), tf.string, tf.int64)
    index_of = tf.lookup.StaticHashTable(initializer, -1)

    def parse(path):
        image = tf.io.decode_jpeg(tf.io.read_file(path), channels=3)
        image = tf.image.resize(tf.image.convert_image_dtype(image, tf.float32), image_size)
        label = index_of.lookup(tf.strings.split([path], os.sep).values[-2])
        return image, tf.one_hot(label, len(parts.CLASSES))

    files = tf.data.Dataset.list_files(pattern, shuffle=True).shuffle(buffer_size).repeat(1)
    batches = files.apply(tf.data.experimental.map_and_batch(parse, batch_size, num_parallel_calls=os.cpu_count()))
    return batches.prefetch(tf.data.AUTOTUNE)


def flagship(files, epochs):
    def train(paths, epochs):
        keras.backend.clear_session()
        model = parts.vgg16(keras, keras.optimizers.legacy.Adam(1e-4))
        with tempfile.TemporaryDirectory() as model_dir:
            estimator = keras.estimator.model_to_estimator(model, model_dir=model_dir)
            estimator.train(lambda: parts.jpeg_batches(paths, epochs))

    paths = parts.jpeg_paths(files)
    train(paths[: parts.BATCH], 1)
    return lambda: train(paths, epochs)


def evaluated_training(evaluations, every):
    def batches():
        return parts.repeated_batch((32, 32, 3))

    def run():
        # Each checkpoint triggers an evaluation.
        config = tf.estimator.RunConfig(tempfile.mkdtemp(), save_checkpoints_steps=every)
        keras.backend.clear_session()  # tf.estimator cannot use the same model twice
        model = parts.wide_cnn(keras, keras.optimizers.legacy.Adam())
        estimator = keras.estimator.model_to_estimator(model, config=config)
        train_spec = tf.estimator.TrainSpec(batches, max_steps=evaluations * every)
        eval_spec = tf.estimator.EvalSpec(batches, steps=parts.EVALUATED, start_delay_secs=0, throttle_secs=0)
        tf.estimator.train_and_evaluate(estimator, train_spec, eval_spec)

    return run


def evaluate_again():
    estimator = _trained()
    return _again(lambda: estimator.evaluate(parts.two_batches))


def predict_again():
    estimator = _trained()
    return _again(lambda: list(estimator.predict(parts.two_batches)))


def predict_one(calls):
    """Predicts with a loaded export, the successor of tf.contrib.predictor.from_estimator."""

    def receiver_fn():
        images = tf.compat.v1.placeholder(tf.float32, [None, *x.shape[1:]])
        return tf.estimator.export.TensorServingInputReceiver(images, {"images": images})

    estimator, x = _trained(), parts.one_example()
    loaded = tf.saved_model.load(estimator.export_saved_model(tempfile.mkdtemp(), receiver_fn))
    predict = loaded.signatures["serving_default"]

    def run():
        for _ in range(calls):
            [value.numpy() for value in predict(images=tf.constant(x)).values()]

    run()
    return run


def _trained():
    estimator = keras.estimator.model_to_estimator(_small_cnn(), model_dir=tempfile.mkdtemp())
    estimator.train(parts.two_batches)
    return estimator


def _small_cnn():
    return parts.small_cnn(keras, keras.optimizers.legacy.Adam())


def _again(call):
    call()
    return lambda: {"results": len(call())}


def startup():
    class FirstStep(tf.estimator.SessionRunHook):
        def after_run(self, run_context, run_values):
            self.measured = {"ended": time.time(), "cpu": cpu_seconds()}

    def run():
        first_step = FirstStep()
        estimator = keras.estimator.model_to_estimator(_small_cnn(), model_dir=tempfile.mkdtemp())
        estimator.train(parts.two_batches, steps=1, hooks=[first_step])
        return first_step.measured

    return run


def train_model_fn(**options):
    return parts.train_model_fn(tf.estimator, **options)


def train_canned(**options):
    return parts.train_canned(tf.estimator, **options)


def evaluate_canned(**options):
    return parts.evaluate_canned(tf.estimator, **options)


def run_bare_graph(**options):
    return parts.run_bare_graph(**options)


if __name__ == "__main__":
    works = (input_pipeline, flagship, evaluated_training, evaluate_again, predict_again, predict_one, startup)
    works += (train_model_fn, run_bare_graph, train_canned, evaluate_canned)
    serve({work.__name__: work for work in works}, ["tensorflow", "tensorflow-estimator"], parts.device)
