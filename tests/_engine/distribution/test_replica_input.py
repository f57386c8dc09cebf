"""Batches are shared out so that every replica has one and every example is used once."""

import collections
import functools
import itertools

import keras as keras3
import numpy as np
import pytest
import tensorflow as tf
import tf_keras as keras

from estimator_train._engine.distribution import replica_input

SIZES = [(examples, batch_size) for examples in range(3, 12) for batch_size in (1, 2, 3, 5, 20)]


def shared_out(dataset, replicas):
    return [batch.tolist() for batch in replica_input._share_out(dataset, replicas).as_numpy_iterator()]


@pytest.mark.slow
@pytest.mark.parametrize("replicas", [2, 3])
def test_each_example_reaches_one_replica_in_order_and_none_is_left_empty(replicas):
    def one_size(examples, batch_size):
        shared = replica_input._share_out(tf.data.Dataset.range(examples).batch(batch_size), replicas)
        return shared.map(lambda batch: (examples, batch_size, batch))

    found = collections.defaultdict(list)
    # All sizes in one dataset, since making one is slow.
    sizes = tf.data.Dataset.from_tensor_slices(tuple(np.transpose(SIZES)))
    for examples, batch_size, batch in sizes.flat_map(one_size).as_numpy_iterator():
        found[int(examples), int(batch_size)].append(batch.tolist())
    assert found.keys() == set(SIZES)
    for (examples, batch_size), batches in found.items():
        given = [list(range(start, min(start + batch_size, examples))) for start in range(0, examples, batch_size)]
        case = (examples, batch_size, batches)
        assert list(itertools.chain(*batches)) == list(range(examples)), case
        assert len(batches) % replicas == 0, case
        assert all(batches), case
        assert max(map(len, batches)) <= batch_size + 1, case
        # As many steps as batches allow, or one less if the last batches had to be split together.
        steps = -(-len(given) // replicas)
        assert len(batches) // replicas in (steps, steps - 1), case
        # All groups but the last are the batches as given.
        whole = len(batches) - replicas
        assert batches[:whole] == given[:whole], case
        # The last step too, or its batches differ by at most one example.
        sizes = [len(batch) for batch in batches[whole:]]
        assert max(sizes) - min(sizes) <= 1 or batches == given, case


@pytest.mark.parametrize("kind", [keras.utils.Sequence, keras3.utils.Sequence, lambda: iter([])])
def test_an_input_fn_that_returns_an_iterator_or_a_sequence_is_refused(kind):
    with pytest.raises(ValueError, match=r"make a Dataset of .* by .*from_generator or et\.input_fns\.generator"):
        replica_input.call_input_fn(lambda: ({"x": kind()}, np.zeros(1)))


def test_batches_that_divide_by_the_replicas_stay_as_they_are():
    given = [[0, 1, 2], [3, 4, 5], [6, 7, 8], [9]]
    assert shared_out(tf.data.Dataset.range(10).batch(3), 2) == given


def test_what_is_left_is_split_evenly():
    assert shared_out(tf.data.Dataset.range(11).batch(4), 2) == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9], [10]]
    assert shared_out(tf.data.Dataset.range(9).batch(4), 2) == [[0, 1, 2, 3, 4], [5, 6, 7, 8]]
    assert shared_out(tf.data.Dataset.range(5).batch(8), 2) == [[0, 1, 2], [3, 4]]


def test_endless_and_empty_data_are_taken():
    endless = replica_input._share_out(tf.data.Dataset.range(5).repeat().batch(2), 2)
    assert [batch.tolist() for batch in endless.take(3).as_numpy_iterator()] == [[0, 1], [2, 3], [4, 0]]
    assert shared_out(tf.data.Dataset.range(0).batch(2), 3) == []


@pytest.mark.parametrize("examples", [1, 2])
def test_fewer_examples_than_replicas_are_refused(examples):
    with pytest.raises(tf.errors.InvalidArgumentError, match="3 replicas need at least 3 examples"):
        shared_out(tf.data.Dataset.range(examples).batch(1), 3)


