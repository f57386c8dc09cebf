"""Random Keras models and RunConfigs, against fit, evaluate and predict of Keras on the same batches.

A case trains without a break, and again in two halves with an Estimator each; both must end with the same checkpoint.
The weights are compared with fit's unless a layer draws random numbers, the precision is mixed, or batches are
accumulated: Keras does not repeat these numbers itself. Nor are they for strings on replicas, whose mean Keras 3's fit
takes in order to build the model.

Left out: Nadam of tf_keras, with which the compiled step of fit differs from an eager one (docs/keras.md), and breaks
in a training with recurrent dropout of tf_keras, whose draws in a loop are not those of the position.
"""

from __future__ import annotations

import concurrent.futures
import functools
import importlib
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

BATCH, STEPS = 4, 6
BODIES = {
    "vector": ["dense", "batchnorm", "layernorm", "normalization", "dropout", "noise", "regularized", "constrained"],
    "image": ["conv", "depthwise", "batchnorm", "pool", "rescaling", "spatial_dropout", "regularized_conv"],
    "text": ["lstm", "gru", "simple_rnn", "bidirectional", "recurrent_dropout"],
    "string": ["dense", "layernorm", "dropout"],
}
RANDOM = {"dropout", "noise", "spatial_dropout", "recurrent_dropout"}
OPTIMIZERS = {
    "SGD": [{}, {"momentum": 0.9}, {"momentum": 0.9, "nesterov": True}, {"clipnorm": 0.5}],
    "Adam": [{}, {"amsgrad": True}, {"use_ema": True, "ema_overwrite_frequency": 2}, {"clipvalue": 0.1}],
    "AdamW": [{}, {"weight_decay": 0.1}],
    "RMSprop": [{}, {"centered": True, "momentum": 0.5}],
    "Adagrad": [{}],
    "Adadelta": [{}],
    "Adamax": [{}],
    "Ftrl": [{}, {"l1_regularization_strength": 0.01}],
    "Adafactor": [{}],
    "Lion": [{}],
    "Nadam": [{}],
    "Lamb": [{}],
}
ONLY_KERAS_3 = {"Nadam", "Lamb"}
SCHEDULES = [None, "ExponentialDecay", "CosineDecay", "PiecewiseConstantDecay", "InverseTimeDecay", "PolynomialDecay"]
TASKS = {
    "classes": (
        ["sparse_categorical_crossentropy"],
        ["sparse_categorical_accuracy", "sparse_top_k_categorical_accuracy", "sparse_categorical_crossentropy"],
    ),
    "binary": (["binary_crossentropy", "binary_focal_crossentropy", "hinge"], ["AUC", "Precision", "Recall"]),
    "number": (["mse", "mae", "huber", "log_cosh"], ["mae", "RootMeanSquaredError", "mean_squared_logarithmic_error"]),
}


