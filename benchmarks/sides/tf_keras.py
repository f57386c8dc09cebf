"""tf_keras: Keras 2 on today's TensorFlow; its `fit`, and a bare tf.function of its `train_step`."""

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
        model.optimizer.iterations.numpy()  # waits, on a GPU, for the last

    run()
    return run


def workers(model, steps, steps_per_execution, workers, cluster=None):
    """Steps of `fit` in as many processes, under a MultiWorkerMirroredStrategy."""
    given = {"model": model, "steps": steps, "steps_per_execution": steps_per_execution}

    def set_up(folder):
        return fit.fit_steps(keras, **given, strategy=tf.distribute.MultiWorkerMirroredStrategy())

    return in_cluster("tf_keras", "workers", {**given, "workers": workers, "cluster": cluster}, set_up)


if __name__ == "__main__":
    names = ("flagship", "memory", "fit_steps", "evaluated_training", "evaluate_files")
    works = {name: functools.partial(getattr(fit, name), keras) for name in names}
    serve(works | {"bare_steps": bare_steps, "workers": workers}, ["tensorflow", "tf_keras"], parts.device)
