"""The body of the recipes' U-Nets, in two and in three dimensions."""

import pytest
import tf_keras as keras

from estimator_train.app.models.unet import unet_features


@pytest.mark.parametrize("sides", [(8, 12), (8, 4, 12)])
def test_features_have_the_size_of_the_input(sides):
    inputs = keras.Input((*sides, 3))
    features = unet_features(inputs, filters=2, poolings=2)
    assert features.shape.as_list() == [None, *sides, 2]
    kernel = keras.Model(inputs, features).get_layer("bottom_conv_1").kernel
    assert kernel.shape.as_list() == [3] * len(sides) + [8, 8]


def test_the_layers_have_the_names_of_checkpoints():
    inputs = keras.Input((4, 4, 3))
    names = [layer.name for layer in keras.Model(inputs, unet_features(inputs, 2, 1)).layers[1:]]
    blocks = {
        block: [f"{block}_{part}_{index}" for index in range(2) for part in ("conv", "norm", "relu")]
        for block in ("encoder_0", "bottom", "decoder_0")
    }
    assert names == [
        *blocks["encoder_0"],
        "encoder_0_pooling",
        *blocks["bottom"],
        "decoder_0_upsampling",
        "decoder_0_skip",
        *blocks["decoder_0"],
    ]
