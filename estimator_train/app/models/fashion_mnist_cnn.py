"""The CNN for Fashion-MNIST, with two convolutions and a hidden layer, for small grayscale images.

Source: Kashif Rasul, "Multi-GPU training with Estimators, tf.keras and tf.data" (TensorFlow blog).
"""

import tf_keras as keras

from estimator_train.app.models.defaults import RATE_OF_FASHION_MNIST_CNN
from estimator_train.app.models.head import Head


def build(image_size: tuple[int, int], head: Head) -> keras.Model:
    """Returns the compiled model; see `models.build_model`."""
    images = keras.Input((*image_size, 3))
    features = images[:, :, :, :1]  # a grayscale image has three equal channels
    for filters in (32, 64):
        features = keras.layers.Conv2D(filters, 3, activation="relu")(features)
        features = keras.layers.MaxPooling2D(2, strides=2)(features)
    features = keras.layers.Dense(64, "relu")(keras.layers.Flatten()(features))
    model = keras.Model(images, head.outputs(features), name="fashion_mnist_cnn")
    head.compile(model, keras.optimizers.Adam(RATE_OF_FASHION_MNIST_CNN))
    return model
