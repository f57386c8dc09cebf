"""A small convolutional network that learns synthetic_oct on a CPU in about a minute."""

import tf_keras as keras

from estimator_train.app.models.defaults import RATE_OF_SMALL_CNN
from estimator_train.app.models.head import Head


def build(image_size: tuple[int, int], head: Head) -> keras.Model:
    """Returns the compiled model; see `models.build_model`."""
    model = keras.Sequential([keras.Input((*image_size, 3))], name="small_cnn")
    model.add(keras.layers.Rescaling(4.0, offset=-1.0))  # OCT images are dark, about 0.2 on average
    for filters in (16, 32, 64, 128):
        model.add(keras.layers.Conv2D(filters, 3, padding="same", activation="relu", kernel_initializer="he_normal"))
        model.add(keras.layers.MaxPooling2D())
    # A lesion anywhere decides the class; with average pooling instead, the model learns much more slowly.
    model.add(keras.layers.GlobalMaxPooling2D())
    for layer in head.layers():
        model.add(layer)
    head.compile(model, keras.optimizers.Adam(RATE_OF_SMALL_CNN))
    return model
