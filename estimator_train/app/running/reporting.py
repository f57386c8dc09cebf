"""Records a run's evaluations: in its evaluation log, as images for TensorBoard, and in its report."""

import io
import os

import numpy as np
import tensorflow as tf
from PIL import Image

from estimator_train._engine.application import eager_mode
from estimator_train._engine.host.dataset_iterators import iterate
from estimator_train._engine.host.full_disk import explaining_full_disk
from estimator_train._engine.host.model_dirs import absolute
from estimator_train.app.metrics import tasks
from estimator_train.app.report import plots
from estimator_train.app.report.grad_cam import grad_cam
from estimator_train.app.report.page import Mistake, write_report
from estimator_train.app.running import label_thresholds, training_batch
from estimator_train.app.running.build import build_eval_input_fn
from estimator_train.app.running.errors import run_errors
from estimator_train.app.running.evaluation import AFTERWARDS, evaluate, keep
from estimator_train.app.running.example_images import image_at
from estimator_train.app.running.export import trained_model
from estimator_train.app.runs import StoredRun, predictions_file

v1 = tf.compat.v1

_SAMPLES = 8
_MISTAKES = 12


class Reporter:
    """Saves the evaluations of a run in its directory."""

    def __init__(self, settings, model_dir):
        self._settings = settings
        self._model_dir = model_dir
        self._data = self._samples = None

    def add(self, checkpoint, evaluation, data, *, name=None, images=None):
        """Adds the `Evaluated` of a dataset, or None for an input_fn, as `keep` does, and its images to its events."""
        if data is not self._data:
            self._data, self._samples = data, None
        self._last, self._checkpoint = evaluation, checkpoint
        self._task = tasks.named(self._settings.task, getattr(evaluation.result, "thresholds", None))
        self._entry = keep(self._settings, data, self._model_dir, checkpoint, evaluation, name=name, images=images)
        if evaluation.result is not None:
            with explaining_full_disk(self._model_dir):
                self._write_images(name)

    def write(self):
        """Writes the report of the last evaluation added, and returns its path."""
        _, labels, outputs, _ = self._last
        numbers, note, mistakes = None, None, self._mistakes()
        if self._settings.task == "regression" and labels is not None:
            numbers = labels[:, 0], outputs[:, 0]
        if mistakes and self._settings.task == "classification":
            try:
                mistakes = self._with_heat(mistakes)
                note = "Below each image, Grad-CAM shows what speaks for the predicted class in warm colors."
            except ValueError as error:
                note = f"Grad-CAM is left out: {error}."
        augment = StoredRun(self._model_dir).training.get("augment")
        with eager_mode():  # as in _images
            batch = training_batch.sample(self._settings, self._data, augment, _SAMPLES)
        return write_report(self._model_dir, mistakes, numbers, note=note, last=self._entry, batch=batch)

    def _pixels(self, images):
        """Returns PIL images as the model takes them: float32 of shape (images, height, width, 3)."""
        height, width = self._settings.image_size
        resized = [image.convert("RGB").resize((width, height)) for image in images]
        return np.stack([np.asarray(image, "float32") / 255 for image in resized])

    def _with_heat(self, mistakes):
        settings = self._settings
        pixels = self._pixels([mistake.image for mistake in mistakes])
        classes = np.array([settings.class_names.index(mistake.predicted_class) for mistake in mistakes])
        heats = grad_cam(trained_model(settings, self._checkpoint), pixels, classes)
        return [mistake._replace(heat=heat) for mistake, heat in zip(mistakes, heats, strict=True)]

    def _write_images(self, name):
        images, (metrics, labels, outputs, result) = {}, self._last
        if result.task == "classification":
            class_names = self._settings.class_names
            images["confusion_matrix"] = plots.confusion_matrix(class_names, result.confusion_matrix)
        elif result.task == "regression":
            images["predictions"] = plots.scatter(labels[:, 0], outputs[:, 0])
        if self._samples is None:
            spread = np.linspace(0, len(labels) - 1, min(_SAMPLES, len(labels))).astype(int)
            self._samples = _images(self._settings, self._data, spread)
        captions = [self._caption(index) for index in self._samples]
        images["samples"] = plots.samples(list(self._samples.values()), captions)
        folder = "eval"
        if name:
            folder += f"_{name}"
        write_image_events(os.path.join(self._model_dir, folder), int(metrics["global_step"]), images)

    def _caption(self, index):
        true, predicted, _, probability = self._read(index)
        caption = tasks.short(predicted)
        if probability is not None:
            caption += f" {probability:.2f}"
        if predicted != true:
            caption += f"\nis {tasks.short(true)}"
        return caption

    def _read(self, index):
        """Returns (true value, prediction, the probabilities of both, None if they are no classes) of an example."""
        names, (_, labels, outputs, _) = self._settings.class_names, self._last
        label, output = labels[index], outputs[index]
        both = self._task.truth(names, label), self._task.prediction(names, output)
        if self._settings.task != "classification":
            return *both, None, None
        return *both, output[label], output.max()

    def _mistakes(self):
        """Returns the worst wrong predictions, or None without a dataset's examples."""
        _, labels, outputs, _ = self._last
        if labels is None:
            return None
        worst = self._task.worst(labels, outputs)[:_MISTAKES]
        images = _images(self._settings, self._data, worst)
        names = predictions_file.image_names(self._data) or [f"example {index}" for index in range(len(labels))]
        mistakes = []
        for index in worst.tolist():
            true, predicted, true_probability, probability = self._read(index)
            classes = tasks.short(true), true_probability, tasks.short(predicted), probability
            mistakes.append(Mistake(images[index], names[index], *classes))
        return mistakes


def write_image_events(directory, step, images):
    """Writes `images`, a dict of tags to PNG files as bytes, to the event file in `directory`, at a global step."""
    summary = v1.Summary()
    for tag, png in images.items():
        pixels = Image.open(io.BytesIO(png))
        size = {"width": pixels.width, "height": pixels.height, "colorspace": len(pixels.getbands())}
        summary.value.add(tag=tag, image=v1.Summary.Image(**size, encoded_image_string=png))
    with tf.Graph().as_default():  # v1 event writers, which the Estimator uses, cannot be created in eager mode
        writer = v1.summary.FileWriterCache.get(absolute(directory))  # that of the evaluation, which has just used it
    writer.add_summary(summary, step)
    writer.flush()


def _images(settings, data, indices):
    """Returns {index: PIL image} of evaluation examples, whose indices follow their order."""
    with eager_mode():  # training may evaluate and report while its graph is the default
        paths = predictions_file.image_paths(data)
        if paths:
            return {index: image_at(paths[index], settings) for index in np.sort(indices).tolist()}
        examples = build_eval_input_fn(settings, data)().unbatch().enumerate()
        chosen = examples.filter(lambda index, _: tf.reduce_any(index == indices)).take(len(indices))
        return {int(index): _image_of(image.numpy()) for index, (image, _) in iterate(chosen)}


def _image_of(pixels):
    return Image.fromarray((255 * pixels).round().astype("uint8"))


def report(settings, model_dir, checkpoint, data):
    """Evaluates a checkpoint, writes the report of the run, and returns its path."""
    thresholds = label_thresholds.kept(settings, model_dir, checkpoint)
    (evaluated,) = evaluate(settings, data, model_dir, [checkpoint], thresholds)
    reporter = Reporter(settings, model_dir)
    with run_errors():
        reporter.add(checkpoint, evaluated, data, name=AFTERWARDS)
        return reporter.write()
