"""Trains a canned estimator on TensorFlow 2.15's own tf.estimator or on estimator_train, and returns its numbers.

    python -m tests.fuzz.canned_program

The command, run by a Python with TensorFlow 2.15, reads a case per line, as JSON, and prints the numbers of each.
"""

import collections
import itertools
import json
import os
import sys
import tempfile
import zlib

import numpy as np

EXAMPLES, STEPS, SHOWN = 24, 3, 5
LETTERS = ["a", "b", "c", "d", "e"]


def numbers(case, tf, keras, estimators, directory):
    """Trains, resumes, evaluates, predicts and exports; returns a dict of what came of it, which json can write.

    `estimators` has the module of each generation under "v1" and "v2", and tf.estimator's other names under "v2".
    """
    estimator = make(case, tf, keras, estimators, directory)
    losses = Losses.of(tf)()
    estimator.train(lambda: dataset(case, tf, repeats=None), max_steps=STEPS, hooks=[losses])
    estimator = make(case, tf, keras, estimators, directory)
    estimator.train(lambda: dataset(case, tf, repeats=None), max_steps=2 * STEPS, hooks=[losses])
    metrics = estimator.evaluate(lambda: dataset(case, tf))
    predictions = list(itertools.islice(estimator.predict(lambda: dataset(case, tf)), SHOWN))
    results = {
        "losses": losses.values,
        "metrics": plain(metrics),
        "predictions": plain(predictions),
        "variables": {name: plain(estimator.get_variable_value(name)) for name in estimator.get_variable_names()},
    }
    if case["export"]:
        results["export"] = exported(case, tf, estimators, estimator, directory)
    return results


def make(case, tf, keras, estimators, directory):
    """Returns the case's estimator."""
    generation, common = estimators["v1" if case["v1"] else "v2"], estimators["v2"]
    columns = {name: [column(spec, tf) for spec in case.get(name, [])] for name in ("columns", "dnn_columns")}
    shared = columns["columns"] or columns["dnn_columns"]
    kind, task = case["estimator"], case["task"]
    activation = {"identity": lambda x: x, "leaky_relu": tf.nn.leaky_relu}.get(case.get("activation"))
    activation = activation or getattr(tf.nn, case.get("activation", "relu"))
    arguments = {
        "model_dir": os.path.join(directory, "model"),
        "config": common.RunConfig(save_summary_steps=None, tf_random_seed=1, keep_checkpoint_max=1),
    }
    if task == "Estimator":
        arguments["head"] = head(case["head"], common)
    else:
        arguments.update(case["of_head"])
        if "label_vocabulary" in case["of_head"]:
            arguments["label_vocabulary"] = LETTERS[: case["of_head"].get("n_classes", 2)]
        if case["weight_normalized"]:
            arguments["weight_column"] = tf.feature_column.numeric_column("w", normalizer_fn=lambda w: w * 0.5)
    first, second = [optimizer(spec, tf, keras, case["v1"]) for spec in case["optimizers"]]
    if kind == "DNNLinearCombined":
        arguments.update(
            linear_feature_columns=columns["columns"],
            linear_optimizer=first,
            linear_sparse_combiner=case["combiner"],
            dnn_feature_columns=columns["dnn_columns"],
            dnn_optimizer=second,
            dnn_activation_fn=activation,
            dnn_dropout=case["dropout"],
        )
        arguments.update(dnn_hidden_units=case["hidden_units"], batch_norm=case["batch_norm"])
    elif kind == "DNN":
        arguments.update(
            feature_columns=shared,
            optimizer=second,
            activation_fn=activation,
            dropout=case["dropout"],
            hidden_units=case["hidden_units"],
            batch_norm=case["batch_norm"],
        )
    elif kind == "Linear":
        arguments.update(feature_columns=shared, optimizer=first, sparse_combiner=case["combiner"])
    else:
        arguments["optimizer"] = first
    arguments = {name: value for name, value in arguments.items() if value is not None}
    return getattr(generation, kind + task)(**arguments)


def head(spec, estimators):
    arguments = dict(spec["arguments"])
    if spec["kind"] == "MultiHead":
        arguments["heads"] = [head(each, estimators) for each in spec["heads"]]
    return getattr(estimators, spec["kind"])(**arguments)


