"""TF-GAN's Estimators with a generator and a discriminator of dense layers."""

import numpy as np
import tensorflow as tf
import tensorflow_gan as tfgan

from benchmarks.clients.case import from_arrays

v1 = tf.compat.v1


def cases():
    return {"GANEstimator": gan_estimator, "TPUGANEstimator": tpu_gan_estimator}


def gan_estimator(folder):
    config = tf.estimator.RunConfig(model_dir=folder, tf_random_seed=1)
    return points(tfgan.estimator.GANEstimator(**networks(), config=config))


def tpu_gan_estimator(folder):
    config = v1.estimator.tpu.RunConfig(model_dir=folder, tf_random_seed=1)
    batches = {f"{mode}_batch_size": 8 for mode in ("train", "eval", "predict")}
    estimator = tfgan.estimator.TPUGANEstimator(**networks(), joint_train=True, use_tpu=False, config=config, **batches)
    return points(estimator)


def networks():
    return {
        "generator_fn": lambda noise, mode: v1.layers.dense(v1.layers.dense(noise, 8, tf.nn.relu), 2),
        "discriminator_fn": lambda data, _, mode: v1.layers.dense(v1.layers.dense(data, 8, tf.nn.relu), 1),
        "generator_loss_fn": tfgan.losses.wasserstein_generator_loss,
        "discriminator_loss_fn": tfgan.losses.wasserstein_discriminator_loss,
        "generator_optimizer": v1.train.AdamOptimizer(0.01),
        "discriminator_optimizer": v1.train.AdamOptimizer(0.01),
    }


def points(estimator):
    random = np.random.RandomState(1)
    noise, data = random.randn(32, 3).astype(np.float32), random.randn(32, 2).astype(np.float32) + 4
    return from_arrays(estimator, noise, data, batch_size=8, steps=12)
