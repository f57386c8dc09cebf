import functools
import itertools
import os
import sys

import cloudpickle
import numpy as np
import pytest
import tensorflow as tf
from processes import wait_for_the_end_of

from estimator_train.input_fns import Skipped, generator

SIGNATURE = tf.TensorSpec((2,), tf.float32), tf.TensorSpec((), tf.int32)

# Workers need not import this module, and TensorFlow with it.
cloudpickle.register_pickle_by_value(sys.modules[__name__])


def examples(start=0, stop=5):
    for i in range(start, stop):
        yield np.full((2,), i, np.float32), i


def labels_of(dataset):
    return [labels.tolist() for _, labels in dataset.as_numpy_iterator()]


def test_examples_are_batched_with_static_shapes():
    dataset = generator(examples, batch_size=2)()
    assert dataset.element_spec[0] == tf.TensorSpec((None, 2), tf.float32)
    assert labels_of(dataset) == [[0, 1], [2, 3], [4]]


def test_batches_pass_as_they_are_with_an_open_leading_dimension():
    def batches():
        yield {"x": np.zeros((3, 2))}, np.arange(3)
        yield {"x": np.ones((1, 2))}, np.arange(1)

    dataset = generator(batches)()
    assert dataset.element_spec == (
        {"x": tf.TensorSpec((None, 2), tf.float64)},
        tf.TensorSpec((None,), tf.int64),
    )
    assert [len(labels) for _, labels in dataset] == [3, 1]


def test_python_numbers_take_the_dtypes_of_tensorflow():
    _, labels = generator(lambda: iter([(np.zeros(2), 1.0)]), batch_size=1)().element_spec
    assert labels.dtype == tf.float32


def test_python_numbers_follow_a_given_signature():
    signature = tf.TensorSpec((2,), tf.float32), tf.TensorSpec((), tf.int64)
    dataset = generator(examples, batch_size=5, output_signature=signature)()
    assert next(iter(dataset))[1].dtype == tf.int64


def test_each_epoch_makes_a_new_iterator():
    starts = itertools.count()

    def epoch():
        start = next(starts)
        return examples(start, start + 2)

    signature = tf.TensorSpec((2,), tf.float32), tf.TensorSpec((), tf.int32)
    dataset = generator(epoch, batch_size=2, num_epochs=3, output_signature=signature)()
    assert labels_of(dataset) == [[0, 1], [1, 2], [2, 3]]


def test_num_epochs_none_is_forever():
    dataset = generator(examples, batch_size=5, num_epochs=None)()
    assert labels_of(dataset.take(3)) == [[0, 1, 2, 3, 4]] * 3


def test_augment_is_called_live_in_every_epoch():
    calls = itertools.count()

    def augment(features, labels):
        return np.concatenate([features, features]), labels + 100 * next(calls)

    signature = tf.TensorSpec((4,), tf.float32), tf.TensorSpec((), tf.int32)
    make = generator(examples, batch_size=5, num_epochs=2, augment=augment, output_signature=signature)
    assert labels_of(make()) == [[0, 101, 202, 303, 404], [500, 601, 702, 803, 904]]


def test_augment_decides_the_inferred_signature():
    make = generator(examples, batch_size=2, augment=lambda features, labels: (features[:1], labels))
    assert make().element_spec[0].shape == (None, 1)


@pytest.mark.parametrize(
    ("odd", "got"),
    [
        ((np.zeros((3,), np.float32), 0), r"shape=\(3,\)"),
        ((np.zeros((2,), np.float64), 0), "float64"),
        ((np.zeros((2,), np.float32), 0.5), "float32"),
        (({"x": np.zeros((2,), np.float32)}, 0), "'x'"),
    ],
)
def test_an_element_that_does_not_fit_is_named(odd, got):
    def elements():
        yield from examples()
        yield odd

    line = f"element 5 .*{got}.*expected .*shape=.2,.*float32"
    with pytest.raises(tf.errors.InvalidArgumentError, match=line):
        list(generator(elements, batch_size=2)())


def test_an_error_of_the_generator_keeps_type_and_message():
    def broken():
        yield from examples()
        raise KeyError("no such scan")

    with pytest.raises(tf.errors.OpError, match="KeyError: 'no such scan'"):
        list(generator(broken, batch_size=2)())


def test_an_element_that_is_no_tuple_is_refused():
    with pytest.raises(TypeError, match="list, not a tuple"):
        generator(lambda: iter([[1, 2]]))()