def column(spec, tf):
    """Returns a feature column from [kind, argument, ...], whose arguments can be such lists."""
    kind, inner, *rest = spec
    fc = tf.feature_column
    if kind == "numeric":
        shape, default, scale = rest
        normalizer = (lambda x: (x - 0.25) * scale) if scale else None
        return fc.numeric_column(inner, shape, default, normalizer_fn=normalizer)
    if kind == "vocabulary":
        words, oov, default = rest
        return fc.categorical_column_with_vocabulary_list(inner, words, None, default, oov)
    if kind == "vocabulary_file":
        words, oov, default = rest
        with tempfile.NamedTemporaryFile("w", delete=False) as file:
            file.write("\n".join(words) + "\n")
        return fc.categorical_column_with_vocabulary_file(inner, file.name, None, oov, default_value=default)
    if kind == "identity":
        return fc.categorical_column_with_identity(inner, *rest)
    if kind == "hash":
        return fc.categorical_column_with_hash_bucket(inner, rest[0], tf.dtypes.as_dtype(rest[1]))
    if kind == "crossed":
        keys = [key if isinstance(key, str) else column(key, tf) for key in inner]
        return fc.crossed_column(keys, *rest)
    if kind == "weighted":
        return fc.weighted_categorical_column(column(inner, tf), rest[0])
    if kind == "embedding":
        dimension, combiner, norm = rest
        return fc.embedding_column(column(inner, tf), dimension, combiner, max_norm=norm)
    return {"bucketized": fc.bucketized_column, "indicator": fc.indicator_column}[kind](column(inner, tf), *rest)


def optimizer(spec, tf, keras, is_v1):
    """Returns the argument that names or makes an optimizer: a name, an object or a function."""
    if spec is None or isinstance(spec, str):
        return spec

    def make_one():
        rate, arguments = spec["rate"], spec["arguments"]
        if is_v1:
            steps = tf.compat.v1.train.get_or_create_global_step()
            if spec["decays"]:
                rate = tf.compat.v1.train.exponential_decay(rate, steps, 2, 0.5)
            return getattr(tf.compat.v1.train, spec["name"] + "Optimizer")(rate, **arguments)
        if spec["decays"]:
            rate = keras.optimizers.schedules.ExponentialDecay(rate, 2, 0.5)
        return getattr(keras.optimizers.legacy, spec["name"])(rate, **arguments)

    return make_one if spec["function"] else make_one()


def arrays(case):
    """Returns the features and labels of all examples; sparse features as (indices, values, shape)."""
    random = np.random.RandomState(case["seed"])
    features = {
        "x": random.normal(size=EXAMPLES).astype("float32"),
        "y": random.normal(size=(EXAMPLES, 2)).astype("float32"),
        "i": random.randint(-1 if case["missing"] else 0, 6, size=EXAMPLES).astype("int64"),
        "s": random.choice(LETTERS + ["z"] + [""] * case["missing"], size=EXAMPLES),
        "w": random.choice([0.0, 0.5, 1.0, 2.0], size=EXAMPLES).astype("float32"),
    }
    counts = random.randint(0, 4, size=EXAMPLES)
    counts[0] = 3
    indices = np.array([[row, place] for row, count in enumerate(counts) for place in range(count)], "int64")
    shape = [EXAMPLES, 3]
    features["m"] = (indices, random.choice(LETTERS, size=len(indices)), shape)
    features["mw"] = (indices, random.uniform(-0.5, 2, size=len(indices)).astype("float32"), shape)
    if case["task"] == "Estimator":
        return features, labels_of_head(case["head"], random)
    of_head = case["of_head"]
    if case["task"] == "Regressor":
        labels = random.normal(size=(EXAMPLES, of_head.get("label_dimension", 1))).astype("float32")
        return features, labels
    classes = random.randint(0, of_head.get("n_classes", 2), size=(EXAMPLES, 1)).astype("int64")
    return features, np.array(LETTERS)[classes] if "label_vocabulary" in of_head else classes


def labels_of_head(spec, random):
    kind, arguments = spec["kind"], spec["arguments"]
    if kind == "MultiHead":
        return {each["arguments"]["name"]: labels_of_head(each, random) for each in spec["heads"]}
    if kind == "MultiLabelHead":
        return random.randint(0, 2, size=(EXAMPLES, arguments["n_classes"])).astype("int64")
    if kind in ("BinaryClassHead", "MultiClassHead"):
        return random.randint(0, arguments.get("n_classes", 2), size=(EXAMPLES, 1)).astype("int64")
    values = random.uniform(0, 1, size=(EXAMPLES, arguments.get("label_dimension", 1))).astype("float32")
    return np.round(values * 4) if kind == "PoissonRegressionHead" else values


