"""The work of `estimator_train export`: writes the trained model as a SavedModel, or for Keras, TFLite or ONNX."""

import contextlib
import dataclasses
import functools
import json
import os
import shutil
import tempfile
from pathlib import Path

import numpy as np
import tensorflow as tf

import estimator_train as et
from estimator_train._engine.application import inputs_of, keras_of, restore
from estimator_train._engine.host import files, leftovers
from estimator_train._engine.host.dataset_iterators import iterate
from estimator_train._engine.host.logs import logging_only
from estimator_train.app import conversion
from estimator_train.app.errors import SettingError, one_line_errors, spelled
from estimator_train.app.metrics import tasks
from estimator_train.app.models import Optimization
from estimator_train.app.models.compilation import recompile
from estimator_train.app.running.build import build_estimator, build_eval_input_fn, build_model, build_train_input_fn
from estimator_train.app.running.errors import run_errors
from estimator_train.app.running.exporting import CONVERTED, WEIGHTS_FILES, Exported
from estimator_train.app.running.messages import warn
from estimator_train.app.running.startup import without_notes
from estimator_train.app.runs.spec import Training
from estimator_train.input_fns.images.decoding import decode_image

v1 = tf.compat.v1

_UNCHANGED = Optimization()
QUANTIZED = {f"tflite_{name}": name for name in conversion.QUANTIZATIONS}  # by their --format
CALIBRATED = 200  # training examples; TensorFlow's guide advises 100 to 500
EVALUATED = 500  # evaluation images at most, by which a quantized model is judged
_TOLERANCES = dict.fromkeys(("tflite", "onnx"), 1e-4)  # relative to the largest output; 0.1 if quantized
MOST_LOST = 0.02  # of accuracy, F1 or R², before a line warns


@contextlib.contextmanager
def without_lines_of_libraries():
    """Hides what TensorFlow and its converters print about their own work in the block."""
    with logging_only(lambda record: " is deprecated " not in record.getMessage()), without_notes():
        yield


def export(spec, data, model_dir, checkpoint, file_format, out, targets):
    """Writes the model of a checkpoint, and returns what has been `Exported`."""
    settings, note = spec.settings, None
    with one_line_errors(), without_lines_of_libraries():
        if file_format == "saved_model":
            return Exported(checkpoint, export_saved_model(settings, model_dir, checkpoint, out), note)
        os.makedirs(out, exist_ok=True)
        target = targets[0]
        if file_format in CONVERTED:
            note = convert(settings, data, model_dir, checkpoint, file_format, target)
        else:
            target = export_keras(settings, spec.training, checkpoint, file_format, targets)
    return Exported(checkpoint, os.fspath(target), note)


def export_saved_model(settings, model_dir, checkpoint, out):
    """Writes a SavedModel, with the files of `_about`, to a new version directory in `out`, and returns its path."""
    leftovers.remove_abandoned(out)
    estimator = build_estimator(settings, model_dir)
    receiver_fn = _receiver_fn(settings, encoded=True)
    with run_errors(), tempfile.TemporaryDirectory(prefix="estimator_train-export-") as folder:
        extra = {}
        for name, text in _about(settings).items():
            extra[name] = Path(folder, name)
            extra[name].write_text(text, encoding="utf-8")
        return os.fsdecode(estimator.export_saved_model(out, receiver_fn, extra, checkpoint_path=checkpoint))


def _about(settings):
    """Returns {file name: text} of what a client of an exported model has to know; none for an input_fn."""
    labels = "".join(f"{name}\n" for name in settings.class_names)
    facts = _facts(settings)
    texts = {"labels.txt": labels, "metadata.json": facts and f"{json.dumps(facts, indent=2)}\n"}
    return {name: text for name, text in texts.items() if text}


def _facts(settings):
    if not settings.dataset:
        return {}
    facts = {"task": settings.task, "class_names": settings.class_names, "image_size": settings.image_size}
    return facts | settings.decoding


def export_keras(settings, training, checkpoint, file_format, targets):
    """Writes the Keras model or its weights with the checkpoint's values atomically, and returns the path.

    `targets` are the possible paths in one directory; the versions of Keras name such files differently. The optimizer
    has what `training` changes in every step, so that Keras can go on with it.
    """
    leftovers.remove_abandoned(os.path.dirname(targets[0]))
    unfinished = files.unfinished(targets[0])
    os.mkdir(unfinished)
    try:
        optimization = Optimization(weight_decay=training.weight_decay, clip_norm=training.clip_norm)
        written = _save_keras(unfinished, trained_model(settings, checkpoint, optimization), settings, file_format)
        target = targets[0].with_name(os.path.basename(written))
        os.replace(written, target)
    finally:
        shutil.rmtree(unfinished)
    return target


