"""tf_keras: Keras 2 on today's TensorFlow; its `fit`, and a bare tf.function of its `train_step`."""

import functools

import tensorflow as tf
import tf_keras as keras

from benchmarks.sides import fit
from benchmarks.sides import tensorflow_parts as parts
from benchmarks.sides.serve import now, serve, since


def fit_steps(model, steps, steps_per_execution):
    model = getattr(parts, model)(keras, steps_per_execution=steps_per_execution)
    batches = parts.repeated_batch(model.input_shape[1:])

    def run():
        clock = _Clock()
        model.fit(batches, epochs=2, steps_per_epoch=steps, callbacks=[clock], verbose=0)
        return since(clock.begin, clock.end)

    run()
    return run


class _Clock(keras.callbacks.Callback):
    """Times the last epoch. A callback for each batch would have fit wait for the values of every step."""

    def on_epoch_begin(self, epoch, logs=None):
        self.begin = now()

    def on_epoch_end(self, epoch, logs=None):
        self.end = now()


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


if __name__ == "__main__":
    works = {name: functools.partial(getattr(fit, name), keras) for name in ("flagship", "memory")}
    works |= {"fit_steps": fit_steps, "bare_steps": bare_steps}
    serve(works, ["tensorflow", "tf_keras"], parts.device)