def draw(rng: random.Random) -> dict:
    generation = rng.choice(["tf_keras", "keras"])
    optimizer = rng.choice([n for n in OPTIMIZERS if generation == "keras" or n not in ONLY_KERAS_3])
    style = rng.choice(["sequential", "functional", "functional", "subclass"])
    kinds = [rng.choice(list(BODIES)) for _ in range(1 if style != "functional" else rng.choice([1, 1, 2]))]
    tasks = [rng.choice(list(TASKS)) for _ in range(1 if style != "functional" else rng.choice([1, 1, 2]))]
    inputs = [{"kind": kind, "layers": rng.choices(BODIES[kind], k=rng.randint(1, 3))} for kind in kinds]
    if style == "subclass" and generation == "keras":
        # Keras builds a Normalization of given statistics with tensors of a graph that it leaves.
        inputs = [{**i, "layers": [name for name in i["layers"] if name != "normalization"]} for i in inputs]
    # Neither a subclassed model nor, in Keras 3, the loss of an activity can be cast.
    casts = style != "subclass" and not (generation == "keras" and any("regularized" in i["layers"] for i in inputs))
    case = {
        "generation": generation,
        "style": style,
        "inputs": inputs,
        "outputs": [
            {"task": t, "loss": rng.choice(TASKS[t][0]), "metrics": rng.sample(TASKS[t][1], k=rng.randint(0, 2))}
            for t in tasks
        ],
        "shared": style == "functional" and rng.random() < 0.3,
        "nested": style == "functional" and rng.random() < 0.3,
        "add_loss": style != "sequential" and rng.random() < 0.3,
        "own_step": (own_step := style == "subclass" and rng.random() < 0.4),
        "built": style != "subclass" or rng.random() < 0.7,
        "optimizer": [optimizer, rng.choice(OPTIMIZERS[optimizer]), rng.choice(SCHEDULES)],
        "sample_weights": rng.random() < 0.3,
        "replicas": rng.choice([1, 1, 2]),
        "eval_replicas": rng.choice([1, 1, 2]),
        "precision": rng.choice([None] * 7 + ["bfloat16"]) if casts else None,
        "config": {
            "steps_per_loop": rng.choice(["auto", "auto", 1, 2, 3]),
            "accumulate_steps": rng.choice([1, 1, 1, 1 if own_step else 2]),  # an own step is refused, as documented
            "save_checkpoints_steps": rng.choice([1, 2, 4, 100]),
            "keep_checkpoint_max": rng.choice([1, 2, 0]),
            "resume_input": rng.random() < 0.5,
        },
        "stop": rng.randint(1, STEPS - 1),
        "new_estimator": rng.random() < 0.7,
        "seed": rng.randrange(1000),
    }
    if generation == "keras" and "ema_overwrite_frequency" in case["optimizer"][1]:
        case["replicas"] = 1  # Keras 3 cannot use it on several, in fit neither
    return case


def smaller(case: dict) -> Iterator[dict]:
    for name in ("inputs", "outputs"):
        if len(case[name]) > 1:
            yield {**case, name: case[name][:1]}
            yield {**case, name: case[name][1:]}
    for name in ("shared", "nested", "add_loss", "own_step", "sample_weights"):
        if case[name]:
            yield {**case, name: False}
    simple: dict[str, Any] = {"replicas": 1, "eval_replicas": 1, "precision": None, "optimizer": ["SGD", {}, None]}
    for name, value in simple.items():
        if case[name] != value:
            yield {**case, name: value}
    config = {"steps_per_loop": 1, "accumulate_steps": 1, "save_checkpoints_steps": 100, "resume_input": False}
    for name, value in config.items():
        if case["config"][name] != value:
            yield {**case, "config": {**case["config"], name: value}}
    for number, part in enumerate(case["inputs"]):
        for index in range(len(part["layers"])):
            layers = part["layers"][:index] + part["layers"][index + 1 :]
            yield {
                **case,
                "inputs": [{**p, "layers": layers} if i == number else p for i, p in enumerate(case["inputs"])],
            }
    if any(output["metrics"] for output in case["outputs"]):
        yield {**case, "outputs": [{**output, "metrics": []} for output in case["outputs"]]}


