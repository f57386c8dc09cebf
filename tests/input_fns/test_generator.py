import itertools

import numpy as np
import pytest
import tensorflow as tf

from estimator_train.input_fns import generator


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
