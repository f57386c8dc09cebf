"""Exports behind `estimator_train export`: the trained model as files for elsewhere."""

from __future__ import annotations

import os
import shutil

import click
import tensorflow as tf

from estimator_train.checkpoints import leftovers, object_based
from estimator_train.cli.run.build import build_estimator, build_model, run_errors
from estimator_train.cli.settings import one_line_errors
from estimator_train.export import TensorServingInputReceiver, build_raw_serving_input_receiver_fn
from estimator_train.host import files
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


def _export_into(folder, settings, model_dir, checkpoint, file_format):
    """Writes the model into `folder`, and returns the path there."""
    if file_format == "saved_model":
        estimator = build_estimator(settings, RunConfig(model_dir=model_dir))
        receiver_fn = _image_receiver_fn(settings.image_size) if settings.dataset else _receiver_fn(settings)
        with run_errors():
            return os.fsdecode(estimator.export_saved_model(folder, receiver_fn, checkpoint_path=checkpoint))
    model = _trained_model(settings, checkpoint)
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


def _receiver_fn(settings):
    """Takes the inputs of the Keras model by their names."""
    model = build_model(settings)
    inputs = adapter_of(model).inputs(model)
    if not inputs:
        raise click.ClickException(f"the model {model.name} does not tell its inputs; give it Input layers")
    return build_raw_serving_input_receiver_fn(inputs)


def _trained_model(settings, checkpoint):
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
