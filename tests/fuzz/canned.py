"""Canned estimators of random columns, heads and optimizers: their numbers are those of TensorFlow 2.15's tf.estimator.

The environment variable ESTIMATOR_TRAIN_TF215 names a Python with TensorFlow 2.15.
"""

from __future__ import annotations

import functools
import json
import os
import random
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks.compare_tf215 import flat
from tests.fuzz import canned_program

VARIABLE = "ESTIMATOR_TRAIN_TF215"
TOLERANCE = 1e-5
_UNINITIALIZED = "the iterator has not been initialized"  # so 2.15 fails, for a Baseline with an optimizer of Keras


def draw(rng: random.Random) -> dict:
    """Returns a random estimator with its data."""
    estimator = rng.choice(["DNN", "DNN", "Linear", "Linear", "DNNLinearCombined", "DNNLinearCombined", "Baseline"])
    task = rng.choice(["Classifier", "Classifier", "Regressor", "Estimator"])
    # tf.compat.v1.estimator of 2.15 refuses v1 optimizers with the public heads, which are those of TensorFlow 2.
    is_v1 = task != "Estimator" and rng.random() < 0.4
    case = {
        "seed": rng.randrange(1000),
        "estimator": estimator,
        "task": task,
        "v1": is_v1,
        "batch_size": rng.choice([4, 5, 8, 24]),
        "missing": rng.random() < 0.3,
        "combiner": rng.choice(["sum", "mean", "sqrtn"]),
        "hidden_units": [rng.randrange(1, 6) for _ in range(rng.randrange(1, 4))],
        "activation": rng.choice(["relu", "tanh", "sigmoid", "elu", "selu", "softplus", "leaky_relu", "identity"]),
        "batch_norm": rng.random() < 0.3,
        "dropout": rng.choice([None, None, 0.0]),
        "weight_normalized": False,
        "export": rng.random() < 0.4,
        "optimizers": [_optimizer(rng, is_v1) for _ in range(2)],
    }
    if case["batch_norm"]:
        # The gradient of a bias before it is float32 noise, which adaptive optimizers divide by its own size.
        case["optimizers"][1] = "SGD"
    if estimator in ("Linear", "DNNLinearCombined"):
        case["columns"] = _distinct(rng, _linear_column)
    if estimator in ("DNN", "DNNLinearCombined"):
        case["dnn_columns"] = _distinct(rng, _dense_column)
    if task == "Estimator":
        case["head"] = _head(rng)
    else:
        case["of_head"] = _of_head(rng, task, is_v1)
        case["weight_normalized"] = case["of_head"].get("weight_column") is not None and rng.random() < 0.3
    return case


def smaller(case: dict) -> Iterator[dict]:
    """Yields the case with fewer columns, smaller layers, and defaults for what it sets."""
    for name in ("columns", "dnn_columns"):
        for index in range(len(case.get(name, [])) if len(case.get(name, [])) > 1 else 0):
            yield case | {name: case[name][:index] + case[name][index + 1 :]}
    simplest = {"export": False, "missing": False, "batch_norm": False, "dropout": None, "hidden_units": [2]}
    simplest |= {"activation": "identity", "combiner": "sum", "batch_size": 24, "optimizers": ["SGD", "SGD"]}
    simplest |= {"weight_normalized": False}
    for name, value in simplest.items():
        if case[name] != value:
            yield case | {name: value}
    for name in case.get("of_head", {}):
        yield case | {"of_head": {key: value for key, value in case["of_head"].items() if key != name}}


def check(case: dict, directory: Path) -> None:
    """Compares variables, losses, metrics, predictions and signatures; refusals must be refusals on both sides."""
    import tensorflow as tf
    import tf_keras as keras

    import estimator_train as et
    from estimator_train.canned import v1
    from estimator_train.compat.verify import compare

    ours = canned_program.outcome(case, tf, keras, {"v1": v1, "v2": et}, str(directory))
    ours, theirs = json.loads(json.dumps(ours)), _tf215()(case)
    if _UNINITIALIZED in theirs.get("message", "") and case["estimator"] == "Baseline":
        return
    if "error" in theirs or "error" in ours:
        assert theirs.get("error") and ours.get("error"), f"ours {ours.get('message')}; TF 2.15 {theirs.get('message')}"
        return
    comparison = compare(flat(theirs), flat(ours))
    only = sorted(map(str, [*comparison.only_old, *comparison.only_new]))
    assert not only, f"only one side has {'; '.join(only[:5])}"
    apart = [each for each in comparison.compared if each.difference > TOLERANCE]
    worst = sorted(apart, key=lambda each: each.difference, reverse=True)[:5]
    shown = "; ".join(f"{each.name}: {each.new}, TF 2.15 {each.old}" for each in worst)
    assert not apart, f"{len(apart)} of {comparison.values} values differ: {shown}"