def test_structures_stay_and_rows_stay_together():
    rows = np.arange(10, dtype="int64")
    given = tf.data.Dataset.from_tensor_slices(({"left": rows, "right": (rows * 2, rows[:, None])}, rows * 3)).batch(3)
    shared = replica_input._share_out(given, 3)
    assert shared.element_spec == given.element_spec
    batches = list(shared.as_numpy_iterator())
    assert [len(labels) for _, labels in batches] == [4, 3, 3]
    for features, labels in batches:
        np.testing.assert_array_equal(features["left"] * 3, labels)
        np.testing.assert_array_equal(features["right"][0], features["left"] * 2)
        np.testing.assert_array_equal(features["right"][1][:, 0], features["left"])


def padded(lengths, batch_size):
    """A scalar for each row of ones, in batches that -1 pads."""
    spec = tf.TensorSpec([], tf.int64), tf.TensorSpec([None], tf.int64)
    rows = [(row, [1] * length) for row, length in enumerate(lengths)]
    data = tf.data.Dataset.from_generator(lambda: rows, output_signature=spec)
    return data.padded_batch(batch_size, padding_values=(np.int64(0), np.int64(-1)))


@pytest.mark.slow
def test_batches_padded_to_other_lengths_are_cut_and_never_joined():
    lengths = [4, 4, 3, 2, 3, 3, 2, 3, 1]
    given = padded(lengths, 4)
    for replicas, sizes in ((2, [2, 2, 4, 1]), (3, [4, 4, 1])):
        shared = replica_input._share_out(given, replicas)
        assert shared.element_spec == given.element_spec
        found = list(shared.as_numpy_iterator())
        assert [len(numbers) for numbers, _ in found] == sizes
        rows = itertools.chain(*(rows.tolist() for _, rows in found))
        assert list(rows) == list(itertools.chain(*(rows.tolist() for _, rows in given.as_numpy_iterator())))
    assert [len(rows) for _, rows in replica_input._share_out(padded([3] * 9, 4), 2)] == [5, 4]  # they can be joined
    with pytest.raises(tf.errors.InvalidArgumentError, match="their batches differ in shape.* \\[1 1 1\\]"):
        list(replica_input._share_out(padded([3, 2, 3], 1), 2))


def test_none_is_a_part_of_batches():
    given = tf.data.Dataset.range(7).batch(2).map(lambda rows: ({"none": None, "rows": rows}, None))
    shared = replica_input._share_out(given, 2)
    assert shared.element_spec == given.element_spec
    batches = [(features["none"], features["rows"].numpy().tolist(), labels) for features, labels in shared]
    assert batches == [(None, rows, None) for rows in ([0, 1], [2, 3], [4, 5], [6])]
    assert replica_input.batch_size((None, tf.zeros([3]))) == 3
    alone = tf.data.Dataset.range(3).batch(2).map(lambda rows: ((rows, None),))
    assert [batch[0][0].numpy().tolist() for batch in replica_input._share_out(alone, 2)] == [[0, 1], [2]]
    in_order = replica_input._share_out(given, 2, lambda features: {"none": features["none"], "rows": features["rows"]})
    assert [features["rows"].numpy().tolist() for features, _ in in_order] == [rows for _, rows, _ in batches]


def test_none_is_a_part_of_batches_of_which_incomplete_groups_are_dropped():
    given = tf.data.Dataset.range(7).batch(2).filter(lambda rows: tf.size(rows) > 1).map(lambda rows: (rows, None))
    kept = replica_input._drop_incomplete(given, 2)
    assert kept.element_spec == given.element_spec
    assert [(rows.numpy().tolist(), labels) for rows, labels in kept] == [([0, 1], None), ([2, 3], None)]


@pytest.mark.parametrize("replicas", [2, 3])
def test_each_replica_takes_the_next_batch(replicas, mirrored):
    strategy = mirrored(replicas)
    data = replica_input.distribute(strategy, lambda context: tf.data.Dataset.range(7 * replicas).batch(7))
    steps = [strategy.experimental_local_results(batch) for batch in data]
    assert len(steps) == 1
    assert [batch.numpy().tolist() for batch in steps[0]] == [
        list(range(7 * replica, 7 * replica + 7)) for replica in range(replicas)
    ]