def check(case: dict, directory: Path) -> None:
    import tensorflow as tf

    import estimator_train as et

    keras = importlib.import_module(case["generation"])
    keras.backend.clear_session()
    strategy, eval_strategy = _strategy(case["replicas"]), _strategy(case["eval_replicas"])
    accumulated = case["config"]["accumulate_steps"]
    batches = STEPS * case["replicas"] * accumulated
    train_data, eval_data = _data(case, batches * BATCH, 1), _data(case, 4 * BATCH - 2, 2)
    keras.utils.set_random_seed(case["seed"])
    given = _build(case, keras)
    if case["built"]:
        given(_data(case, 1, 1)[0])

    def estimator(name):
        keras.utils.set_random_seed(case["seed"])  # of the weights of an unbuilt model, which Keras draws
        config = et.RunConfig(
            model_dir=str(directory / name),
            tf_random_seed=case["seed"],
            train_distribute=strategy,
            eval_distribute=eval_strategy,
            mixed_precision=case["precision"],
            log_step_count_steps=None,
            **case["config"],
        )
        return et.model_to_estimator(given, config=config)

    def input_fn(data, skipped=0):
        return lambda: tf.data.Dataset.from_tensor_slices(data).batch(BATCH).skip(skipped)

    unbroken = estimator("unbroken").train(input_fn(train_data), max_steps=STEPS)
    broken = estimator("broken").train(input_fn(train_data), max_steps=case["stop"])
    skipped = 0 if case["config"]["resume_input"] else case["stop"] * case["replicas"] * accumulated
    if case["new_estimator"]:
        broken = estimator("broken")
    broken.train(input_fn(train_data, skipped), max_steps=STEPS)
    drawn = {name for part in case["inputs"] for name in part["layers"]} & RANDOM
    if case["generation"] == "keras" or "recurrent_dropout" not in drawn:
        _same_checkpoints(unbroken.latest_checkpoint(), broken.latest_checkpoint(), exact=case["replicas"] == 1)
    kept = case["config"]["keep_checkpoint_max"]
    found = len(tf.train.get_checkpoint_state(broken.model_dir).all_model_checkpoint_paths)
    assert not kept or found <= kept, f"{found} checkpoints are kept instead of {kept}"

    result = unbroken.evaluate(input_fn(eval_data))
    assert result.pop("global_step") == STEPS
    features = eval_data[0]
    predicted = _joined(unbroken.predict(input_fn((features,)), yield_single_examples=False))
    first = {name: value[:3] for name, value in features.items()}
    with unbroken.predictor() as predict, concurrent.futures.ThreadPoolExecutor(2) as pool:
        for answer in pool.map(predict, [first] * 2):
            _close(answer, {name: value[:3] for name, value in predicted.items()}, "predictor", 1e-5)
    signature = {n: tf.TensorSpec([None, *v.shape[1:]], v.dtype) for n, v in features.items()}
    receiver_fn = et.export.build_raw_serving_input_receiver_fn(
        {
            name: tf.zeros([1, *spec.shape[1:]], spec.dtype) if spec.dtype != tf.string else tf.constant([[""]])
            for name, spec in signature.items()
        }
    )
    path = unbroken.export_saved_model(str(directory / "exported"), receiver_fn).decode()
    served = tf.saved_model.load(path).signatures["serving_default"](**{n: tf.constant(v) for n, v in features.items()})
    _close({n: v.numpy() for n, v in served.items()}, predicted, "export", 1e-5)

    if case["precision"]:
        return
    reference = _reference(case, keras, given, strategy)
    averages_strings = case["replicas"] > 1 and any(part["kind"] == "string" for part in case["inputs"])
    if case["built"] and accumulated == 1 and not drawn and not averages_strings:
        data = tf.data.Dataset.from_tensor_slices(train_data).batch(BATCH * case["replicas"])
        reference.fit(data, epochs=1, shuffle=False, verbose=0)
        fitted = reference.get_weights()
        # Adaptive optimizers divide a gradient by its own size, so float32 noise of a gradient near zero moves a
        # weight by up to the learning rate; 0.01 here. Sums over replicas are taken in another order.
        _load(reference, unbroken.latest_checkpoint())
        for number, (ours, theirs) in enumerate(zip(reference.get_weights(), fitted, strict=True)):
            difference = np.abs(np.float64(ours) - theirs).max(initial=0)
            assert difference <= 1e-4, f"weight {number} {ours.shape} differs from fit's by {difference:.3g}"
    else:
        _load(reference, unbroken.latest_checkpoint())
    plain = _reference(case, keras, given, None)
    _load(plain, unbroken.latest_checkpoint())
    data = tf.data.Dataset.from_tensor_slices(eval_data).batch(BATCH)
    theirs = plain.evaluate(data, return_dict=True, verbose=0)
    # Keras averages the loss of one output over batches, and replicas divide the last ones (docs/keras.md). Values of a
    # step that are no metrics are summed over replicas, or averaged.
    differ = [n for n in theirs if n == "twice" or n.endswith("_loss")] if case["eval_replicas"] > 1 else []
    kept_names = [n for n in theirs if n not in differ]
    assert result.keys() == theirs.keys(), f"evaluate has {sorted(result)}, Keras {sorted(theirs)}"
    _close({n: result[n] for n in kept_names}, {n: theirs[n] for n in kept_names}, "evaluate", 1e-4)
    expected = plain.predict(tf.data.Dataset.from_tensor_slices((features,)).batch(BATCH), verbose=0)
    expected = list(expected.values()) if isinstance(expected, dict) else expected
    expected = expected if isinstance(expected, list) else [expected]
    for ours, theirs in zip(predicted.values(), expected, strict=True):
        _close({"": ours}, {"": theirs}, "predict", 1e-5)


