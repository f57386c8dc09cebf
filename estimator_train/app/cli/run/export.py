"""The work of `estimator_train export`: writes the trained model as a SavedModel, or for Keras, TFLite or ONNX."""

from __future__ import annotations

import functools
import os
import shutil
import tempfile

import click
import numpy as np
import tensorflow as tf

from estimator_train._engine.checkpoints import leftovers, object_based
from estimator_train._engine.distribution.replica_input import call_input_fn
from estimator_train._engine.host import files
from estimator_train._engine.host.dataset_iterators import iterate
from estimator_train._engine.keras.adapter_choice import adapter_of
from estimator_train.app import conversion
from estimator_train.app.cli.errors import one_line_errors
from estimator_train.app.cli.run.build import build_estimator, build_eval_input_fn, build_model, run_errors
from estimator_train.export import TensorServingInputReceiver, build_raw_serving_input_receiver_fn
from estimator_train.input_fns.images.decoding import decode_image
from estimator_train.run_config import RunConfig

v1 = tf.compat.v1


def export(settings, model_dir, checkpoint, file_format, targets):
    """Writes the model with the checkpoint's values atomically, and returns the path.

    `targets` are the possible paths in one directory; the versions of Keras name such files differently.
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
    """Writes the model as TFLite or ONNX if it predicts the same as the Estimator, and says how far they differ.

    `data` is the dataset of the settings, or None for an input_fn.

    Raises:
      click.ClickException: the model cannot be converted, or its predictions differ.
    """
    converter, run, tolerance = CONVERTERS[file_format]
    estimator = build_estimator(settings, RunConfig(model_dir=model_dir))
    receiver_fn = _decoded_image_receiver_fn(settings.image_size) if settings.dataset else _receiver_fn(settings)
    with tempfile.TemporaryDirectory(prefix="estimator_train-export-") as folder:
        with run_errors():
            saved_model = estimator.export_saved_model(folder, receiver_fn, checkpoint_path=checkpoint)
        try:
            content = converter(saved_model)
        except Exception as error:  # converters raise errors of many classes; TensorFlow's own is private
            message = f"{settings.model} cannot be converted to {file_format}: {str(error).strip().splitlines()[0]}"
            raise click.ClickException(message) from error
    features, expected = _predicted(estimator, build_eval_input_fn(settings, data), checkpoint)
    outputs = run(content, _by_input(features, receiver_fn))
    difference = max(float(np.max(np.abs(outputs[name] - value))) for name, value in expected.items())
    largest = max(1.0, *(float(np.max(np.abs(value))) for value in expected.values()))
    if not difference <= tolerance * largest:  # also true for NaN
        raise click.ClickException(
            f"the {file_format} model is not written: on a batch of the run's data it differs from predict by "
            f"{difference:.2g}, more than {tolerance * largest:.2g}"
        )
    files.write_whole(target, content)
    return f"on {len(next(iter(expected.values())))} examples it differs from predict by {difference:.2g} at most"


# Per format: the converter, the runtime, and the tolerated difference from predict, relative to the largest output.
CONVERTERS = {
    "tflite": (conversion.to_tflite, conversion.run_tflite, 1e-4),
    "tflite_dynamic_range": (functools.partial(conversion.to_tflite, dynamic_range=True), conversion.run_tflite, 0.1),
    "onnx": (conversion.to_onnx, conversion.run_onnx, 1e-4),
}


def _predicted(estimator, input_fn, checkpoint):
    """Returns the features of a batch from `input_fn`, and the Estimator's predictions for it by output name."""
    batch = next(iterate(call_input_fn(input_fn)))
    features = batch[0] if isinstance(batch, tuple) else batch  # labels and weights may follow
    with run_errors():
        predictions = estimator.predict(
            lambda: tf.data.Dataset.from_tensors(features), checkpoint_path=checkpoint, yield_single_examples=False
        )
        return features, next(predictions)


def _by_input(features, receiver_fn):
    """Returns the features as NumPy arrays by the names of the model's inputs."""
    with tf.Graph().as_default():
        names = list(receiver_fn().receiver_tensors)
    if isinstance(features, dict):
        return {name: features[name].numpy() for name in names}
    return {name: value.numpy() for name, value in zip(names, tf.nest.flatten(features), strict=True)}


def _export_into(folder, settings, model_dir, checkpoint, file_format):
    """Writes the model into `folder` and returns its path."""
    if file_format == "saved_model":
        estimator = build_estimator(settings, RunConfig(model_dir=model_dir))
        receiver_fn = _image_receiver_fn(settings) if settings.dataset else _receiver_fn(settings)
        with run_errors():
            return os.fsdecode(estimator.export_saved_model(folder, receiver_fn, checkpoint_path=checkpoint))
    model = trained_model(settings, checkpoint)
    path = os.path.join(folder, adapter_of(model).weights_file if file_format == "weights" else "model.keras")
    try:
        with one_line_errors():  # for example, Keras cannot save a model without variables
            model.save_weights(path) if file_format == "weights" else model.save(path)
    except NotImplementedError as error:
        message = f"{settings.model}: its model has no get_config(); add it, or export saved_model or weights"
        raise click.ClickException(message) from error
    return path


def _image_receiver_fn(settings):
    """Returns a receiver of encoded images, decoded as in training, or of decoded ones at `images:serving_default`."""

    image_size = settings.image_size

    def decode(encoded):
        return decode_image(encoded, image_size, **settings.decoding, serving=True)

    def receiver_fn():
        image_bytes = v1.placeholder(tf.string, [None], name="image_bytes")
        spec = tf.TensorSpec((*image_size, 3), tf.float32)
        decoded = tf.map_fn(decode, image_bytes, fn_output_signature=spec)
        images = v1.placeholder_with_default(decoded, [None, *image_size, 3], name="images")
        return TensorServingInputReceiver(images, {"image_bytes": image_bytes}, {"images": {"images": images}})

    return receiver_fn


def _decoded_image_receiver_fn(image_size):
    """Returns a receiver of decoded images."""

    def receiver_fn():
        images = v1.placeholder(tf.float32, [None, *image_size, 3], name="images")
        return TensorServingInputReceiver(images, {"images": images})

    return receiver_fn


def _receiver_fn(settings):
    """Returns a receiver of the Keras model's inputs, by name."""
    model = build_model(settings)
    inputs = adapter_of(model).inputs(model)
    if not inputs:
        raise click.ClickException(f"the model {model.name} does not define its inputs; give it Input layers")
    return build_raw_serving_input_receiver_fn(inputs)


def trained_model(settings, checkpoint):
    """Returns the compiled Keras model restored from the checkpoint, including the optimizer's state."""
    model = build_model(settings)
    if not model.built:
        raise click.ClickException(
            f"{settings.model}: its model has no variables until it is first called; call it there, or export "
            "saved_model"
        )
    adapter = adapter_of(model)
    if hasattr(model.optimizer, "build"):
        model.optimizer.build(model.trainable_variables)
    parts = adapter.saved_parts(model)
    attached = {"estimator_global_step": tf.Variable(0, dtype=tf.int64)}
    with run_errors():
        object_based.restore(parts, attached, checkpoint, trains=True)
        if object_based.keeps_averages(model.optimizer):
            object_based.take_averages(parts, checkpoint)  # as in evaluation
    adapter.finalize_state(model)
    return model
