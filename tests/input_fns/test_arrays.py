import numpy as np
import pytest
import tensorflow as tf

from estimator_train.input_fns import arrays

X = np.arange(20, dtype=np.float32).reshape(10, 2)
Y = np.arange(10)


def labels_of(dataset):
    return [labels.tolist() for _, labels in dataset.as_numpy_iterator()]


def test_rows_come_in_order_with_their_labels_and_weights():
    weights = np.linspace(0, 1, 10)
    batches = list(arrays(X, Y, weights, batch_size=4)().as_numpy_iterator())
    assert [len(x) for x, _, _ in batches] == [4, 4, 2]
    for column, expected in enumerate((X, Y, weights)):
        joined = np.concatenate([batch[column] for batch in batches])
        np.testing.assert_array_equal(joined, expected)
        assert joined.dtype == expected.dtype


def test_shapes_are_static():
    features, labels = arrays(X, Y, batch_size=4)().element_spec
    assert features == tf.TensorSpec((None, 2), tf.float32)
    assert labels == tf.TensorSpec((None,), tf.int64)
    assert arrays(X, Y, batch_size=4, drop_remainder=True)().element_spec[0].shape == (4, 2)


def test_drop_remainder_leaves_the_short_batch_out():
    assert labels_of(arrays(X, Y, batch_size=4, drop_remainder=True)()) == [[0, 1, 2, 3], [4, 5, 6, 7]]


def test_dicts_and_tuples_keep_their_structure():
    names = np.array(["a", "bc"] * 5)
    batch = next(iter(arrays({"image": X, "name": names}, (Y, X), batch_size=2)().as_numpy_iterator()))
    assert batch[0]["name"].tolist() == [b"a", b"bc"]
    np.testing.assert_array_equal(batch[0]["image"], X[:2])
    np.testing.assert_array_equal(batch[1][1], X[:2])


def test_big_endian_arrays_keep_their_values():
    (batch,) = arrays({"scan": X.astype(">f4"), "name": np.array(["a", "bc"] * 5, ">U2")})()
    np.testing.assert_array_equal(batch["scan"], X)
    assert batch["name"].numpy().tolist() == [b"a", b"bc"] * 5


def test_text_is_encoded_as_utf_8():
    texts = ["Zürich", "東京", ""]
    assert [text.decode() for text in arrays(np.array(texts))().get_single_element().numpy()] == texts


def test_features_alone_are_not_taken_for_features_and_labels():
    assert next(iter(arrays(X)())).shape == (10, 2)
    (features,) = next(iter(arrays((X, Y))()))
    assert len(features) == 2


def test_batches_run_on_across_epochs():
    assert labels_of(arrays(X, Y, batch_size=8, num_epochs=2)()) == [
        [0, 1, 2, 3, 4, 5, 6, 7],
        [8, 9, 0, 1, 2, 3, 4, 5],
        [6, 7, 8, 9],
    ]


def test_num_epochs_none_is_forever():
    assert arrays(X, Y, num_epochs=None)().cardinality() == tf.data.INFINITE_CARDINALITY


def test_shuffle_is_anew_each_epoch_and_the_same_for_the_same_seed():
    make = arrays(X, Y, batch_size=10, num_epochs=2, shuffle=True, seed=3)
    first, second = labels_of(make())
    assert sorted(first) == sorted(second) == list(range(10))
    assert first != second and first != list(range(10))
    assert labels_of(make()) == [first, second]
    assert labels_of(arrays(X, Y, batch_size=10, num_epochs=2, shuffle=True, seed=4)()) != [first, second]


def test_shuffle_leaves_no_epoch_in_the_order_of_the_rows():
    for seed in range(6):
        numbers = arrays(np.arange(50), batch_size=300, num_epochs=6, shuffle=True, seed=seed)().get_single_element()
        in_place = np.reshape(numbers, (6, 50)) == np.arange(50)
        assert in_place.mean(axis=1).max() < 0.2, seed


@pytest.mark.parametrize("drop_remainder", [False, True])
def test_it_begins_at_any_row(drop_remainder):
    options = {"batch_size": 4, "num_epochs": 3, "shuffle": True, "seed": 3}
    everything = sum(labels_of(arrays(X, Y, **options)()), [])
    make = arrays(X, Y, **options, drop_remainder=drop_remainder)
    resumed = make.starting_at(13, seed=5)()
    assert sum(labels_of(resumed), []) == everything[13 : 13 + 16 if drop_remainder else 30]
    assert resumed.element_spec == make().element_spec


def test_large_rows_are_gathered_batch_by_batch():
    make = arrays(np.zeros((5, 300_000), np.float32), np.arange(5), batch_size=2)
    assert [labels.tolist() for _, labels in make().as_numpy_iterator()] == [[0, 1], [2, 3], [4]]
    assert arrays(np.zeros((5, 300_000)), batch_size=2, drop_remainder=True)().element_spec.shape == (2, 300_000)


def test_input_pipelines_share_the_rows():
    make = arrays(X, Y, shuffle=True)
    shards = [sum(labels_of(make(tf.distribute.InputContext(3, i, 3))), []) for i in range(3)]
    assert sorted(map(sorted, shards)) == [[0, 3, 6, 9], [1, 4, 7], [2, 5, 8]]


def test_two_replicas_take_a_batch_each():
    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    dataset = strategy.distribute_datasets_from_function(arrays(X, Y, batch_size=3))
    values = strategy.experimental_local_results(next(iter(dataset))[1])
    assert [value.numpy().tolist() for value in values] == [[0, 1, 2], [3, 4, 5]]


def test_it_runs_in_a_session_without_a_copy_of_the_arrays_in_the_graph():
    x = np.zeros((1000, 1000), np.float32)
    with tf.Graph().as_default() as graph, tf.compat.v1.Session() as session:
        batch = tf.compat.v1.data.make_one_shot_iterator(arrays(x, batch_size=700)()).get_next()
        assert session.run(batch).shape == (700, 1000)
        assert session.run(batch).shape == (300, 1000)
        assert graph.as_graph_def().ByteSize() < 100_000


def test_lengths_that_differ_are_named():
    with pytest.raises(ValueError, match=r"x\['a'\]: 10, x\['b'\]\[0\]: 9, y: 10"):
        arrays({"a": X, "b": (X[:9],)}, Y)


@pytest.mark.parametrize("x", [1.0, {"a": X, "b": 2}])
def test_a_scalar_is_refused(x):
    with pytest.raises(ValueError, match="a scalar"):
        arrays(x)


@pytest.mark.parametrize("x", [X[:0], {}])
def test_empty_data_is_refused(x):
    with pytest.raises(ValueError, match="empty"):
        arrays(x)