def test_batch_size_counts_the_examples_of_any_structure():
    assert replica_input.batch_size({"b": (tf.zeros([3, 2]), tf.zeros([3]))}) == 3
    assert replica_input.batch_size((tf.zeros([0, 2]),)) == 0


def test_an_input_fn_gets_the_arguments_that_it_names():
    offered = {"mode": "train", "params": {}, "config": 1, "input_context": 2}
    assert replica_input.call_input_fn(lambda: "none", **offered) == "none"
    assert replica_input.call_input_fn(lambda mode, input_context: (mode, input_context), **offered) == ("train", 2)
    assert replica_input.call_input_fn(lambda config, other=5: (config, other), **offered) == (1, 5)

    class InputFn:
        def __call__(self, params):
            return params

    assert replica_input.call_input_fn(InputFn(), **offered) == {}
    with pytest.raises(TypeError):
        replica_input.call_input_fn(lambda unknown: unknown, **offered)


def test_an_input_fn_runs_on_the_cpu():
    assert "CPU:0" in replica_input.call_input_fn(lambda: tf.constant(1)).device


def with_policy(dataset, policy):
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = policy
    return dataset.with_options(options)


def shards(input_fn, count=2):
    contexts = [tf.distribute.InputContext(count, index, count) for index in range(count)]
    return [replica_input.call_input_fn(input_fn, input_context=context) for context in contexts]


def test_data_whose_options_ask_for_it_is_sharded_by_examples():
    def input_fn():
        dataset = tf.data.Dataset.range(8).map(lambda x: {"a": tf.SparseTensor([[0]], [x], [1]), "b": x}).batch(2)
        return with_policy(dataset, tf.data.experimental.AutoShardPolicy.DATA).prefetch(1)

    batches = [[batch["b"].numpy().tolist() for batch in shard] for shard in shards(input_fn)]
    assert batches == [[[0, 1], [4, 5]], [[2, 3], [6, 7]]]
    sparse = [
        [tf.sparse.to_dense(batch["a"]).numpy().ravel().tolist() for batch in shard] for shard in shards(input_fn)
    ]
    assert sparse == batches


def test_data_whose_options_ask_for_it_is_sharded_by_files(tmp_path):
    for index in range(4):
        (tmp_path / f"{index}.txt").write_text(f"{index}a\n{index}b\n")

    def input_fn():
        lines = tf.data.TextLineDataset([str(tmp_path / f"{index}.txt") for index in range(4)])
        return with_policy(lines.batch(2), tf.data.experimental.AutoShardPolicy.FILE)

    lines = [b"".join(line for batch in shard for line in batch.numpy()) for shard in shards(input_fn)]
    assert lines == [b"0a0b2a2b", b"1a1b3a3b"]


@pytest.mark.parametrize("policy", ["AUTO", "OFF"])
def test_data_that_does_not_ask_for_it_is_whole_for_every_pipeline(policy):
    dataset = with_policy(tf.data.Dataset.range(3), tf.data.experimental.AutoShardPolicy[policy])
    assert [len(list(shard)) for shard in shards(lambda: dataset)] == [3, 3]


def test_data_of_an_input_fn_that_shards_it_is_not_sharded_again():
    def input_fn(input_context):
        dataset = tf.data.Dataset.range(8).shard(input_context.num_input_pipelines, input_context.input_pipeline_id)
        return with_policy(dataset, tf.data.experimental.AutoShardPolicy.DATA)

    assert [len(list(shard)) for shard in shards(input_fn)] == [4, 4]


def test_call_input_fn_leaves_bound_arguments_alone():
    def input_fn(mode, params):
        return mode, params

    bound = functools.partial(input_fn, mode="mine")
    assert replica_input.call_input_fn(bound, mode="train", params=1) == ("mine", 1)