def convert(settings, data, model_dir, checkpoint, file_format, target):
    """Writes the model as TFLite or ONNX, and returns how its predictions compare with the Estimator's.

    `data` is the dataset of the settings, or None for an input_fn. A quantized model that predicts worse is written
    nevertheless, and a line says so.
    """
    estimator = build_estimator(settings, model_dir)
    receiver_fn = _receiver_fn(settings)
    names = _input_names(receiver_fn)
    with tempfile.TemporaryDirectory(prefix="estimator_train-export-") as folder:
        with run_errors():
            saved_model = estimator.export_saved_model(folder, receiver_fn, checkpoint_path=checkpoint)
        content = _converted(saved_model, file_format, settings, _calibration(settings, data, names))
    run_converted = conversion.run_tflite
    if file_format == "onnx":
        run_converted = conversion.run_onnx

    def run(features):
        try:
            return run_converted(content, _by_input(features, names))
        except RuntimeError as error:  # for example, activations of a tiny run have no range to quantize
            reason = str(error).strip().splitlines()[0]
            message = f"the {file_format} model is not written, because it cannot be run: {reason}"
            raise SettingError("{0}", message) from error

    compared = _compared(settings, data, file_format, functools.partial(_predicted, estimator, checkpoint, run))
    if file_format != "onnx":
        for name, text in _about(settings).items():
            files.write_whole(target.with_suffix(f".{name}"), text)
    files.write_whole(target, content)
    return compared


def _converted(saved_model, file_format, settings, calibration):
    """Returns the content of the file in that format; `calibration` yields inputs, for a format that asks for them."""
    try:
        if file_format == "onnx":
            facts = {name: json.dumps(value) for name, value in _facts(settings).items()}
            return conversion.to_onnx(saved_model, metadata=facts)
        if file_format == "tflite_int8":
            return conversion.to_tflite(saved_model, quantization="int8", calibration=calibration)
        return conversion.to_tflite(saved_model, quantization=QUANTIZED.get(file_format))
    except SettingError:  # about the training data
        raise
    except Exception as error:  # converters raise errors of many classes; TensorFlow's own is private
        message = f"{settings.model} cannot be converted to {file_format}: {str(error).strip().splitlines()[0]}"
        raise SettingError("{0}", message) from error


def _calibration(settings, data, names):
    """Yields the inputs of a few training examples, one by one, in the order in which training reads them."""
    number = CALIBRATED
    if data:
        number = min(number, data.train_examples)
    settings = dataclasses.replace(settings, seed=settings.seed or 0)
    with run_errors():
        for features, *_ in _batches(build_train_input_fn(settings, data, Training())):
            batch = _by_input(features, names)
            for row in range(min(number, len(batch[names[0]]))):
                yield {name: value[row : row + 1] for name, value in batch.items()}
            number -= len(batch[names[0]])
            if number <= 0:
                return


def _few(data):
    """Returns the dataset with at most `EVALUATED` evaluation images, each class with its share, if it can."""
    if data.eval_examples > EVALUATED:
        with contextlib.suppress(ValueError):
            return data.limited(EVALUATED)
    return data


def _compared(settings, data, file_format, predicted):
    """Says how the outputs of a converted model, which `predicted` returns as `_predicted` does, compare."""
    if not (data and file_format in QUANTIZED):
        _, *outputs = predicted(build_eval_input_fn(settings, data), 1)
        return _compared_by_value(file_format, *outputs)
    labels, *outputs = predicted(build_eval_input_fn(settings, _few(data)), EVALUATED)
    return _compared_by_metric(settings, file_format, labels, *outputs) or _compared_by_value(file_format, *outputs)


def _predicted(estimator, checkpoint, run, input_fn, limit):
    """Returns (batches of labels, the Estimator's outputs by name, those of `run`) for about `limit` examples."""
    batches = []
    with run_errors(), estimator.predictor(checkpoint_path=checkpoint) as predict:
        for features, *labels in _batches(input_fn):
            batches.append((labels, predict(features), run(features)))
            limit -= len(next(iter(batches[-1][1].values())))
            if limit <= 0:
                break
    labels, *outputs = zip(*batches, strict=True)
    return labels, *({name: np.concatenate([batch[name] for batch in each]) for name in each[0]} for each in outputs)


