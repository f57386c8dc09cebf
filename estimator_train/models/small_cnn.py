"""A small convolutional network that learns synthetic_oct on a CPU in a minute or so."""

import tf_keras as keras

from estimator_train.models.weights import is_file, load_file

DEFAULT_WEIGHTS = "none"


def build(image_size, num_classes, weights=DEFAULT_WEIGHTS):
    """Returns the compiled model; a weights file holds the whole model's. See `models.build_model`."""
    if weights == "imagenet":
        raise ValueError('small_cnn has no ImageNet weights; pass a weights file or "none"')
    model = keras.Sequential([keras.Input((*image_size, 3))], name="small_cnn")
    for filters in (16, 32, 64, 96):
        model.add(keras.layers.Conv2D(filters, 3, padding="same", use_bias=False))
        model.add(keras.layers.BatchNormalization(momentum=0.9))
        model.add(keras.layers.ReLU())
        model.add(keras.layers.MaxPooling2D())
    model.add(keras.layers.GlobalAveragePooling2D())
    model.add(keras.layers.Dense(num_classes, "softmax", dtype="float32"))
    model.compile(keras.optimizers.Adam(2e-3), "categorical_crossentropy", metrics=["accuracy"])
    if is_file(weights):
        load_file(model, weights)
    return model
