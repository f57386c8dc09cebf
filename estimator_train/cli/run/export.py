"""Exports behind `estimator_train export`: the trained model as files for elsewhere."""

from __future__ import annotations

import os
import shutil

import click
import tensorflow as tf
import tf_keras as keras

from estimator_train.checkpoints import leftovers, object_based
from estimator_train.cli.run.build import build_estimator, build_model, run_errors
from estimator_train.cli.settings import one_line_errors
from estimator_train.export import TensorServingInputReceiver, build_raw_serving_input_receiver_fn
from estimator_train.host import files
from estimator_train.input_fns.decoding import decode_image
from estimator_train.keras.cloning import finalize_state
from estimator_train.run_config import RunConfig

v1 = tf.compat.v1


def export(settings, model_dir, checkpoint, file_format, target):
    """Writes the model with the state of the checkpoint to the path `target`, whole or not at all."""
    leftovers.remove_abandoned(os.path.dirname(target))
    unfinished = files.unfinished(target)
    os.mkdir(unfinished)
    try:
        os.replace(_export_into(unfinished, settings, model_dir, checkpoint, file_format), target)
    finally:
        shutil.rmtree(unfinished)


def _export_into(folder, settings, model_dir, checkpoint, file_format):
    """Writes the model into `folder`, and returns the path there."""
    if file_format == "saved_model":
        estimator = build_estimator(settings, RunConfig(model_dir=model_dir), weights="none")
        receiver_fn = _image_receiver_fn(settings.image_size) if settings.dataset else _receiver_fn(settings)
        with run_errors():
            return os.fsdecode(estimator.export_saved_model(folder, receiver_fn, checkpoint_path=checkpoint))
    model = _trained_model(settings, checkpoint)
    path = os.path.join(folder, "weights.h5" if file_format == "weights" else "model.keras")
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
    model = build_model(settings, weights="none")
    if not model.inputs:
        raise click.ClickException(f"the model {model.name} does not tell its inputs; give it Input layers")
    return build_raw_serving_input_receiver_fn(dict(zip(model.input_names, model.inputs, strict=True)))


def _trained_model(settings, checkpoint):
    """The compiled Keras model with all that the checkpoint holds, the optimizer's state included."""
    model = build_model(settings, weights="none")
    root = tf.train.Checkpoint(root=model, estimator_global_step=tf.Variable(0, dtype=tf.int64))
    with run_errors():
        object_based.restore(root, model, checkpoint, trains=True)
    if model.built and isinstance(model.optimizer, keras.optimizers.Optimizer):
        model.optimizer.build(model.trainable_variables)  # the variables take their values as they are made
        if getattr(model.optimizer, "use_ema", False):
            model.optimizer.finalize_variable_values(model.trainable_variables)  # the averages, as in evaluation
    finalize_state(model)
    return model
