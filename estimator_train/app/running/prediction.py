"""The work of `estimator_train predict`: predicts class or label probabilities, or numbers, for images."""

import os

import numpy as np
import tensorflow as tf
import tqdm

from estimator_train.app.errors import SettingError
from estimator_train.app.metrics import tasks
from estimator_train.app.running import label_thresholds
from estimator_train.app.running.build import build_estimator
from estimator_train.app.running.errors import run_errors
from estimator_train.input_fns.images.decoding import decode_files
from estimator_train.input_fns.images.faults import DELETE, fault_of_file


def entries(settings, model_dir, checkpoint, paths, top=None):
    """Returns what is predicted for images, as JSON has it, and a line about each file without a prediction."""
    task = tasks.named(settings.task, label_thresholds.kept(settings, model_dir, checkpoint))
    predictions, undecodable = predict(settings, model_dir, checkpoint, paths)
    return [_entry(task, settings.class_names, top, *each) for each in predictions.items()], undecodable


def predict(settings, model_dir, checkpoint, paths):
    """Returns {path: array of one float per class or label, or a single one}, and a line for each other image."""
    estimator = build_estimator(settings, model_dir)
    decoded, predictions = [], []
    input_fn = _input_fn(paths, settings, decoded)
    with run_errors(), tqdm.tqdm(total=len(paths), unit="image", leave=False, disable=None) as progress:
        for prediction in estimator.predict(input_fn, checkpoint_path=checkpoint):
            predictions.append(_outputs(prediction, settings))
            progress.update()
    by_path = dict(zip(decoded, predictions, strict=True))
    finite = {path: values for path, values in by_path.items() if np.isfinite(values).all()}
    faults = [f"{path} {_said(fault_of_file(path))}" for path in paths if path not in by_path]
    # NaN would be the first class.
    faults += [f"{path}: the model gives numbers that are not finite" for path in by_path if path not in finite]
    return finite, faults


def _said(fault):
    return fault.what if fault.remedy == DELETE else str(fault)


def _input_fn(paths, settings, decoded):
    """Returns an input_fn of the images that can be decoded, whose paths it adds to the list `decoded`."""

    def load(paths):
        images, places = decode_files(paths, settings.image_size, **settings.decoding)
        return images, tf.gather(paths, places)

    def note(paths):
        decoded.extend(map(os.fsdecode, paths))
        return len(paths) > 0

    def input_fn():
        batches = tf.data.Dataset.from_tensor_slices(list(map(os.fsencode, paths))).batch(settings.batch_size)
        batches = batches.map(load, num_parallel_calls=tf.data.AUTOTUNE)
        batches = batches.filter(lambda _, paths: tf.ensure_shape(tf.numpy_function(note, [paths], tf.bool), ()))
        return batches.map(lambda images, _: images).prefetch(tf.data.AUTOTUNE)

    return input_fn


def _outputs(prediction, settings):
    """Returns the values of the single output: one per class or label, or one number."""
    number = len(settings.class_names)
    values, *others = prediction.values()
    if others or values.shape != (number or 1,):
        shapes, needed = ", ".join(f"{name!r} {value.shape}" for name, value in prediction.items()), "one number"
        if number:
            needed = f"one probability for each of the {number} classes or labels"
        raise SettingError("the model gives {0} for an image, and predict needs {1}", shapes, needed)
    return values


def _entry(task, names, top, path, values):
    """Returns an image's prediction for JSON, with its path as it is; the `top` probabilities, if given, in order."""
    answer = task.prediction(names, values)
    if task.KIND == "labels":
        answer = [label for label in answer.split("|") if label]
    entry = {"file": path, task.KIND: answer}
    if not names:
        return entry
    chosen = range(len(names))
    if top:
        chosen = (-values).argsort(kind="stable")[:top]
    return entry | {"probabilities": {names[index]: float(values[index]) for index in chosen}}
