"""CycleGAN: two generators and two discriminators, each with its own optimizer, as one compiled Keras model.

Source: Zhu, Park, Isola and Efros, "Unpaired Image-to-Image Translation using Cycle-Consistent Adversarial Networks"
(2017), but without the history of generated images, and with zero padding.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tensorflow as tf
import tf_keras as keras

CYCLE_WEIGHT = 10.0
IDENTITY_WEIGHT = 5.0

_NETWORKS = ("G", "F", "X", "Y")
_LOSSES = [f"loss_{name}/{part}" for name in "GF" for part in ("loss", "cycle", "identity", "total")]
_LOSSES += ["loss_X/loss", "loss_Y/loss"]
_ERRORS = [f"mae_{name}/{part}" for name in "GF" for part in ("cycle", "identity")]


def build_cyclegan(image_size: tuple[int, int], filters: int = 32, learning_rate: float = 2e-4) -> CycleGAN:
    """Returns a compiled `CycleGAN`. With 64 filters and 256 x 256 pixels, it has the paper's layers.

        >>> sorted(build_cyclegan((16, 16), filters=2).networks)
        ['F', 'G', 'X', 'Y']

    Raises:
      ValueError: height or width is not a multiple of 4, or is below 16.
    """
    if min(image_size) < 16 or any(side % 4 for side in image_size):
        raise ValueError(f"CycleGAN needs sides that are multiples of 4, at least 16, got image_size {image_size}")
    model = CycleGAN(image_size, filters)
    model.compile({name: keras.optimizers.Adam(learning_rate, beta_1=0.5) for name in _NETWORKS})
    return model


class CycleGAN(keras.Model):
    """G translates images from X to Y, and F from Y to X; the discriminators X and Y recognize real images.

    It is trained on batches (x, y) of float32 RGB images of shape (batch, height, width, 3) in [-1, 1], and compiled
    with a dict of optimizers for "G", "F", "X" and "Y". Calling it with x returns {"x": x, "generated": G(x),
    "cycled": F(G(x))}.

    `train_step` returns each replica's share of the mean over the global batch, so that summing over replicas gives the
    mean: loss_G/loss (adversarial), loss_G/cycle (G(F(y)) against y), loss_G/identity (G(y) against y), loss_G/total,
    the same for F, loss_X/loss, loss_Y/loss, and loss, the sum of the totals and the last two. `test_step` returns
    means over all examples, and the mean absolute errors mae_G/cycle, mae_G/identity, mae_F/cycle and mae_F/identity.
    """

    def __init__(self, image_size: tuple[int, int], filters: int) -> None:
        super().__init__(name="cyclegan")
        generators = {name: build_generator(image_size, filters, name) for name in "GF"}
        self.networks = generators | {name: build_discriminator(image_size, filters, name) for name in "XY"}
        self._means = [keras.metrics.Mean(name) for name in ("loss", *_LOSSES, *_ERRORS)]

    def compile(self, optimizer: Mapping[str, keras.optimizers.Optimizer], **arguments: Any) -> None:
        super().compile(optimizer, **arguments)
        for name, network in self.networks.items():
            self.optimizer[name].build(network.trainable_variables)  # for checkpoints before the first step

    def call(self, x: tf.Tensor) -> dict[str, tf.Tensor]:
        generated = self.networks["G"](x)
        return {"x": x, "generated": generated, "cycled": self.networks["F"](generated)}

    def train_step(self, data: tuple[tf.Tensor, tf.Tensor]) -> dict[str, tf.Tensor]:
        variables = {name: network.trainable_variables for name, network in self.networks.items()}
        with tf.GradientTape(persistent=True) as tape:
            losses, _ = self._measured(*data)
            means = {name: tf.nn.compute_average_loss(values) for name, values in losses.items()}
            # The paper's objective: each generator learns from both cycles.
            generator_loss = means["loss_G/total"] + means["loss_F/total"]
            discriminator_loss = means["loss_X/loss"] + means["loss_Y/loss"]
        gradients = tape.gradient(generator_loss, {name: variables[name] for name in "GF"})
        gradients |= tape.gradient(discriminator_loss, {name: variables[name] for name in "XY"})
        for name in _NETWORKS:
            self.optimizer[name].apply_gradients(zip(gradients[name], variables[name], strict=True))
        return {"loss": generator_loss + discriminator_loss} | means

    def test_step(self, data: tuple[tf.Tensor, tf.Tensor]) -> dict[str, tf.Tensor]:
        losses, errors = self._measured(*data)
        totals = (losses[name] for name in ("loss_G/total", "loss_F/total", "loss_X/loss", "loss_Y/loss"))
        values = {"loss": sum(totals)} | losses | errors
        for mean in self._means:
            mean.update_state(values[mean.name])
        return {mean.name: mean.result() for mean in self._means}

    def _measured(self, x, y):
        """Returns losses and mean absolute errors as two dicts of names to float32 tensors of shape (batch,)."""
        networks = self.networks
        generated_y, same_y = tf.split(networks["G"](tf.concat([x, y], axis=0)), 2)
        generated_x, same_x = tf.split(networks["F"](tf.concat([y, x], axis=0)), 2)
        errors = {
            "mae_G/cycle": _absolute_error(y, networks["G"](generated_x)),
            "mae_G/identity": _absolute_error(y, same_y),
            "mae_F/cycle": _absolute_error(x, networks["F"](generated_y)),
            "mae_F/identity": _absolute_error(x, same_x),
        }
        losses = {}
        for generator, discriminator, real, generated in (("G", "Y", y, generated_y), ("F", "X", x, generated_x)):
            real_scores, generated_scores = tf.split(networks[discriminator](tf.concat([real, generated], axis=0)), 2)
            parts = {
                "loss": _squared_error(generated_scores, 1.0),
                "cycle": CYCLE_WEIGHT * errors[f"mae_{generator}/cycle"],
                "identity": IDENTITY_WEIGHT * errors[f"mae_{generator}/identity"],
            }
            losses |= {f"loss_{generator}/{part}": values for part, values in parts.items()}
            losses[f"loss_{generator}/total"] = sum(parts.values())
            losses[f"loss_{discriminator}/loss"] = (
                _squared_error(real_scores, 1.0) + _squared_error(generated_scores, 0.0)
            ) / 2
        return losses, errors


class InstanceNormalization(keras.layers.Layer):
    """Normalizes each channel of each image, then scales and shifts it (Ulyanov, Vedaldi and Lempitsky, 2016).

    `GroupNormalization(groups=-1)` computes the same with more ops, which take longer to trace and to run.
    """

    def build(self, input_shape: tf.TensorShape) -> None:
        self.scale = self.add_weight("scale", input_shape[-1:], initializer="ones")
        self.offset = self.add_weight("offset", input_shape[-1:], initializer="zeros")

    def call(self, features: tf.Tensor) -> tf.Tensor:
        mean, variance = tf.nn.moments(features, axes=[1, 2], keepdims=True)
        return tf.nn.batch_normalization(features, mean, variance, self.offset, self.scale, 1e-5)


def build_generator(image_size: tuple[int, int], filters: int, name: str) -> keras.Model:
    """Returns a model from images to images in [-1, 1].

    It has 9 residual blocks from 256 pixels on, 6 from 128, 3 from 64, and otherwise 1.

        >>> build_generator((16, 16), 2, "G").output_shape
        (None, 16, 16, 3)
    """
    blocks = next(blocks for side, blocks in ((256, 9), (128, 6), (64, 3), (0, 1)) if min(image_size) >= side)
    image = keras.Input((*image_size, 3), name="image")
    features = _normalized(_conv(filters, 7)(image))
    for level in (1, 2):
        features = _normalized(_conv(filters * 2**level, 3, strides=2)(features))
    for _ in range(blocks):
        residual = _normalized(_conv(filters * 4, 3)(features))
        residual = _normalized(_conv(filters * 4, 3)(residual), activation=None)
        features = keras.layers.Add()([features, residual])
    for level in (1, 0):
        features = _normalized(_conv(filters * 2**level, 3, strides=2, kind=keras.layers.Conv2DTranspose)(features))
    return keras.Model(image, _conv(3, 7, use_bias=True, activation="tanh", dtype="float32")(features), name=name)


def build_discriminator(image_size: tuple[int, int], filters: int, name: str) -> keras.Model:
    """Returns a model from images to a logit per patch of 70 x 70 pixels, or 34 x 34 for images below 128 pixels.

    >>> build_discriminator((16, 16), 2, "X").output_shape
    (None, 4, 4, 1)
    """
    levels = 3 if min(image_size) >= 128 else 2
    image = keras.Input((*image_size, 3), name="image")
    features = keras.layers.LeakyReLU(0.2)(_conv(filters, 4, strides=2, use_bias=True)(image))
    for level in range(1, levels + 1):
        features = _conv(filters * 2**level, 4, strides=2 if level < levels else 1)(features)
        features = _normalized(features, activation=keras.layers.LeakyReLU(0.2))
    return keras.Model(image, _conv(1, 4, use_bias=True, dtype="float32")(features), name=name)


def _conv(filters, size, *, kind=keras.layers.Conv2D, use_bias=False, **arguments):
    initializer = keras.initializers.RandomNormal(stddev=0.02)
    return kind(filters, size, padding="same", use_bias=use_bias, kernel_initializer=initializer, **arguments)


def _normalized(features, activation="relu"):
    return keras.layers.Activation(activation)(InstanceNormalization()(features))


def _absolute_error(images, others):
    return tf.reduce_mean(tf.abs(images - others), axis=[1, 2, 3])


def _squared_error(patches, target):
    return tf.reduce_mean((patches - target) ** 2, axis=[1, 2, 3])