def _compared_by_metric(settings, file_format, labels, own, converted):
    """Says how a quantized model compares with the model itself by the metric that ranks checkpoints, if any."""
    labels = np.concatenate([batch[0] for batch in labels])
    try:
        (metric, before), (_, after) = (_main_metric(settings, labels, outputs) for outputs in (own, converted))
        lost = round(before - after, 4)  # as it is said
    except (TypeError, ValueError):  # undefined, for example without values that are finite
        return None
    if lost > MOST_LOST:
        _warn(f"the {file_format} model loses {lost:g} of {metric}, more than {MOST_LOST}")
    return f"on {len(labels)} evaluation images its {metric} is {after:.4f}, and the model's own {before:.4f}"


def _main_metric(settings, labels, outputs):
    (outputs,) = outputs.values()
    task = tasks.named(settings.task)
    checked = task.checked(settings.class_names, labels, outputs)
    return next(iter(task.result(settings.class_names, *checked).summary().items()))


def _compared_by_value(file_format, own, converted):
    """Says how far a converted model's outputs differ from the model's own; they must not, unless it is quantized."""
    tolerance = _TOLERANCES.get(file_format, 0.1)
    difference = max(float(np.max(np.abs(converted[name] - value))) for name, value in own.items())
    tolerated = tolerance * max(1.0, *(float(np.max(np.abs(value))) for value in own.values()))
    text = f"it differs from predict by {difference:.2g}"
    if not difference <= tolerated:  # also true for NaN
        if file_format not in QUANTIZED:
            text = f"the {file_format} model is not written: on a batch of the run's data {text}"
            raise SettingError("{0}, more than {1:.2g}", text, tolerated)
        _warn(f"on a batch of the run's data the {file_format} model differs from predict by {difference:.2g}")
    return f"on {len(next(iter(own.values())))} examples {text} at most"


def _batches(input_fn):
    """Yields the batches of an input_fn as tuples: the features, and labels and weights if it has any."""
    for batch in iterate(input_fn()):
        if isinstance(batch, tuple):
            yield batch
        else:
            yield (batch,)


def _input_names(receiver_fn):
    with tf.Graph().as_default():
        return list(receiver_fn().receiver_tensors)


def _by_input(features, names):
    if isinstance(features, dict):
        return {name: features[name].numpy() for name in names}
    return {name: value.numpy() for name, value in zip(names, tf.nest.flatten(features), strict=True)}


def _warn(text):
    warn(spelled("{0}; {format=tflite} predicts as the model does", text))


def _save_keras(folder, model, settings, file_format):
    name, save = "model.keras", model.save
    if file_format == "weights":
        name, save = WEIGHTS_FILES[keras_of(model).__name__], model.save_weights
    path = os.path.join(folder, name)
    try:
        with one_line_errors():  # for example, Keras cannot save a model without variables
            save(path)
    except NotImplementedError as error:
        message = f"{settings.model}: its model has no get_config(); add it, or export saved_model or weights"
        raise SettingError("{0}", message) from error
    return path


def _receiver_fn(settings, *, encoded=False):
    """Returns the receiver of decoded images, or without a dataset, of the model's inputs.

    One of `encoded` images decodes them as in training, and takes decoded ones at `images:serving_default`.
    """
    if not settings.dataset:
        return _raw_receiver_fn(build_model(settings))
    shape = (*settings.image_size, 3)

    def decode(image):
        return decode_image(image, settings.image_size, **settings.decoding, serving=True)

    def receiver_fn():
        if not encoded:
            images = v1.placeholder(tf.float32, [None, *shape], name="images")
            return et.export.TensorServingInputReceiver(images, {"images": images})
        image_bytes = v1.placeholder(tf.string, [None], name="image_bytes")
        decoded = tf.map_fn(decode, image_bytes, fn_output_signature=tf.TensorSpec(shape, tf.float32))
        images = v1.placeholder_with_default(decoded, [None, *shape], name="images")
        return et.export.TensorServingInputReceiver(
            images, {"image_bytes": image_bytes}, {"images": {"images": images}}
        )

    return receiver_fn


def _raw_receiver_fn(model):
    inputs = inputs_of(model)
    if not inputs:
        raise SettingError("the model {0} does not define its inputs; give it Input layers", model.name)
    return et.export.build_raw_serving_input_receiver_fn(inputs)


def trained_model(settings, checkpoint, optimization=_UNCHANGED):
    """Returns the compiled Keras model restored from the checkpoint, including the optimizer's state."""
    model = build_model(settings)
    with one_line_errors():
        recompile(model, optimization)
    if not model.built:
        raise SettingError(
            "{0}: its model has no variables until it is first called; call it there, or export saved_model",
            settings.model,
        )
    with run_errors():
        restore(model, checkpoint)
    return model
