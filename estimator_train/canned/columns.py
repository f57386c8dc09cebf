"""Turns feature columns into tensors, with variables named as in tf.estimator's checkpoints."""

import contextlib
import re
from collections.abc import Iterable, Iterator
from typing import Any

import tensorflow as tf

from estimator_train._engine.graph.saver import without_scope_in_tf215
from estimator_train._engine.types import FeatureColumn
from estimator_train.canned import private_tensorflow

v1 = tf.compat.v1


def check_columns(
    columns: FeatureColumn | Iterable[FeatureColumn] | None, argument: str, *, dense: bool
) -> list[FeatureColumn]:
    """Returns a list of the feature columns, which may be a single one, sorted by name.

    Raises ValueError, which calls them `argument`, if there are none, two have the same name, or one has another type:
    with `dense`, a categorical one, too.
    """
    if isinstance(columns, private_tensorflow.feature_column_class()):
        columns = [columns]
    by_name = {}
    for column in columns or ():
        is_v1 = is_v1_shared_embedding(column)
        if not is_v1 and not isinstance(column, private_tensorflow.feature_column_class()):
            raise ValueError(f"{argument} must be columns of tf.feature_column, given: {column!r}")
        is_dense = is_v1 or isinstance(column, private_tensorflow.dense_column_class())
        if not is_dense and (dense or not _is_categorical(column)):
            fix = "wrap it in an embedding_column or indicator_column" if _is_categorical(column) else "remove it"
            raise ValueError(f"{argument} cannot have a {type(column).__name__}; {fix}: {column!r}")
        if column.name in by_name:
            raise ValueError(f"{argument} has two columns named {column.name!r}: {by_name[column.name]!r}, {column!r}")
        by_name[column.name] = column
    if not by_name:
        raise ValueError(f"{argument} must not be empty.")
    return [by_name[name] for name in sorted(by_name)]


def input_layer(features: dict[str, Any], columns: list[FeatureColumn]) -> tf.Tensor:
    """Returns the dense `columns` of `features`, concatenated to a float32 tensor (batch, elements)."""
    if any(map(is_v1_shared_embedding, columns)):
        return v1.feature_column.input_layer(features, columns)
    cache, state = private_tensorflow.column_cache(features), private_tensorflow.column_state()
    with v1.variable_scope("input_layer"):
        for column in columns:
            with _scope(column):
                column.create_state(state)
    with without_scope_in_tf215():  # shared embeddings, which are created when they are first looked up
        return tf.concat([_dense(column, cache, state) for column in columns], axis=1)


def linear_model(
    features: dict[str, Any], columns: list[FeatureColumn], units: int, sparse_combiner: str
) -> tuple[tf.Tensor, list[tf.Variable], tf.Tensor]:
    """Returns (the weighted sum of columns and a bias, float32 (batch, units); the columns' weights; the bias (units)).

    Weights and bias start at 0. `sparse_combiner` reduces the weights of multivalent columns; see `LinearEstimator`.
    """
    if any(map(is_v1_shared_embedding, columns)):
        made: dict[Any, list[tf.Variable]] = {}
        logits = v1.feature_column.linear_model(features, columns, units, sparse_combiner, cols_to_vars=made)
        bias = tf.concat(made.pop("bias"), axis=0)
        return logits, [part for parts in made.values() for part in parts], bias
    cache, state = private_tensorflow.column_cache(features), private_tensorflow.column_state()
    weights = []
    with v1.variable_scope("linear_model"):
        for column in columns:
            rows = getattr(column, "num_buckets", None)
            if not _is_categorical(column):
                rows = column.variable_shape.num_elements()
            with _scope(column):
                column.create_state(state)
                weights.append(v1.get_variable("weights", [rows, units], initializer=v1.zeros_initializer()))
        variable = v1.get_variable("bias_weights", [units], initializer=v1.zeros_initializer())
        # Read once: a summary that read it again would show the bias now before, now after the step's update.
        bias = tf.convert_to_tensor(variable)
    sums = []
    for column, weight in zip(columns, weights, strict=True):
        if _is_categorical(column):
            sums.append(_looked_up(column, weight, cache, state, sparse_combiner))
        else:
            with without_scope_in_tf215():
                sums.append(tf.linalg.matmul(_dense(column, cache, state), weight))
    return tf.nn.bias_add(tf.math.add_n(sums), bias), weights, bias


def _looked_up(column: FeatureColumn, weight: tf.Variable, cache: Any, state: Any, sparse_combiner: str) -> tf.Tensor:
    """Returns the weights of the categories of each example, combined: (batch, units)."""
    with _explaining_names(column):
        ids, id_weights = map(_flat_sparse, column.get_sparse_tensors(cache, state))
    return tf.nn.safe_embedding_lookup_sparse(weight, ids, id_weights, sparse_combiner)


def _dense(column: FeatureColumn, cache: Any, state: Any) -> tf.Tensor:
    with _explaining_names(column):
        tensor = column.get_dense_tensor(cache, state)
    return tf.reshape(tensor, [tf.shape(tensor)[0], column.variable_shape.num_elements()])


@contextlib.contextmanager
def _explaining_names(column: FeatureColumn) -> Iterator[None]:
    """Raises ValueError with the remedy if TensorFlow cannot name the ops of a column, as those of a vocabulary."""
    try:
        yield
    except ValueError as error:
        if "is not a valid" not in str(error) or "scope name" not in str(error):
            raise
        named: FeatureColumn = getattr(column, "categorical_column", column)
        raise ValueError(
            f"TensorFlow cannot name ops after the column {named.name!r}: rename it, and the feature, with letters of "
            "ASCII, digits and _.-/ only, and a letter or a digit first."
        ) from error


def is_v1_shared_embedding(column: FeatureColumn) -> bool:
    """Returns whether `tf.compat.v1.feature_column.shared_embedding_columns` made it, whose class is one of TF 1."""
    return hasattr(column, "shared_embedding_collection_name")


def _is_categorical(column: FeatureColumn) -> bool:
    return hasattr(column, "get_sparse_tensors")


def _scope(column: FeatureColumn) -> tf.compat.v1.variable_scope:
    return v1.variable_scope(re.sub(r"[^A-Za-z0-9_.\-]", "_", column.name))


def _flat_sparse(tensor: tf.SparseTensor | None) -> tf.SparseTensor | None:
    return None if tensor is None else tf.sparse.reshape(tensor, [tensor.dense_shape[0], -1])