def dataset(case, tf, repeats=1):
    features, labels = arrays(case)
    tensors = {key: tf.sparse.SparseTensor(*value) if isinstance(value, tuple) else value
               for key, value in features.items()}  # fmt: skip
    return tf.data.Dataset.from_tensor_slices((tensors, labels)).repeat(repeats).batch(case["batch_size"])


class Losses:
    """Makes the class of a hook that sets initial values, which depend on names alone, and keeps each step's loss."""

    @staticmethod
    def of(tf):
        v1 = tf.compat.v1

        class Hook(v1.train.SessionRunHook):
            def __init__(self):
                self.values = []

            def begin(self):
                (self._loss,) = v1.get_collection(v1.GraphKeys.LOSSES)[-1:]
                self._variables = v1.trainable_variables()
                self._step = v1.train.get_global_step()

            def after_create_session(self, session, coord):
                if session.run(self._step) == 0:
                    for variable in self._variables:
                        random = np.random.RandomState(zlib.crc32(variable.op.name.encode()))
                        variable.load(random.uniform(-0.5, 0.5, variable.shape.as_list()).astype("float32"), session)

            def before_run(self, context):
                return v1.train.SessionRunArgs(self._loss)

            def after_run(self, context, values):
                self.values.append(float(values.results))

        return Hook


def exported(case, tf, estimators, estimator, directory):
    """Exports the model for serialized examples, and returns the outputs of each signature for the first few."""
    specs = [spec for name in ("columns", "dnn_columns") for spec in case.get(name, [])]
    features = tf.feature_column.make_parse_example_spec([column(spec, tf) for spec in specs])
    features = features or {"x": tf.io.FixedLenFeature([1], tf.float32)}
    receiver = estimators["v2"].export.build_parsing_serving_input_receiver_fn(features)
    folder = estimator.export_saved_model(os.path.join(directory, "export"), receiver)
    model = tf.saved_model.load(folder.decode() if isinstance(folder, bytes) else folder)
    examples = tf.constant(serialized(case, tf))
    outputs = {}
    for name, function in sorted(model.signatures.items()):
        (argument,) = function.structured_input_signature[1]
        outputs[name] = plain({key: value.numpy() for key, value in function(**{argument: examples}).items()})
    return outputs


def serialized(case, tf):
    features, _ = arrays(case)
    rows = collections.defaultdict(dict)
    for key, value in features.items():
        if isinstance(value, tuple):
            for row in range(SHOWN):
                rows[row][key] = [each for place, each in enumerate(value[1]) if value[0][place][0] == row]
        else:
            for row in range(SHOWN):
                rows[row][key] = np.ravel(value[row]).tolist()
    kinds = {"i": "int64_list", "s": "bytes_list", "m": "bytes_list"}
    texts = []
    for row in range(SHOWN):
        example = tf.train.Example()
        for key, values in rows[row].items():
            values = [value.encode() if isinstance(value, str) else value for value in values]
            getattr(example.features.feature[key], kinds.get(key, "float_list")).value.extend(values)
        texts.append(example.SerializeToString())
    return texts


def plain(value):
    """Returns arrays and bytes as lists, numbers and text."""
    if isinstance(value, dict):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(each) for each in value]
    if isinstance(value, (np.ndarray, np.generic)):
        return plain(value.tolist())
    return value.decode() if isinstance(value, bytes) else value


def outcome(case, tf, keras, estimators, directory):
    """Returns the numbers of a case, or the error that it ends with."""
    try:
        return numbers(case, tf, keras, estimators, directory)
    except Exception as error:
        return {"error": type(error).__name__, "message": str(error)[:2000]}


def main():
    import tensorflow as tf

    replies, sys.stdout = sys.stdout, sys.stderr
    estimators = {"v1": tf.compat.v1.estimator, "v2": tf.estimator}
    for line in sys.stdin:
        with tempfile.TemporaryDirectory() as directory:
            reply = outcome(json.loads(line), tf, tf.keras, estimators, directory)
        print(json.dumps(reply), file=replies, flush=True)


if __name__ == "__main__":
    main()