@functools.cache
def _strategy(replicas):
    import tensorflow as tf

    if replicas == 1:
        return None
    return tf.distribute.MirroredStrategy([f"CPU:{index}" for index in range(replicas)])


def prepare() -> None:
    """Makes the logical devices of replicas, before TensorFlow starts."""
    import tensorflow as tf

    devices = [tf.config.LogicalDeviceConfiguration()] * 2
    tf.config.set_logical_device_configuration(tf.config.list_physical_devices("CPU")[0], devices)


def _data(case, size, seed):
    rng = np.random.default_rng((case["seed"], seed))
    draws = {
        "vector": lambda: rng.normal(size=(size, 6)).astype("float32"),
        "image": lambda: rng.uniform(size=(size, 6, 6, 2)).astype("float32"),
        "text": lambda: rng.integers(1, 9, (size, 5)) * (np.arange(5) < rng.integers(1, 6, (size, 1))),
        "string": lambda: rng.choice(np.array([b"a", b"b", b"c", b"d"]), (size, 1)),
    }
    features = {f"x{i}": draws[part["kind"]]() for i, part in enumerate(case["inputs"])}
    labels = {
        "classes": lambda: rng.integers(0, 3, (size, 1)),
        "binary": lambda: rng.integers(0, 2, (size, 1)).astype("float32"),
        "number": lambda: rng.uniform(size=(size, 1)).astype("float32"),
    }
    targets = [labels[output["task"]]() for output in case["outputs"]]
    several = len(targets) > 1
    y = {f"y{i}": value for i, value in enumerate(targets)} if several else targets[0]
    if not case["sample_weights"]:
        return features, y
    weights = [rng.uniform(0.5, 2, size).astype("float32") for _ in targets]
    return features, y, {f"y{i}": value for i, value in enumerate(weights)} if several else weights[0]


def _reference(case, keras, given, strategy):
    import contextlib

    with strategy.scope() if strategy else contextlib.nullcontext():
        model = _build(case, keras)
        features = _data(case, 1, 1)[0]
        if case["style"] == "subclass":
            model(features)
            given(features)
        model.set_weights(given.get_weights())
    return model


def _load(model, checkpoint):
    import tensorflow as tf
    import tf_keras

    status = tf.train.Checkpoint(model).read(checkpoint).expect_partial()
    # This optimizer has an unused number for each vector, which a checkpoint of Keras lacks, too, if its parts were
    # listed before its first step: Keras keeps that list.
    if not isinstance(model.optimizer, tf_keras.optimizers.Adafactor):
        status.assert_existing_objects_matched()


def _same_checkpoints(unbroken, broken, exact):
    import tensorflow as tf

    one, other = (tf.train.load_checkpoint(path) for path in (unbroken, broken))
    names = one.get_variable_to_shape_map()
    assert names == other.get_variable_to_shape_map(), "the checkpoints have different variables"
    for name in sorted(names):
        a, b = np.asarray(one.get_tensor(name)), np.asarray(other.get_tensor(name))
        if a.dtype.kind != "f":
            continue
        # The mean of the replicas' moving averages is saved, which is one ulp off for each of them.
        limit = 0 if exact else 1e-6
        difference = np.abs(np.float64(a) - b).max(initial=0)
        assert difference <= limit, f"{name} differs by {difference:.3g} after a break"


def _joined(batches):
    batches = list(batches)
    return {name: np.concatenate([batch[name] for batch in batches]) for name in batches[0]}


def _close(ours, theirs, what, tolerance):
    assert ours.keys() == theirs.keys(), f"{what} has {sorted(ours)}, expected {sorted(theirs)}"
    for name, value in theirs.items():
        np.testing.assert_allclose(ours[name], value, rtol=tolerance, atol=tolerance, err_msg=f"{what} {name}")


