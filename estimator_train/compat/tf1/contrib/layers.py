"""tf.contrib.layers: that of tf_slim, and what it lacks: feature columns and sequences of embeddings."""

import tensorflow as tf
from tf_slim.layers import utils  # noqa: F401
from tf_slim.layers.bucketization_op import bucketize  # noqa: F401
from tf_slim.layers.initializers import *  # noqa: F403
from tf_slim.layers.layers import *  # noqa: F403
from tf_slim.layers.normalization import *  # noqa: F403
from tf_slim.layers.optimizers import OPTIMIZER_CLS_NAMES, OPTIMIZER_SUMMARIES, adaptive_clipping_fn, optimize_loss  # noqa: F401
from tf_slim.layers.regularizers import *  # noqa: F403
from tf_slim.layers.rev_block_lib import *  # noqa: F403
from tf_slim.layers.summaries import *  # noqa: F403
from tf_slim.ops.variables import model_variable

from estimator_train.compat.tf1.columns import *  # noqa: F403, contrib had them here


def embed_sequence(
    ids,
    vocab_size=None,
    embed_dim=None,
    unique=False,
    initializer=None,
    regularizer=None,
    trainable=True,
    scope=None,
    reuse=None,
):
    """Maps ids [batch, time] to vectors [batch, time, embed_dim]; `unique` is ignored."""
    if not (reuse or (vocab_size and embed_dim)):
        raise ValueError(
            "Must specify vocab size and embedding dimension when not reusing. "
            f"Got vocab_size={vocab_size} and embed_dim={embed_dim}"
        )
    with tf.compat.v1.variable_scope(scope, "EmbedSequence", [ids], reuse=reuse):
        shape = None if reuse else [vocab_size, embed_dim]
        embeddings = model_variable(
            "embeddings", shape, initializer=initializer, regularizer=regularizer, trainable=trainable
        )
        return tf.nn.embedding_lookup(embeddings, ids)
