"""Builds specs for parsing tf.train.Examples that contain features, a label and optionally a weight."""

from collections.abc import Iterable
from typing import Any

import tensorflow as tf

from estimator_train._engine.types import FeatureColumn
from estimator_train.canned.columns import is_v1_shared_embedding


def classifier_parse_example_spec(
    feature_columns: Iterable[FeatureColumn],
    label_key: str,
    label_dtype: tf.DType = tf.int64,
    label_default: Any = None,
    weight_column: str | FeatureColumn | None = None,
) -> dict[str, Any]:
    """Returns the spec for parsing a classifier's Examples with `tf.io.parse_example`, a dict of keys to features.

        >>> spec = et.classifier_parse_example_spec([tf.feature_column.numeric_column("x")], label_key="y")
        >>> spec["y"]
        FixedLenFeature(shape=(1,), dtype=tf.int64, default_value=None)

    Args:
      feature_columns: list of feature columns.
      label_key: key of the label, which has shape [1].
      label_dtype: `tf.string` for a label vocabulary; `tf.float32` works for two classes only.
      label_default: label of Examples that have none; None makes that an error.
      weight_column: key, or numeric column, of the example weights; None if there are none.

    Raises:
      ValueError: If the label or the weight is also a feature, or `weight_column` is neither a str nor a numeric
        column.
    """
    label = tf.io.FixedLenFeature((1,), label_dtype, label_default)
    return _spec(feature_columns, label_key, label, weight_column)


def regressor_parse_example_spec(
    feature_columns: Iterable[FeatureColumn],
    label_key: str,
    label_dtype: tf.DType = tf.float32,
    label_default: Any = None,
    label_dimension: int = 1,
    weight_column: str | FeatureColumn | None = None,
) -> dict[str, Any]:
    """Returns the spec for parsing a regressor's Examples, whose labels have shape [label_dimension].

        >>> spec = et.regressor_parse_example_spec([tf.feature_column.numeric_column("x")], "y", label_dimension=2)
        >>> spec["y"]
        FixedLenFeature(shape=(2,), dtype=tf.float32, default_value=None)

    See `classifier_parse_example_spec` for the other arguments and errors.
    """
    label = tf.io.FixedLenFeature((label_dimension,), label_dtype, label_default)
    return _spec(feature_columns, label_key, label, weight_column)


def _spec(
    feature_columns: Iterable[FeatureColumn],
    label_key: str,
    label: tf.io.FixedLenFeature,
    weight_column: str | FeatureColumn | None,
) -> dict[str, Any]:
    columns = list(feature_columns)
    version = tf.compat.v1 if any(map(is_v1_shared_embedding, columns)) else tf
    spec = version.feature_column.make_parse_example_spec(columns)
    if label_key in spec:
        raise ValueError(f"label should not be used as feature. label_key: {label_key}, features: {sorted(spec)}")
    spec[label_key] = label
    if weight_column is None:
        return spec

    column: FeatureColumn = weight_column
    if isinstance(weight_column, str):
        column = tf.feature_column.numeric_column(weight_column)
    if not hasattr(column, "normalizer_fn"):  # only numeric columns have it
        raise ValueError(
            "weight_column should be a str or a tf.feature_column.numeric_column; "
            f"got {type(column).__name__} {column!r}"
        )
    if column.key in spec:
        raise ValueError(
            f"weight_column should not be used as feature. weight_column: {column.key}, features: {sorted(spec)}"
        )
    return spec | column.parse_example_spec
