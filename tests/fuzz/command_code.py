"""A user's own code for the campaign `command`, which copies it: FILE:FUNCTION of models, input_fns and callbacks."""

import numpy as np
import tensorflow as tf
import tf_keras as keras

_LOSSES = {"classification": "categorical_crossentropy", "multilabel": "binary_crossentropy", "regression": "mse"}
_ACTIVATIONS = {"classification": "softmax", "multilabel": "sigmoid", "regression": None}
_METRICS = {"classification": ["accuracy"], "multilabel": ["binary_accuracy"], "regression": ["mae"]}


def plain(image_size, num_classes, task="classification"):
    model = keras.Sequential(
        [
            keras.layers.Conv2D(4, 3, strides=2, padding="same", activation="relu", input_shape=(*image_size, 3)),
            keras.layers.GlobalAveragePooling2D(),
            keras.layers.Dense(num_classes or 3, activation=_ACTIVATIONS[task]),
        ]
    )
    model.compile("sgd", _LOSSES[task], metrics=_METRICS[task])
    return model


def normalized(image_size, num_classes, task, dropout=0.1):
    images = keras.Input((*image_size, 3), name="pixels")
    tensor = keras.layers.Rescaling(2.0, offset=-1.0)(images)
    tensor = keras.layers.DepthwiseConv2D(3, strides=2, padding="same")(tensor)
    tensor = keras.layers.BatchNormalization()(tensor)
    tensor = keras.layers.Activation("swish")(tensor)
    tensor = keras.layers.GlobalAveragePooling2D()(tensor)
    tensor = keras.layers.Dropout(dropout or 0.0)(tensor)
    model = keras.Model(images, keras.layers.Dense(num_classes or 3, activation=_ACTIVATIONS[task])(tensor))
    model.compile(keras.optimizers.Adam(1e-3), _LOSSES[task], metrics=_METRICS[task])
    return model


def without_metrics(image_size, num_classes, task):
    model = plain(image_size, num_classes, task)
    model.compile("rmsprop", model.loss)
    return model


def of_logits(image_size, num_classes):
    model = keras.Sequential([keras.layers.Flatten(input_shape=(*image_size, 3)), keras.layers.Dense(num_classes or 3)])
    model.compile("adam", keras.losses.CategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
    return model


def of_keras_3(image_size, num_classes, task, dropout=0.0):
    import keras as keras_3

    images = keras_3.Input((*image_size, 3))
    tensor = keras_3.layers.Conv2D(4, 3, strides=2, padding="same", activation="silu")(images)
    tensor = keras_3.layers.BatchNormalization()(tensor)
    tensor = keras_3.layers.GlobalMaxPooling2D()(tensor)
    tensor = keras_3.layers.Dropout(dropout or 0.0)(tensor)
    model = keras_3.Model(images, keras_3.layers.Dense(num_classes or 3, activation=_ACTIVATIONS[task])(tensor))
    model.compile(keras_3.optimizers.Adam(1e-3), _LOSSES[task], metrics=_METRICS[task])
    return model


@keras.utils.register_keras_serializable("fuzz")
class Subclassed(keras.Model):
    def __init__(self, units, activation, **arguments):
        super().__init__(**arguments)
        self.units, self.activation = units, activation
        self.pool = keras.layers.GlobalAveragePooling2D()
        self.last = keras.layers.Dense(units, activation=activation)

    def call(self, inputs):
        return self.last(self.pool(inputs))

    def get_config(self):
        return {**super().get_config(), "units": self.units, "activation": self.activation}


def subclassed(num_classes, task):
    model = Subclassed(num_classes or 3, _ACTIVATIONS[task])
    model.compile("adam", _LOSSES[task], metrics=_METRICS[task])
    return model


def of_vectors():
    vectors = keras.Input((4,), name="vector")
    model = keras.Model({"vector": vectors}, keras.layers.Dense(1)(vectors))
    model.compile("sgd", "mse", metrics=["mae"])
    return model


def _batches(features, labels):
    return tf.data.Dataset.from_tensor_slices((features, labels)).batch(2)


def images(size):
    rng = np.random.default_rng(4)
    return _batches(
        rng.uniform(size=(size, 16, 16, 3)).astype("float32"), np.eye(3, dtype="float32")[np.arange(size) % 3]
    )


def train_images():
    return images(8).repeat()


def eval_images():
    return images(5)


def vectors(size):
    rng = np.random.default_rng(5)
    return _batches(
        {"vector": rng.normal(size=(size, 4)).astype("float32")}, rng.normal(size=(size, 1)).astype("float32")
    )


def train_vectors():
    return vectors(8).repeat()


def eval_vectors():
    return vectors(5)


def stopping():
    return [keras.callbacks.EarlyStopping("loss", patience=1), keras.callbacks.TerminateOnNaN()]


def of_rates():
    return [
        keras.callbacks.LearningRateScheduler(lambda epoch, rate: rate * 0.9),
        keras.callbacks.ReduceLROnPlateau("loss", patience=1),
    ]


def of_batches():
    return [keras.callbacks.LambdaCallback(on_train_batch_end=lambda batch, logs: print("batch", batch))]


def of_keras_3_batches():
    import keras as keras_3

    return [keras_3.callbacks.LambdaCallback(on_train_batch_end=lambda batch, logs: print("batch", batch))]