def _layer(name, keras):
    # A bias just before a BatchNormalization has no gradient but noise, which adaptive optimizers enlarge, so there is
    # an activation between them.
    layers = keras.layers
    return {
        "dense": lambda: layers.Dense(5, activation="tanh"),
        "batchnorm": lambda: layers.BatchNormalization(momentum=0.8),
        "layernorm": lambda: layers.LayerNormalization(),
        "normalization": lambda: layers.Normalization(mean=0.1, variance=2.0),
        "dropout": lambda: layers.Dropout(0.3),
        "noise": lambda: layers.GaussianNoise(0.1),
        "regularized": lambda: layers.Dense(5, "tanh", kernel_regularizer="l2", activity_regularizer="l1"),
        "constrained": lambda: layers.Dense(5, "tanh", kernel_constraint=keras.constraints.MaxNorm(0.7)),
        "conv": lambda: layers.Conv2D(3, 3, padding="same", activation="relu"),
        "depthwise": lambda: layers.DepthwiseConv2D(3, padding="same", activation="tanh"),
        "pool": lambda: layers.MaxPooling2D(2, padding="same"),
        "rescaling": lambda: layers.Rescaling(2.0, offset=-1.0),
        "spatial_dropout": lambda: layers.SpatialDropout2D(0.3),
        "regularized_conv": lambda: layers.SeparableConv2D(
            3, 2, padding="same", depthwise_regularizer="l2", activation="tanh"
        ),
        "lstm": lambda: layers.LSTM(4, return_sequences=True),
        "gru": lambda: layers.GRU(4, return_sequences=True),
        "simple_rnn": lambda: layers.SimpleRNN(4, return_sequences=True),
        "bidirectional": lambda: layers.Bidirectional(layers.GRU(2, return_sequences=True)),
        "recurrent_dropout": lambda: layers.LSTM(3, return_sequences=True, dropout=0.2, recurrent_dropout=0.2),
    }[name]()


def _layers(part, keras):
    """Returns the layers from an input to a vector of 4."""
    layers = keras.layers
    body = [_layer(name, keras) for name in part["layers"]]
    kind = part["kind"]
    before = {
        "text": lambda: [layers.Embedding(9, 4, mask_zero=True)],
        "string": lambda: [
            layers.StringLookup(vocabulary=["a", "b", "c"]),
            layers.CategoryEncoding(num_tokens=4, output_mode="multi_hot"),
        ],
    }.get(kind, list)()
    after = {"image": lambda: [layers.GlobalAveragePooling2D()], "text": lambda: [layers.LSTM(4)]}.get(kind, list)()
    return [*before, *body, *after, layers.Dense(4, activation="tanh")]


def _head(output, keras, name):
    units, activation = {"classes": (3, "softmax"), "binary": (1, "sigmoid"), "number": (1, None)}[output["task"]]
    return keras.layers.Dense(units, activation=activation, name=name, dtype="float32")


def _input(number, part, keras):
    shape, dtype = {
        "vector": ((6,), "float32"),
        "image": ((6, 6, 2), "float32"),
        "text": ((5,), "int64"),
        "string": ((1,), "string"),
    }[part["kind"]]
    return keras.Input(shape, dtype=dtype, name=f"x{number}")


def _build(case, keras):
    model = {"sequential": _sequential, "functional": _functional, "subclass": _subclass}[case["style"]](case, keras)
    losses = [output["loss"] for output in case["outputs"]]
    metrics = [[_metric(name, keras) for name in output["metrics"]] for output in case["outputs"]]
    if len(losses) == 1:
        model.compile(_optimizer(case, keras), losses[0], metrics=metrics[0])
    else:
        names = [f"y{i}" for i in range(len(losses))]
        model.compile(
            _optimizer(case, keras),
            dict(zip(names, losses, strict=True)),
            metrics=dict(zip(names, metrics, strict=True)),
            loss_weights=dict(zip(names, (1.0, 0.5), strict=True)),
        )
    return model


def _metric(name, keras):
    return getattr(keras.metrics, name)(name=name.lower()) if name[0].isupper() else name


