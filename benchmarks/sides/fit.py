"""Code shared by tf_keras and Keras 3, using `fit` of the given Keras."""

import contextlib
import tempfile

import tensorflow as tf

from benchmarks.sides import tensorflow_parts as parts
from benchmarks.sides.serve import now, peak_bytes, since


def fit_steps(keras, model, steps, steps_per_execution, strategy=None):
    class Clock(keras.callbacks.Callback):
        """Times the last epoch, because a callback per batch would make fit wait for the values of every step."""

        def on_epoch_begin(self, epoch, logs=None):
            self.begin = now()

        def on_epoch_end(self, epoch, logs=None):
            self.end = now()

    with strategy.scope() if strategy else contextlib.nullcontext():
        model = getattr(parts, model)(keras, steps_per_execution=steps_per_execution)
    batches = parts.repeated_batch(model.input_shape[1:])
    if strategy:
        on_each_replica = batches
        batches = strategy.distribute_datasets_from_function(lambda context: on_each_replica)

    def run():
        clock = Clock()
        model.fit(batches, epochs=2, steps_per_epoch=steps, callbacks=[clock], verbose=0)
        return since(clock.begin, clock.end)

    run()
    return run


def evaluated_training(keras, evaluations, every):
    def run():
        model = parts.wide_cnn(keras)
        saves = keras.callbacks.ModelCheckpoint(tempfile.mkdtemp() + "/{epoch}.keras")
        options = {"validation_data": batches, "validation_steps": parts.EVALUATED, "callbacks": [saves]}
        model.fit(batches, epochs=evaluations, steps_per_epoch=every, verbose=0, **options)

    batches = parts.repeated_batch((32, 32, 3))
    return run


def evaluate_files(keras, files, replicas=1):
    return _over_files(keras, "evaluate", files, replicas)


def predict_files(keras, files, replicas=1):
    return _over_files(keras, "predict", files, replicas)


def _over_files(keras, verb, files, replicas):
    strategy = tf.distribute.get_strategy()
    if replicas > 1:
        strategy = tf.distribute.MirroredStrategy(parts.cpu_devices(replicas))
    with strategy.scope():
        model = parts.scan_cnn(keras)
    paths = parts.jpeg_paths(files)

    def run():
        getattr(model, verb)(parts.jpeg_batches(paths, batch_size=replicas * parts.BATCH), verbose=0)

    run()
    return run


def predict_one(keras, calls, through):
    """Predicts `through` "predict", the model's loop over batches, or "call", the model as a function."""
    model, x = parts.small_cnn(keras), parts.one_example()

    def run():
        for _ in range(calls):
            model.predict(x, verbose=0) if through == "predict" else model(x, training=False).numpy()

    run()
    return run


def flagship(keras, files, epochs, **compile_options):
    def train(paths, epochs):
        keras.backend.clear_session()
        model = parts.vgg16(keras, keras.optimizers.Adam(1e-4), **compile_options)
        model.fit(parts.jpeg_batches(paths), epochs=epochs, verbose=0)

    paths = parts.jpeg_paths(files)
    train(paths[: parts.BATCH], 1)
    return lambda: train(paths, epochs)


def memory(keras, files):
    run = flagship(keras, files, 1)
    return lambda: run() or {"peak": peak_bytes()}
