"""Trains a custom ConvNet on Fashion-MNIST as an Estimator, with arrays as input and a hook that measures time.

Run it cell by cell in an editor, or all at once with `python examples/fashion_mnist.py`. The model and the settings are
from Kashif Rasul, "Multi-GPU training with Estimators, tf.keras and tf.data" (TensorFlow blog).
"""

import time

import tensorflow as tf
import tf_keras as keras

import estimator_train as et
from estimator_train import input_fns

# %% The data, downloaded by Keras.
(x_train, y_train), (x_test, y_test) = keras.datasets.fashion_mnist.load_data()
x_train, x_test = (x[..., None].astype("float32") / 255 for x in (x_train, x_test))
train_input_fn = input_fns.arrays(x_train, y_train, batch_size=512, shuffle=True, num_epochs=5)
test_input_fn = input_fns.arrays(x_test, y_test, batch_size=512)

# %% The model.
layers = keras.layers
model = keras.Sequential(
    [
        layers.Conv2D(32, 3, activation="relu", input_shape=(28, 28, 1)),
        layers.MaxPooling2D(2, strides=2),
        layers.Conv2D(64, 3, activation="relu"),
        layers.MaxPooling2D(2, strides=2),
        layers.Flatten(),
        layers.Dense(64, activation="relu"),
        layers.Dense(10, activation="softmax"),
    ]
)
model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])

# %% The Estimator, on all available GPUs, each with batches of 512.
strategy = tf.distribute.MirroredStrategy()
estimator = et.model_to_estimator(model, config=et.RunConfig(train_distribute=strategy))


# %% A hook that times every step.
class TimeHistory(et.SessionRunHook):
    def begin(self):
        self.times = []

    def before_run(self, run_context):
        self.start = time.time()

    def after_run(self, run_context, run_values):
        self.times.append(time.time() - self.start)


# %% Train and evaluate.
history = TimeHistory()
estimator.train(train_input_fn, hooks=[history])
print(estimator.evaluate(test_input_fn))

# %% The speed, without the first step, which compiles.
images = 512 * strategy.num_replicas_in_sync * (len(history.times) - 1)
print(f"{images / sum(history.times[1:]):.0f} images a second on {strategy.num_replicas_in_sync} devices")