@functools.cache
def _tf215():
    """Returns a function that gives a case to a process of TensorFlow 2.15 and returns its outcome."""
    errors = tempfile.TemporaryFile("w+")  # noqa: SIM115, as long as the process
    process = subprocess.Popen(
        [os.environ[VARIABLE], "-m", canned_program.__name__],  # as a script, it would import keras.py beside it
        cwd=Path(__file__).parents[2],
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "2", "CUDA_VISIBLE_DEVICES": "-1"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=errors,
        text=True,
    )

    def outcome(case):
        print(json.dumps(case), file=process.stdin, flush=True)
        line = process.stdout.readline()
        if not line:
            errors.seek(0)
            raise RuntimeError(f"TensorFlow 2.15 ended: {errors.read()[-2000:]}")
        return json.loads(line)

    return outcome


def _distinct(rng, make):
    """Returns some columns with different names, since an estimator refuses two of one name."""
    columns = {}
    for _ in range(rng.randrange(1, 5)):
        column = make(rng)
        columns[_name(column)] = column
    return list(columns.values())


def _name(column):
    kind, inner = column[:2]
    if kind == "crossed":
        return "_X_".join(sorted(each if isinstance(each, str) else _name(each) for each in inner))
    return inner if isinstance(inner, str) else f"{_name(inner)}_{kind}"


def _numeric(rng):
    key = rng.choice("xy")
    default = rng.choice([None, None, 0.5])
    return ["numeric", key, [2] if key == "y" else [1], default, rng.choice([None, None, 0.5])]


def _bucketized(rng):
    boundaries = sorted({round(rng.uniform(-1.5, 1.5), 1) for _ in range(rng.randrange(1, 4))})
    return ["bucketized", ["numeric", rng.choice("xy"), [1], None, None], boundaries]


def _categorical(rng):
    kind = rng.choice(
        ["vocabulary", "vocabulary_file", "identity", "hash", "hash", "crossed", "bucketized", "weighted"]
    )
    if kind == "crossed":
        inner = rng.sample(["s", "i", "m", ["vocabulary", "s", ["a", "b"], 0, -1], _fixed_bucketized(rng)], 2)
        return ["crossed", inner, rng.randrange(2, 9)]
    if kind == "bucketized":
        return _fixed_bucketized(rng)
    if kind == "identity":
        return ["identity", "i", 6, None] if rng.random() < 0.5 else ["identity", "i", 3, rng.randrange(3)]
    if kind == "hash":
        key = rng.choice("sim")
        return ["hash", key, rng.randrange(2, 8), "int64" if key == "i" else "string"]
    if kind == "weighted":
        return ["weighted", _vocabulary(rng, "m", "vocabulary"), "mw"]
    return _vocabulary(rng, rng.choice("sm"), kind)


def _vocabulary(rng, key, kind):
    words = rng.sample(canned_program.LETTERS, rng.randrange(1, 6))
    if rng.random() < 0.5:
        return [kind, key, words, rng.randrange(1, 4), None if kind == "vocabulary_file" else -1]
    return [kind, key, words, 0, rng.choice([-1, 0])]


def _fixed_bucketized(rng):
    column = _bucketized(rng)
    column[1][1] = "x"
    return column


def _linear_column(rng):
    return rng.choice([_numeric, _bucketized_fixed_shape, _categorical, _categorical, _categorical])(rng)


def _bucketized_fixed_shape(rng):
    column = _bucketized(rng)
    column[1][2] = [2] if column[1][1] == "y" else [1]
    return column


def _dense_column(rng):
    kind = rng.choice(["numeric", "bucketized", "indicator", "embedding", "embedding"])
    if kind == "numeric":
        return _numeric(rng)
    if kind == "bucketized":
        return _bucketized_fixed_shape(rng)
    if kind == "indicator":
        return ["indicator", _categorical(rng)]
    combiner, norm = rng.choice(["mean", "sum", "sqrtn"]), rng.choice([None, None, None, 0.5])
    return ["embedding", _categorical(rng), rng.randrange(1, 4), combiner, norm]


