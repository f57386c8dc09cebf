"""Structures of fetches: they keep their types, and what is made of the same ones is made once."""

import collections

import tensorflow as tf

from estimator_train._engine.session.fetches import MadeOfFetches, map_fetches

Pair = collections.namedtuple("Pair", ["one", "other"])


def test_mapped_fetches_keep_the_types_and_the_order_of_containers():
    with_default = collections.defaultdict(list, {"b": 1, 3: (2, [3])})
    mapped = map_fetches(lambda leaf: leaf * 10, [Pair(with_default, collections.OrderedDict(a=4)), {}])
    assert mapped == [Pair({"b": 10, 3: (20, [30])}, {"a": 40}), {}]
    assert [type(part) for part in mapped[0]] == [collections.defaultdict, collections.OrderedDict]
    assert list(mapped[0].one) == ["b", 3] and mapped[0].one["new"] == [] and with_default["b"] == 1


def test_fetches_of_tensors_and_names_are_looked_up_once_and_others_not(graph):
    made = []
    of_fetches = MadeOfFetches(lambda leaves: made.append(leaves) or len(made))
    one, other = tf.constant(1), tf.no_op()
    assert [of_fetches({"a": one, "b": [other]}) for _ in range(3)] == [1, 1, 1]
    assert of_fetches([one, other]) == 1  # the same leaves
    assert of_fetches([other, one]) == 2
    assert [of_fetches(["".join(["na", "me"]), one]) for _ in range(2)] == [3, 3]  # texts of their own
    assert [of_fetches([b"name", one]) for _ in range(2)] == [4, 5]
    assert made == [[one, other], [other, one], ["name", one], [b"name", one], [b"name", one]]
