"""A learning rate range test, and its plot."""

import pytest
import tensorflow as tf
import tf_keras as keras
from matplotlib.figure import Figure

from estimator_train.app.report.learning_rates import RangeTest, find_learning_rate, plot


@pytest.mark.parametrize(("rate", "has_enough"), [(1e9, True), (1e-9, False)])
def test_data_may_end_before_the_test_only_if_the_loss_has_diverged(rate, has_enough):
    model = keras.Sequential([keras.layers.Dense(1, use_bias=False, input_shape=(1,))])
    model.compile("sgd", "mse")
    data = tf.data.Dataset.from_tensors((tf.ones([1, 1]), tf.ones([1, 1]))).repeat(15)
    if has_enough:
        assert len(find_learning_rate(model, lambda: data, lowest=1.0, highest=rate, steps=100).losses) < 15
        return
    with pytest.raises(ValueError, match="a range test needs 100 batches with a finite loss, but there were 15"):
        find_learning_rate(model, lambda: data, lowest=rate / 10, highest=rate, steps=100)


def test_an_easy_first_batch_does_not_decide_the_suggestion():
    model = keras.Sequential([keras.layers.Dense(1, use_bias=False, kernel_initializer="zeros", input_shape=(1,))])
    model.compile("sgd", "mse")
    labels = tf.concat([[0.1], tf.ones(39)], axis=0)
    data = tf.data.Dataset.from_tensor_slices((tf.ones([40, 1, 1]), labels[:, tf.newaxis, tf.newaxis]))
    test = find_learning_rate(model, lambda: data, lowest=1e-7, highest=10, steps=40)
    assert min(test.averages) == test.averages[0] and test.suggestion > 1e-3


def test_losses_that_diverge_do_not_flatten_the_curve(monkeypatch, tmp_path):
    drawn = []
    monkeypatch.setattr(Figure, "savefig", lambda figure, file, **_: drawn.append(figure))
    plot(RangeTest([1e-3, 1e-2, 1e-1, 1], [2.0, 1.5, 1.0, 900], [2.0, 1.8, 1.5, 90], 1e-2), tmp_path / "rates.png")
    (axes,) = drawn[0].axes
    low, high = axes.get_ylim()
    assert 0.8 < low < 1 and high == 3
    assert [text.get_text() for text in axes.get_legend().get_texts()] == [
        "average of the loss",
        "lowest at 1.0e-01",
        "suggestion 1.0e-02",
    ]