def _optimizer(case, keras):
    name, arguments, schedule = case["optimizer"]
    schedules = keras.optimizers.schedules
    rate = {
        None: lambda: 0.01,
        "ExponentialDecay": lambda: schedules.ExponentialDecay(0.01, 2, 0.8, staircase=True),
        "CosineDecay": lambda: schedules.CosineDecay(0.001, 8, warmup_target=0.01, warmup_steps=2),
        "PiecewiseConstantDecay": lambda: schedules.PiecewiseConstantDecay([2, 4], [0.01, 0.005, 0.001]),
        "InverseTimeDecay": lambda: schedules.InverseTimeDecay(0.01, 2, 0.5),
        "PolynomialDecay": lambda: schedules.PolynomialDecay(0.01, 5, 0.001),
    }[schedule]()
    return getattr(keras.optimizers, name)(rate, **arguments)


def _sequential(case, keras):
    (part,), (output,) = case["inputs"], case["outputs"]
    return keras.Sequential([_input(0, part, keras), *_layers(part, keras), _head(output, keras, "y0")])


def _functional(case, keras):
    inputs = [_input(i, part, keras) for i, part in enumerate(case["inputs"])]
    vectors = []
    for tensor, part in zip(inputs, case["inputs"], strict=True):
        for layer in _layers(part, keras):
            tensor = layer(tensor)
        vectors.append(tensor)
    joined = keras.layers.Concatenate()(vectors) if len(vectors) > 1 else vectors[0]
    if case["nested"]:
        inner = keras.Input(joined.shape[1:])
        joined = keras.Model(inner, keras.layers.Dense(4, activation="relu")(inner), name="nested")(joined)
    if case["shared"]:
        shared = keras.layers.Dense(int(joined.shape[-1]), activation="tanh", name="shared")
        joined = shared(shared(joined))
    if case["add_loss"]:
        joined = _activity_layer(keras)()(joined)
    outputs = [_head(output, keras, f"y{i}")(joined) for i, output in enumerate(case["outputs"])]
    names = [f"y{i}" for i in range(len(outputs))]
    named = dict(zip(names, outputs, strict=True))
    return keras.Model({f"x{i}": x for i, x in enumerate(inputs)}, named if len(outputs) > 1 else outputs[0])


@functools.cache
def _activity_layer(keras):
    import tensorflow as tf

    @keras.utils.register_keras_serializable("fuzz")
    class Activity(keras.layers.Layer):
        """Adds a loss of its inputs."""

        def call(self, inputs):
            self.add_loss(0.1 * tf.reduce_mean(tf.square(tf.cast(inputs, "float32"))))
            return inputs

    return Activity


@functools.cache
def _subclassed(keras):
    @keras.utils.register_keras_serializable("fuzz")
    class Model(keras.Model):
        """Calls the layers of a case in turn."""

        def __init__(self, case, **arguments):
            super().__init__(**arguments)
            self.case = case
            body = _layers(case["inputs"][0], keras)
            if case["add_loss"]:
                body.append(_activity_layer(keras)())
            self.count = len(body)
            for number, layer in enumerate(body):
                setattr(self, f"layer{number}", layer)
            self.head = _head(case["outputs"][0], keras, "head")

        def call(self, inputs, training=None):
            tensor = inputs["x0"]
            for number in range(self.count):
                layer = getattr(self, f"layer{number}")
                takes = isinstance(layer, (keras.layers.BatchNormalization, keras.layers.Dropout))
                tensor = layer(tensor, training=training) if takes else layer(tensor)
            return self.head(tensor)

        def get_config(self):
            return {**super().get_config(), "case": dict(self.case)}

    @keras.utils.register_keras_serializable("fuzz")
    class OwnStep(Model):
        """Reports twice the loss as its loss, to show that its own step runs."""

        def train_step(self, data):
            return super().train_step(data)

        def test_step(self, data):
            logs = super().test_step(data)
            return {**logs, "twice": 2 * logs["loss"]}

    return Model, OwnStep


def _subclass(case, keras):
    plain, own_step = _subclassed(keras)
    return (own_step if case["own_step"] else plain)({name: case[name] for name in ("inputs", "outputs", "add_loss")})
