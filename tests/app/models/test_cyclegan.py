"""CycleGAN's networks."""

import numpy as np
import pytest
import tensorflow as tf
import tf_keras as keras

from estimator_train.app.models import cyclegan as networks
from estimator_train.app.models.cyclegan import build_discriminator, build_generator


@pytest.mark.parametrize("image_size", [(12, 16), (64, 66)])
def test_sizes_that_the_generators_cannot_halve_twice_are_refused(image_size):
    with pytest.raises(ValueError, match="multiples of 4, at least 16, got image_size"):
        networks.build_cyclegan(image_size)


@pytest.mark.slow
def test_networks_scale_with_the_images():
    def blocks(side):
        layers = build_generator((side, side), 1, "G").layers
        return sum(isinstance(layer, keras.layers.Add) for layer in layers)

    assert [blocks(side) for side in (16, 64, 128, 256)] == [1, 3, 6, 9]
    generator = build_generator((32, 48), 2, "G")
    image = tf.random.stateless_uniform((2, 32, 48, 3), [1, 2], -1, 1)
    assert generator(image).shape == image.shape and np.abs(generator(image)).max() <= 1
    # Four times as many patches in twice the size, but for three halvings instead of two.
    assert [build_discriminator((side, side), 1, "X").output_shape[1:] for side in (64, 128)] == [(16, 16, 1)] * 2


def test_channels_of_each_image_are_normalized():
    features = tf.random.stateless_normal((2, 4, 5, 3), [1, 2], 7.0, 3.0)
    ours = networks.InstanceNormalization()(features)
    theirs = keras.layers.GroupNormalization(groups=-1, epsilon=1e-5)(features)
    np.testing.assert_allclose(ours, theirs, atol=1e-5)
