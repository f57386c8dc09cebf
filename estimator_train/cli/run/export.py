"""Exports behind `estimator_train export`: the trained model as files for elsewhere."""

from __future__ import annotations

import functools
import os
import shutil
import tempfile

import click
import numpy as np
import tensorflow as tf

from estimator_train import conversion
from estimator_train.checkpoints import leftovers, object_based
from estimator_train.cli.run.build import build_estimator, build_input_fns, build_model, run_errors
from estimator_train.cli.settings import one_line_errors
from estimator_train.distribution.replica_input import call_input_fn
from estimator_train.export import TensorServingInputReceiver, build_raw_serving_input_receiver_fn
from estimator_train.host import files
from estimator_train.host.dataset_iterators import iterate
from estimator_train.input_fns.decoding import decode_image
from estimator_train.keras.generations import adapter_of
from estimator_train.run_config import RunConfig

v1 = tf.compat.v1


def export(settings, model_dir, checkpoint, file_format, targets):
    """Writes the model with the state of the checkpoint, whole or not at all; returns the path.

    `targets`: of it, one for each name that a Keras gives such files, all in one folder.
    """
    leftovers.remove_abandoned(os.path.dirname(targets[0]))
    unfinished = files.unfinished(targets[0])
    os.mkdir(unfinished)
    try:
        written = _export_into(unfinished, settings, model_dir, checkpoint, file_format)
        target = next((target for target in targets if target.name == os.path.basename(written)), targets[0])
        os.replace(written, target)
    finally:
        shutil.rmtree(unfinished)
    return target


def convert(settings, data, model_dir, checkpoint, file_format, target):
    """Writes the model as TFLite or ONNX if it predicts what the Estimator does; says how far they differ.

    `data`: of the settings, None for an input_fn.

    Raises:
      click.ClickException: the model cannot be converted, or predicts something else.
    """
    converter, run, tolerance = CONVERTERS[file_format]
    estimator = build_estimator(settings, RunConfig(model_dir=model_dir))
    receiver_fn = _decoded_image_receiver_fn(settings.image_size) if settings.dataset else _receiver_fn(settings)
    with tempfile.TemporaryDirectory(prefix="estimator_train-export-") as folder:
        with run_errors():
            saved_model = estimator.export_saved_model(folder, receiver_fn, checkpoint_path=checkpoint)
        try:
            content = converter(saved_model)
        except Exception as error:  # the converters raise many kinds; TensorFlow's own is private
            message = f"{settings.model} cannot be converted to {file_format}: {str(error).strip().splitlines()[0]}"
            raise click.ClickException(message) from error
    features, expected = _predicted(estimator, build_input_fns(settings, data)[1], checkpoint)
    outputs = run(content, _by_input(features, receiver_fn))
    difference = max(float(np.max(np.abs(outputs[name] - value))) for name, value in expected.items())
    largest = max(1.0, *(float(np.max(np.abs(value))) for value in expected.values()))
    if not difference <= tolerance * largest:  # NaN is refused, too
        raise click.ClickException(
            f"the {file_format} model is not written: on a batch of the run's data it differs from predict by "
            f"{difference:.2g}, more than {tolerance * largest:.2g}"
        )
    files.write_whole(target, content)
    return f"on {len(next(iter(expected.values())))} examples it differs from predict by {difference:.2g} at most"


# For each format: its converter, its runtime, and how far it may differ from predict, relative to the largest output.
CONVERTERS = {
    "tflite": (conversion.to_tflite, conversion.run_tflite, 1e-4),
    "tflite_dynamic_range": (functools.partial(conversion.to_tflite, dynamic_range=True), conversion.run_tflite, 0.1),
    "onnx": (conversion.to_onnx, conversion.run_onnx, 1e-4),
}


