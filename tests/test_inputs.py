import numpy as np
import pytest
import tensorflow as tf

from estimator_train import inputs

v1 = tf.compat.v1


def batches(input_fn):
    return list(input_fn().as_numpy_iterator())


@pytest.mark.parametrize(
    ("batch_size", "num_epochs", "expected"),
    [  # as TensorFlow 2.15.1 gives them
        (3, 1, [[0, 1, 2], [3, 4, 5], [6, 7, 8], [9]]),
        (4, 2, [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 0, 1], [2, 3, 4, 5], [6, 7, 8, 9]]),
        (25, 3, [[*range(10), *range(10), *range(5)], [5, 6, 7, 8, 9]]),
    ],
)
def test_batches_run_on_across_epochs(batch_size, num_epochs, expected):
    input_fn = inputs.numpy_input_fn(np.arange(10), batch_size=batch_size, num_epochs=num_epochs, shuffle=False)
    assert [batch.tolist() for batch in batches(input_fn)] == expected


def test_without_num_epochs_every_batch_is_full():
    input_fn = inputs.numpy_input_fn(np.arange(10), batch_size=4, num_epochs=None, shuffle=False)
    taken = list(input_fn().take(4).as_numpy_iterator())
    assert [batch.tolist() for batch in taken] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 0, 1], [2, 3, 4, 5]]


def test_features_and_labels_keep_their_structure_and_dtypes():
    x = {"a": np.arange(3), "text": np.array(["u", "v", "w"])}
    y = {"label": np.array([[0.5], [1.5], [2.5]], "float32")}
    ((features, labels),) = batches(inputs.numpy_input_fn(x, y, shuffle=False))
    assert features["a"].dtype == np.int64
    assert features["text"].tolist() == [b"u", b"v", b"w"]
    np.testing.assert_array_equal(labels["label"], y["label"])
    assert labels["label"].dtype == np.float32

    ((features, labels),) = batches(inputs.numpy_input_fn(x, np.array([1, 2, 3]), shuffle=False))
    assert set(features) == {"a", "text"}
    assert labels.tolist() == [1, 2, 3]

    (features,) = batches(inputs.numpy_input_fn(x, shuffle=False))
    assert set(features) == {"a", "text"}


def test_shuffling_keeps_rows_whole_and_epochs_complete():
    x = np.arange(50)
    got = batches(inputs.numpy_input_fn(x, 2 * x, batch_size=50, num_epochs=2, shuffle=True, num_threads=3))
    for features, labels in got:
        assert sorted(features) == x.tolist()
        np.testing.assert_array_equal(labels, 2 * features)
    assert len(got) == 2
    assert not np.array_equal(got[0][0], got[1][0])


def test_an_input_fn_that_calls_it_in_a_graph_is_given_tensors():
    input_fn = inputs.numpy_input_fn({"a": np.arange(3)}, np.arange(3), batch_size=2, shuffle=False)
    with tf.Graph().as_default(), v1.Session() as session:
        features, labels = input_fn()
        assert [session.run((features["a"], labels))[1].tolist() for _ in range(2)] == [[0, 1], [2]]
        assert features["a"].shape.as_list() == [None]
        with pytest.raises(tf.errors.OutOfRangeError):
            session.run(labels)
        # An Estimator, and a strategy, take the dataset.
        assert isinstance(input_fn(input_context=tf.distribute.InputContext()), tf.data.Dataset)
        with tf.distribute.OneDeviceStrategy("cpu:0").scope():
            assert isinstance(input_fn(), tf.data.Dataset)


def test_a_data_frame_gives_a_feature_a_column():
    pd = pytest.importorskip("pandas")
    x = pd.DataFrame({"a": [1, 2, 3], "b": ["u", "v", "w"]}, index=[7, 8, 9])
    input_fn = inputs.pandas_input_fn(x, pd.Series([0.0, 1.0, 2.0], index=x.index), batch_size=2, shuffle=False)
    first, last = batches(input_fn)
    assert first[0]["a"].tolist() == [1, 2]
    assert last[0]["b"].tolist() == [b"w"]
    assert (last[1].tolist(), last[1].dtype) == ([2.0], np.float64)


def test_labels_of_a_data_frame_are_a_dict_whatever_the_features_names():
    pd = pytest.importorskip("pandas")
    x = pd.DataFrame({"a": [1, 2, 3]})
    ((features, labels),) = batches(inputs.pandas_input_fn(x, pd.DataFrame({"a": [4, 5, 6]}), shuffle=False))
    assert features["a"].tolist() == [1, 2, 3]
    assert labels["a"].tolist() == [4, 5, 6]


def test_a_bad_data_frame_is_reported():
    pd = pytest.importorskip("pandas")
    x = pd.DataFrame({"target": [1, 2]})
    with pytest.raises(ValueError, match="Cannot use name target for target column"):
        inputs.pandas_input_fn(x, pd.Series([1, 2]), shuffle=False)
    with pytest.raises(ValueError, match="Index for x and y are mismatched"):
        inputs.pandas_input_fn(x, pd.Series([1, 2], index=[1, 2]), shuffle=False, target_column="y")
    with pytest.raises(TypeError, match="target_column must be a string"):
        inputs.pandas_input_fn(x, pd.Series([1, 2]), shuffle=False, target_column=1)
    with pytest.raises(ValueError, match="shuffle must be provided"):
        inputs.pandas_input_fn(x)


def test_pandas_input_fn_wants_a_data_frame():
    with pytest.raises(TypeError, match="x must be a pandas DataFrame; got dict"):
        inputs.pandas_input_fn({"a": np.arange(3)}, shuffle=False)
