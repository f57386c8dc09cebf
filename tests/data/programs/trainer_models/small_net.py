"""A small convolutional network of slim, with layers of tf.contrib.layers in the same argument scope."""

import tensorflow as tf
import trainer_registry as registry
from tensorflow.contrib import framework as contrib_framework
from tensorflow.contrib import layers as contrib_layers
from tensorflow.contrib import slim


@registry.register_hparams
def small_net_base():
    return tf.contrib.training.HParams(filters=2, weight_decay=1e-4, learning_rate=0.01)


@contrib_framework.deprecated("2018-09-15", "Use small_net_base.")
@registry.register_hparams
def small_net_old():
    return small_net_base()


@registry.register_model
def small_net(images, hparams, training):
    """Returns the logits [batch, 2] of images [batch, 8, 8, 1]."""
    scope = slim.arg_scope(
        [slim.conv2d, contrib_layers.fully_connected],
        weights_regularizer=slim.l2_regularizer(hparams.weight_decay),
        normalizer_fn=contrib_layers.layer_norm,
    )
    with scope, slim.arg_scope([slim.conv2d], stride=2, padding="SAME"):
        net = slim.repeat(images, 2, slim.conv2d, hparams.filters, [3, 3], scope="conv")
        net = slim.dropout(slim.flatten(net), 0.9, is_training=training)
        return contrib_layers.fully_connected(net, 2, activation_fn=None, normalizer_fn=None, scope="logits")
