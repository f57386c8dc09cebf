"""tf.contrib.crf against the scores of every possible tag sequence.

TensorFlow 1.15.5 (Python 3.7, tensorflow==1.15.5 with protobuf<3.21) ran these tests once with
`crf = tf.contrib.crf`, and all hold there to 1e-5; but it takes tensors of float32 alone, and on a CPU it refuses tags
that do not exist in the padding, too, so it had zeros there.
"""

import itertools

import numpy as np
import pytest
import tensorflow as tf

from estimator_train.compat.tf1.contrib import crf

v1 = tf.compat.v1

TAGS = 3
LENGTHS = [4, 1, 2, 3]
random = np.random.RandomState(0)
POTENTIALS = random.normal(size=(4, 4, TAGS))
TRANSITIONS = random.normal(size=(TAGS, TAGS))
GOLD = np.array([[0, 2, 1, 1], [2, 9, 9, 9], [1, 0, -1, -1], [2, 2, 0, -1]])  # padded with tags that do not exist


def score(potentials, tags):
    unary = sum(potentials[step, tag] for step, tag in enumerate(tags))
    return unary + sum(TRANSITIONS[pair] for pair in itertools.pairwise(tags))


def all_paths(row):
    """Returns a dict of every tag sequence of a row's length to its score."""
    return {tags: score(POTENTIALS[row], tags) for tags in itertools.product(range(TAGS), repeat=LENGTHS[row])}


def gold(row):
    return score(POTENTIALS[row], GOLD[row, : LENGTHS[row]])


def log_sum(scores):
    return np.log(np.sum(np.exp(list(scores))))


ROWS = range(len(LENGTHS))
NORMS = [log_sum(all_paths(row).values()) for row in ROWS]


@pytest.fixture(params=["known", "unknown"])
def potentials(request):
    """The potentials, in a graph that knows their shape and in one that does not."""
    shape = POTENTIALS.shape if request.param == "known" else [None, None, TAGS]
    return v1.placeholder_with_default(POTENTIALS, shape)


def test_scores_and_likelihoods_are_those_of_all_paths(potentials, run):
    likelihood, transitions = crf.crf_log_likelihood(potentials, GOLD, LENGTHS, TRANSITIONS)
    assert transitions is TRANSITIONS
    found = run(
        {
            "sequence": crf.crf_sequence_score(potentials, GOLD, LENGTHS, TRANSITIONS),
            "norm": crf.crf_log_norm(potentials, tf.constant(LENGTHS, tf.int64), TRANSITIONS),
            "likelihood": likelihood,
        }
    )
    np.testing.assert_allclose(found["sequence"], [gold(row) for row in ROWS])
    np.testing.assert_allclose(found["norm"], NORMS)
    np.testing.assert_allclose(found["likelihood"], [gold(row) - NORMS[row] for row in ROWS])


def test_a_sequence_score_is_its_unary_and_its_binary_score(run):
    unary = crf.crf_unary_score(GOLD, LENGTHS, POTENTIALS)
    binary = crf.crf_binary_score(GOLD, LENGTHS, TRANSITIONS)
    unary, binary = run([unary, binary])
    assert unary[1] == POTENTIALS[1, 0, 2] and binary[1] == 0
    np.testing.assert_allclose(unary + binary, [gold(row) for row in ROWS])


def test_decoding_finds_the_best_of_all_paths(potentials, run):
    tags, scores = run(crf.crf_decode(potentials, TRANSITIONS, LENGTHS))
    assert tags.dtype == np.int32
    for row in ROWS:
        paths = all_paths(row)
        best = max(paths, key=paths.get)
        assert tags[row].tolist() == [*best, *[0] * (4 - len(best))]
        assert scores[row] == pytest.approx(paths[best])
        by_numpy, its_score = crf.viterbi_decode(POTENTIALS[row, : LENGTHS[row]], TRANSITIONS)
        assert tuple(by_numpy) == best and its_score == pytest.approx(paths[best])


def test_several_tags_of_a_step_may_be_right(run):
    allowed = np.ones_like(POTENTIALS, bool)
    allowed[0, 1, 0] = allowed[1, 0, 2] = False
    norms = run(crf.crf_multitag_sequence_score(POTENTIALS, allowed, LENGTHS, TRANSITIONS))
    first = [value for tags, value in all_paths(0).items() if tags[1] != 0]
    np.testing.assert_allclose(norms, [log_sum(first), log_sum(POTENTIALS[1, 0, :2]), *NORMS[2:]])


def test_one_step_is_a_softmax(run):
    one = POTENTIALS[:, :1]
    likelihood, _ = crf.crf_log_likelihood(one, GOLD[:, :1], [1, 1, 1, 0], TRANSITIONS)
    likelihood, (tags, scores) = run([likelihood, crf.crf_decode(one, TRANSITIONS, [1, 1, 1, 1])])
    expected = [one[row, 0, GOLD[row, 0]] - log_sum(one[row, 0]) for row in ROWS]
    np.testing.assert_allclose(likelihood, [*expected[:3], 0])
    np.testing.assert_array_equal(tags, one.argmax(2))
    np.testing.assert_array_equal(scores, one.max((1, 2)))


def test_the_likelihood_trains_its_transitions(run):
    with v1.variable_scope("loss"):
        likelihood, transitions = crf.crf_log_likelihood(tf.constant(POTENTIALS, tf.float32), GOLD, LENGTHS)
    assert transitions.op.name == "loss/transitions" and transitions.shape == (TAGS, TAGS)
    gradient = tf.gradients(likelihood, transitions)[0]
    gradient = run(gradient)
    # The derivative is the number of times a transition is taken less its expectation: both sum to the same number.
    assert np.abs(gradient).max() > 0.1 and gradient.sum() == pytest.approx(0, abs=1e-5)