def _predicted(estimator, input_fn, checkpoint):
    """The features of a batch of the input_fn's, and what the Estimator predicts for them by output."""
    batch = next(iterate(call_input_fn(input_fn)))
    features = batch[0] if isinstance(batch, tuple) else batch  # there may be labels and weights behind them
    with run_errors():
        predictions = estimator.predict(
            lambda: tf.data.Dataset.from_tensors(features), checkpoint_path=checkpoint, yield_single_examples=False
        )
        return features, next(predictions)


def _by_input(features, receiver_fn):
    """The features as numpy arrays by the names of the model's inputs."""
    with tf.Graph().as_default():
        names = list(receiver_fn().receiver_tensors)
    if isinstance(features, dict):
        return {name: features[name].numpy() for name in names}
    return {name: value.numpy() for name, value in zip(names, tf.nest.flatten(features), strict=True)}


def _export_into(folder, settings, model_dir, checkpoint, file_format):
    """Writes the model into `folder`, and returns the path there."""
    if file_format == "saved_model":
        estimator = build_estimator(settings, RunConfig(model_dir=model_dir))
        receiver_fn = _image_receiver_fn(settings.image_size) if settings.dataset else _receiver_fn(settings)
        with run_errors():
            return os.fsdecode(estimator.export_saved_model(folder, receiver_fn, checkpoint_path=checkpoint))
    model = trained_model(settings, checkpoint)
    path = os.path.join(folder, adapter_of(model).WEIGHTS_FILE if file_format == "weights" else "model.keras")
    try:
        with one_line_errors():  # Keras cannot save a model without variables, for one
            model.save_weights(path) if file_format == "weights" else model.save(path)
    except NotImplementedError as error:
        message = f"{settings.model}: its model has no get_config(); add it, or export saved_model or weights"
        raise click.ClickException(message) from error
    return path


def _image_receiver_fn(image_size):
    """Takes encoded images, which are decoded as in training, or, at `images:serving_default`, decoded ones."""

    def receiver_fn():
        image_bytes = v1.placeholder(tf.string, [None], name="image_bytes")
        spec = tf.TensorSpec((*image_size, 3), tf.float32)
        decoded = tf.map_fn(lambda encoded: decode_image(encoded, image_size), image_bytes, fn_output_signature=spec)
        images = v1.placeholder_with_default(decoded, [None, *image_size, 3], name="images")
        return TensorServingInputReceiver(images, {"image_bytes": image_bytes}, {"images": {"images": images}})

    return receiver_fn


def _decoded_image_receiver_fn(image_size):
    """Takes images as they are after decoding."""

    def receiver_fn():
        images = v1.placeholder(tf.float32, [None, *image_size, 3], name="images")
        return TensorServingInputReceiver(images, {"images": images})

    return receiver_fn


def _receiver_fn(settings):
    """Takes the inputs of the Keras model by their names."""
    model = build_model(settings)
    inputs = adapter_of(model).inputs(model)
    if not inputs:
        raise click.ClickException(f"the model {model.name} does not tell its inputs; give it Input layers")
    return build_raw_serving_input_receiver_fn(inputs)


def trained_model(settings, checkpoint):
    """The compiled Keras model with all that the checkpoint holds, the optimizer's state included."""
    model = build_model(settings)
    if not model.built:
        raise click.ClickException(
            f"{settings.model}: its model has no variables before it is first called; call it there, or export "
            "saved_model"
        )
    adapter = adapter_of(model)
    adapter.build_slots(model)
    parts = adapter.saved_parts(model)
    root = tf.train.Checkpoint(root=parts.root, estimator_global_step=tf.Variable(0, dtype=tf.int64))
    with run_errors():
        object_based.restore(root, parts, checkpoint, trains=True)
    if hasattr(model.optimizer, "build"):
        model.optimizer.build(model.trainable_variables)  # tf_keras' variables take their values as they are made
        if getattr(model.optimizer, "use_ema", False):
            model.optimizer.finalize_variable_values(model.trainable_variables)  # the averages, as in evaluation
    adapter.finalize_state(model)
    return model
