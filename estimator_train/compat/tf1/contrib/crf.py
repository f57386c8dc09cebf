"""tf.contrib.crf: linear-chain conditional random fields over sequences of tags.

The score of a tag sequence is the sum of its tags' potentials, one per step, and of the transition parameters
[from tag, to tag] between neighbours. Its probability is exp(score) over the sum for all sequences (Lafferty et al.
2001). Potentials ("inputs") are [batch, time, tags], and steps at or after a sequence's length do not count.
"""

import numpy as np
import tensorflow as tf

_v1 = tf.compat.v1


def crf_sequence_score(inputs, tag_indices, sequence_lengths, transition_params):
    """Returns the scores [batch] of tag sequences [batch, time]."""
    unary = crf_unary_score(tag_indices, sequence_lengths, inputs)
    return unary + crf_binary_score(tag_indices, sequence_lengths, transition_params)


def crf_multitag_sequence_score(inputs, tag_bitmap, sequence_lengths, transition_params):
    """Returns the log of the summed exp(score) [batch] of all sequences of tags that `tag_bitmap` allows.

    The bitmap is [batch, time, tags].
    """
    inputs = tf.convert_to_tensor(inputs)
    possible = tf.where(tf.cast(tag_bitmap, tf.bool), inputs, tf.fill(tf.shape(inputs), inputs.dtype.min))
    return crf_log_norm(possible, sequence_lengths, transition_params)


def crf_log_norm(inputs, sequence_lengths, transition_params):
    """Returns the log of the summed exp(score) [batch] of all sequences; 0 for a sequence of length 0."""
    inputs, lengths = tf.convert_to_tensor(inputs), _lengths(sequence_lengths)

    def forward(alphas, step):
        index, potentials = step
        # The sum runs over the tags at the step before.
        reached = potentials + tf.reduce_logsumexp(alphas[:, :, None] + transition_params, 1)
        return tf.where(_continues(index, lengths), reached, alphas)

    alphas = tf.foldl(forward, _steps(inputs), inputs[:, 0])
    norms = tf.reduce_logsumexp(alphas, 1)
    return tf.where(lengths > 0, norms, tf.zeros_like(norms))


def crf_log_likelihood(inputs, tag_indices, sequence_lengths, transition_params=None):
    """Returns (log-likelihoods [batch] of tag sequences [batch, time], transition parameters).

    Without `transition_params`, they are the variable "transitions".
    """
    inputs = tf.convert_to_tensor(inputs)
    tags = inputs.shape[2]
    if transition_params is None:
        transition_params = _v1.get_variable("transitions", [tags, tags])
    scores = crf_sequence_score(inputs, tag_indices, sequence_lengths, transition_params)
    return scores - crf_log_norm(inputs, sequence_lengths, transition_params), transition_params


def crf_unary_score(tag_indices, sequence_lengths, inputs):
    """Returns the sums [batch] of the potentials of tag sequences [batch, time]."""
    inputs = tf.convert_to_tensor(inputs)
    counts = tf.sequence_mask(_lengths(sequence_lengths), tf.shape(inputs)[1])
    potentials = tf.gather(inputs, _tags(tag_indices, counts), batch_dims=2)
    return tf.reduce_sum(tf.where(counts, potentials, tf.zeros_like(potentials)), 1)


def crf_binary_score(tag_indices, sequence_lengths, transition_params):
    """Returns the sums [batch] of the transition parameters along tag sequences [batch, time]."""
    counts = tf.sequence_mask(_lengths(sequence_lengths), tf.shape(tag_indices)[1])
    tags = _tags(tag_indices, counts)
    transitions = tf.gather_nd(transition_params, tf.stack([tags[:, :-1], tags[:, 1:]], 2))
    return tf.reduce_sum(tf.where(counts[:, 1:], transitions, tf.zeros_like(transitions)), 1)


def viterbi_decode(score, transition_params):
    """Returns (the tags of the best sequence as a list, its score) for potentials [time, tags]; both are arrays."""
    best, pointers = score[0], []
    for potentials in score[1:]:
        reached = best[:, None] + transition_params
        pointers.append(reached.argmax(0))
        best = potentials + reached.max(0)
    tags = [int(best.argmax())]
    for pointer in reversed(pointers):
        tags.append(int(pointer[tags[-1]]))
    return tags[::-1], np.max(best)


def crf_decode(potentials, transition_params, sequence_length):
    """Returns (the tags [batch, time] of the best sequences, their scores [batch]); tags are 0 after the end."""
    potentials, lengths = tf.convert_to_tensor(potentials), _lengths(sequence_length)
    tags = tf.range(tf.shape(potentials)[2])

    def forward(state, step):
        best, _ = state
        index, potentials = step
        reached = best[:, :, None] + transition_params
        continues = _continues(index, lengths)
        pointers = tf.argmax(reached, 1, tf.int32)
        # After a sequence's end, every tag points to itself, so that going back begins at the sequence's last step.
        return tf.where(continues, potentials + tf.reduce_max(reached, 1), best), tf.where(continues, pointers, tags)

    first = potentials[:, 0], tf.zeros_like(potentials[:, 0], tf.int32)
    scores, pointers = tf.scan(forward, _steps(potentials), first)
    best = scores[-1]
    last = tf.argmax(best, 1, tf.int32)
    before = tf.scan(lambda tag, pointers: tf.gather(pointers, tag, batch_dims=1), pointers, last, reverse=True)
    decoded = tf.transpose(tf.concat([before[1:], last[None]], 0))
    counts = tf.sequence_mask(lengths, tf.shape(potentials)[1], tf.int32)
    return decoded * counts, tf.reduce_max(best, 1)


def _lengths(sequence_lengths):
    return tf.cast(sequence_lengths, tf.int32)


def _tags(tag_indices, counts):
    """Returns the tags as int32, and 0 at steps that do not count, which may be padded with any number."""
    return tf.cast(tag_indices, tf.int32) * tf.cast(counts, tf.int32)


def _steps(inputs):
    """Returns (the indices [time], the potentials [time, batch, tags]) of all steps.

    The first is among them, though nothing comes before it, because a loop over no steps fails in TensorFlow 1's
    control flow.
    """
    return tf.range(tf.shape(inputs)[1]), tf.transpose(inputs, [1, 0, 2])


def _continues(index, lengths):
    """Returns whether a step follows another one in each sequence, [batch, 1]."""
    return ((index > 0) & (index < lengths))[:, None]
