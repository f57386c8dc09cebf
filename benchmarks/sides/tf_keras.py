"""tf_keras, Keras 2 on today's TensorFlow: its `fit`, and its `train_step` in a bare tf.function."""

import functools

import tensorflow as tf
import tf_keras as keras

from benchmarks.sides import fit
from benchmarks.sides import tensorflow_parts as parts
from benchmarks.sides.serve import serve
from benchmarks.sides.workers import in_cluster


def bare_steps(model, steps, steps_per_call):
    model = getattr(parts, model)(keras)

    @tf.function
    def train(iterator):
        for _ in tf.range(steps_per_call):
            model.train_step(next(iterator))

    iterator = iter(parts.repeated_batch(model.input_shape[1:]))

    def run():
        for _ in range(steps // steps_per_call):
            train(iterator)
        model.optimizer.iterations.numpy()  # on a GPU, waits for the last step

    run()
    return run


def tfrecord_input(files):
    paths = parts.jpeg_paths(files)
    return parts.epoch_of(parts.tfrecord_batches(parts.write_tfrecords(paths)), len(paths))


def npz_input(examples):
    return parts.epoch_of(parts.npz_batches(parts.write_npz(examples)), examples)


def cached_input(files, epochs):
    """Creates an iterator per epoch, as `fit` does."""
    paths = parts.jpeg_paths(files)
    batches = parts.cached_jpeg_batches(paths)

    def run():
        return parts.read((batch for _ in range(epochs) for batch in batches), epochs * len(paths))

    run()
    return run


def generator_input(examples):
    signature = tf.TensorSpec((20,), tf.float32), tf.TensorSpec((), tf.int64)
    rows = tf.data.Dataset.from_generator(parts.rows_of_a_table(examples), output_signature=signature)
    return parts.epoch_of(rows.batch(parts.BATCH).prefetch(tf.data.AUTOTUNE), examples)


def workers(model, steps, steps_per_execution, workers, cluster=None):
    """Runs steps of `fit` in `workers` processes under a MultiWorkerMirroredStrategy."""
    given = {"model": model, "steps": steps, "steps_per_execution": steps_per_execution}

    def set_up(folder):
        return fit.fit_steps(keras, **given, strategy=tf.distribute.MultiWorkerMirroredStrategy())

    return in_cluster("tf_keras", "workers", {**given, "workers": workers, "cluster": cluster}, set_up)


if __name__ == "__main__":
    names = ("flagship", "memory", "fit_steps", "evaluated_training", "evaluate_files", "predict_files", "predict_one")
    works = {name: functools.partial(getattr(fit, name), keras) for name in names}
    inputs = (tfrecord_input, npz_input, cached_input, generator_input)
    works |= {work.__name__: work for work in (bare_steps, workers, *inputs)}
    serve(works, ["tensorflow", "tf_keras"], parts.device)