def _of_head(rng, task, is_v1):
    """Returns the arguments of the head in a Classifier or Regressor."""
    arguments = {}
    if task == "Classifier":
        arguments["n_classes"] = rng.choice([2, 2, 3, 5])
        if rng.random() < 0.3:
            arguments["label_vocabulary"] = True
    elif rng.random() < 0.4:
        arguments["label_dimension"] = rng.randrange(1, 4)
    if rng.random() < 0.4:
        arguments["weight_column"] = "w"
    if rng.random() < 0.4:
        v1 = ["weighted_sum", "weighted_mean", "weighted_sum_by_nonzero_weights", "weighted_sum_over_batch_size"]
        arguments["loss_reduction"] = rng.choice(v1 if is_v1 else ["sum", "sum_over_batch_size"])
    return arguments


def _head(rng, name=None):
    kinds = ["BinaryClassHead", "MultiClassHead", "MultiLabelHead", "RegressionHead", "PoissonRegressionHead"]
    kind = rng.choice([*kinds, "LogisticRegressionHead", *([] if name else ["MultiHead"])])
    if kind == "MultiHead":
        heads = [_head(rng, f"h{index}") for index in range(rng.randrange(1, 4))]
        weights = {"head_weights": [rng.choice([0.5, 1.0, 2.0]) for _ in heads]} if rng.random() < 0.5 else {}
        for each in heads:  # 2.15 refuses to train heads of different reductions
            each["arguments"]["loss_reduction"] = heads[0]["arguments"].get("loss_reduction", "sum_over_batch_size")
        return {"kind": kind, "heads": heads, "arguments": weights}
    arguments = {"name": name} if name or rng.random() < 0.2 else {}
    if "name" in arguments:
        arguments["name"] = name or "named"
    if kind in ("MultiClassHead", "MultiLabelHead"):
        arguments["n_classes"] = rng.randrange(3, 5)
    if kind in ("RegressionHead", "PoissonRegressionHead") and rng.random() < 0.4:
        arguments["label_dimension"] = rng.randrange(1, 4)
    if kind in ("BinaryClassHead", "MultiLabelHead") and rng.random() < 0.4:
        arguments["thresholds"] = [0.25, 0.75]
    if kind == "MultiLabelHead" and rng.random() < 0.4:
        arguments["classes_for_class_based_metrics"] = [0, 2]
    if rng.random() < 0.4:
        arguments["weight_column"] = "w"
    if rng.random() < 0.3:
        arguments["loss_reduction"] = rng.choice(["sum", "sum_over_batch_size"])
    return {"kind": kind, "arguments": arguments}


_OF_KERAS = {
    "SGD": [{}, {"momentum": 0.9}, {"momentum": 0.5, "nesterov": True}],
    "Adam": [{}, {"amsgrad": True}],
    "Adagrad": [{}, {"initial_accumulator_value": 0.2}],
    "Adadelta": [{}],
    "Adamax": [{}],
    "Nadam": [{}],
    "Ftrl": [{}, {"l1_regularization_strength": 0.01}, {"l2_regularization_strength": 0.1, "beta": 0.1},
             {"l2_shrinkage_regularization_strength": 0.01}, {"learning_rate_power": -0.6}],
    "RMSprop": [{}, {"momentum": 0.5}, {"centered": True}],
}  # fmt: skip
_OF_V1 = {
    "GradientDescent": [{}],
    "Momentum": [{"momentum": 0.9}, {"momentum": 0.5, "use_nesterov": True}],
    "Adam": [{}],
    "Adagrad": [{}, {"initial_accumulator_value": 0.2}],
    "Adadelta": [{}],
    "RMSProp": [{}, {"momentum": 0.5}, {"centered": True}],
    "Ftrl": [{}, {"l1_regularization_strength": 0.01}, {"l2_shrinkage_regularization_strength": 0.01}],
    "ProximalAdagrad": [{"l1_regularization_strength": 0.01}],
    "ProximalGradientDescent": [{"l2_regularization_strength": 0.01}],
}


def _optimizer(rng, is_v1):
    if rng.random() < 0.3:
        return rng.choice(["Adagrad", "Adam", "Ftrl", "RMSProp", "SGD"])
    kinds = _OF_V1 if is_v1 else _OF_KERAS
    name = rng.choice(list(kinds))
    arguments = dict(rng.choice(kinds[name]))
    if not is_v1 and rng.random() < 0.2:
        arguments |= rng.choice([{"clipnorm": 0.5}, {"clipvalue": 0.1}, {"global_clipnorm": 0.5}, {"decay": 0.1}])
    decays = rng.random() < 0.2 and "decay" not in arguments
    # An object that reads the global step would be made before its graph.
    function = is_v1 or rng.random() < 0.4
    rate = rng.choice([0.05, 0.1])
    return {"name": name, "rate": rate, "arguments": arguments, "decays": decays, "function": function}