@pytest.mark.parametrize("workers", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_an_augment_may_skip_examples_but_not_return_nothing(workers):
    def augment(features, label):
        return Skipped("scan 2: is torn") if label == 2 else (features, label)

    input_fn = generator(shares(), batch_size=5, augment=augment, workers=workers, output_signature=SIGNATURE)
    assert labels_of(input_fn()) == [[0, 1, 3, 4]] and input_fn.skipped == ["scan 2: is torn"]
    broken = generator(shares(), batch_size=5, augment=lambda *_: None, workers=workers, output_signature=SIGNATURE)
    with pytest.raises(tf.errors.OpError, match="augment returned a NoneType, not a tuple"):
        list(broken())


@pytest.mark.parametrize("workers", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_arguments_bound_by_a_partial_keep_their_values(workers):
    def make(first, last, epoch, input_context):
        for label in range(first, last)[input_context.input_pipeline_id :: input_context.num_input_pipelines]:
            yield np.zeros(2, np.float32), label + 100 * epoch

    bound = functools.partial(make, first=2, last=6, epoch=7)
    input_fn = generator(bound, batch_size=4, elements_per_epoch=4, workers=workers, output_signature=SIGNATURE)
    assert labels_of(input_fn()) == [[702, 703, 704, 705]]
    if not workers:
        assert labels_of(input_fn.starting_at(1, seed=0)()) == [[703, 704, 705]]


def test_examples_in_place_of_batches_are_refused():
    with pytest.raises(ValueError, match="scalar 0 in a batch; pass batch_size"):
        generator(examples)()


def test_an_empty_iterator_is_refused():
    with pytest.raises(ValueError, match="fresh iterator"):
        generator(lambda: iter(()))()


def test_an_iterator_used_up_in_the_first_epoch_is_refused_in_the_second():
    once = examples()
    with pytest.raises(tf.errors.InvalidArgumentError, match="fresh iterator"):
        list(generator(lambda: once, batch_size=2, num_epochs=2)())


def test_each_input_pipeline_hands_its_context_to_make_generator():
    def shard(input_context):
        yield from itertools.islice(examples(), input_context.input_pipeline_id, None, 2)

    make = generator(shard, batch_size=5)
    assert [labels_of(make(tf.distribute.InputContext(2, i, 2))) for i in range(2)] == [[[0, 2, 4]], [[1, 3]]]


def test_auto_shard_is_off():
    options = generator(examples, batch_size=2)().options()
    assert options.experimental_distribute.auto_shard_policy == tf.data.experimental.AutoShardPolicy.OFF


def test_two_replicas_take_a_batch_each():
    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    dataset = strategy.distribute_datasets_from_function(generator(examples, batch_size=2))
    values = strategy.experimental_local_results(next(iter(dataset))[1])
    assert [value.numpy().tolist() for value in values] == [[0, 1], [2, 3]]


def test_it_runs_in_a_session():
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        _, labels = tf.compat.v1.data.make_one_shot_iterator(generator(examples, batch_size=3)()).get_next()
        assert session.run(labels).tolist() == [0, 1, 2]


def shares(stop=5):
    """Returns a make_generator over examples; each input pipeline yields its share."""

    def make(input_context):
        for label in range(stop)[input_context.input_pipeline_id :: input_context.num_input_pipelines]:
            yield np.full((2,), label, np.float32), label

    return make


@pytest.mark.slow
def test_workers_yield_in_the_order_of_none():
    def labels(make, workers):
        return labels_of(generator(make, batch_size=3, num_epochs=2, output_signature=SIGNATURE, workers=workers)())

    assert labels(shares(), 2) == [[0, 1, 2], [3, 4, 0], [1, 2, 3], [4]]
    assert labels(shares(1), 2) == [[0, 0]]  # a worker without any
    assert labels(lambda: iter([(np.zeros(2, np.float32), label) for label in (0, 1)]), 1) == [[0, 1, 0], [1]]


@pytest.mark.parametrize("workers", [0, 1])
def test_a_generator_may_fill_one_array_again_and_again(workers):
    def refilled():
        array = np.zeros(300_000)  # larger than a pipe
        for label in range(5):
            array[:] = label
            yield {"x": array, "name": str(label)}, label

    dataset = generator(refilled, batch_size=3, workers=workers)()
    batches = [(batch["x"][:, -1].tolist(), batch["name"].tolist()) for batch, _ in dataset.as_numpy_iterator()]
    assert batches == [([0, 1, 2], [b"0", b"1", b"2"]), ([3, 4], [b"3", b"4"])]


@pytest.mark.parametrize(
    ("size", "workers"),
    [(700_000, 1), pytest.param(5_000_000, 1, marks=pytest.mark.slow), (700_000, 0)],
    ids=["in shared memory", "larger than half of it", "without workers"],
)
def test_batches_remain_as_they_were_however_many_follow(size, workers):
    def refilled():
        memory = np.empty(4 * size + 64, np.uint8)
        # Aligned to cache lines, TensorFlow would use it without a copy.
        array = memory[-memory.ctypes.data % 64 :][: 4 * size].view(np.float32).reshape(1, size)
        for label in range(20):
            array[:] = label
            yield array, np.int32([label])

    batches = list(generator(refilled, workers=workers)())
    assert [float(tf.reduce_min(features)) for features, _ in batches] == list(range(20))
    assert [float(tf.reduce_max(features)) for features, _ in batches] == list(range(20))


def test_examples_of_one_batch_with_two_shapes_are_named():
    signature = tf.TensorSpec((None,), tf.float32), tf.TensorSpec((), tf.int32)
    lengths = iter([2, 2, 3, 3])

    def rows():
        yield from ((np.zeros(length, np.float32), 0) for length in lengths)

    batches = iter(generator(rows, batch_size=2, output_signature=signature)())
    assert [next(batches)[0].shape[1] for _ in range(2)] == [2, 3]
    lengths = iter([2, 3])
    with pytest.raises(tf.errors.OpError, match=r"shapes \(2,\) and \(3,\); give them the same shape"):
        list(generator(rows, batch_size=2, output_signature=signature)())


def test_workers_are_processes_that_end_with_the_iterator():
    def make(input_context):
        for _ in range(3):
            yield np.zeros(2, np.float32), os.getpid()

    dataset = generator(make, batch_size=1, num_epochs=None, output_signature=SIGNATURE, workers=2)()
    iterator = iter(dataset)
    pids = {int(next(iterator)[1][0]) for _ in range(4)}
    assert len(pids) == 2 and os.getpid() not in pids
    del iterator
    wait_for_the_end_of(pids)


def test_an_error_in_a_worker_keeps_type_message_and_traceback():
    def broken(input_context):
        yield from shares()(input_context)
        if input_context.input_pipeline_id == 1:
            raise KeyError("no such scan")

    with pytest.raises(tf.errors.OpError, match="(?s)KeyError: 'no such scan'.*in broken"):
        list(generator(broken, batch_size=2, output_signature=SIGNATURE, workers=2)())


def test_a_generator_with_a_share_gets_all_in_a_single_pipeline():
    def whole(input_context):
        assert (input_context.input_pipeline_id, input_context.num_input_pipelines) == (0, 1)
        yield from examples()

    assert len(list(generator(whole, batch_size=2)())) == len(list(generator(examples, batch_size=2)()))


def test_several_workers_need_to_know_their_shares():
    with pytest.raises(ValueError, match="each of the 2 workers would yield all .*give it a parameter input_context"):
        generator(examples, batch_size=2, workers=2)
    with pytest.raises(ValueError, match="0 or above, got -1"):
        generator(examples, batch_size=2, workers=-1)


def test_each_worker_of_each_input_pipeline_has_a_share_of_its_own():
    make = generator(shares(8), batch_size=8, output_signature=SIGNATURE, workers=2)
    contexts = [tf.distribute.InputContext(2, i, 2) for i in range(2)]
    assert [labels_of(make(context)) for context in contexts] == [[[0, 1, 4, 5]], [[2, 3, 6, 7]]]


def test_a_generator_receives_the_epoch():
    def make(epoch):
        yield np.zeros(2, np.float32), epoch

    for workers in (0, 1):
        dataset = generator(make, batch_size=3, num_epochs=3, output_signature=SIGNATURE, workers=workers)()
        assert labels_of(dataset) == [[0, 1, 2]]


@pytest.mark.parametrize("workers", [0, pytest.param(2, marks=pytest.mark.slow)])
def test_skipped_examples_are_left_out_listed_and_logged_once(workers, warnings):
    def make(input_context):
        for features, label in shares()(input_context):
            yield Skipped(f"scan {label}: is torn") if label % 2 else (features, label)

    input_fn = generator(make, batch_size=2, num_epochs=2, elements_per_epoch=5, workers=workers)
    assert labels_of(input_fn(tf.distribute.InputContext())) == [[0, 2], [4, 0], [2, 4]]
    assert input_fn.skipped == ["scan 1: is torn", "scan 3: is torn"]
    assert [line for line in warnings if "skipped" in line] == [
        "1 skipped, the last of them scan 1: is torn",
        "2 skipped, the last of them scan 3: is torn",
    ]


def test_an_epoch_of_only_skipped_examples_is_an_error():
    def make():
        return iter([Skipped("a"), Skipped("b")])

    with pytest.raises(tf.errors.InvalidArgumentError, match="skipped all 2 elements"):
        list(generator(make, batch_size=2, num_epochs=None, output_signature=SIGNATURE)())
    with pytest.raises(ValueError, match="skipped all 2 elements"):
        generator(make, batch_size=2)()


@pytest.mark.parametrize("workers", [0, 1])
def test_an_epoch_that_ends_early_is_an_error_with_both_counts(workers):
    dataset = generator(examples, batch_size=2, elements_per_epoch=8, output_signature=SIGNATURE, workers=workers)()
    with pytest.raises(tf.errors.InvalidArgumentError, match="ended early: it yielded 5 of 8 elements of an epoch"):
        list(dataset)


def test_one_iterator_for_two_pipelines_is_refused():
    once = examples()
    input_fn = generator(lambda: once, batch_size=2, output_signature=SIGNATURE)
    assert labels_of(input_fn().take(1)) == [[0, 1]]
    with pytest.raises(tf.errors.InvalidArgumentError, match="one iterator twice; it must return a fresh iterator"):
        list(input_fn())


def test_an_unknown_rank_is_that_of_the_first_tuple():
    signature = tf.TensorSpec(None, tf.float32), tf.TensorSpec(None, tf.int32)
    dataset = generator(examples, batch_size=2, output_signature=signature)()
    assert dataset.element_spec == (tf.TensorSpec((None, None), tf.float32), tf.TensorSpec((None,), tf.int32))
