"""What a run keeps of its evaluations to be looked at: lines of its log, images for TensorBoard, and its report."""

from __future__ import annotations

import os
from pathlib import Path

import click
import numpy as np
import tensorflow as tf
from PIL import Image

from estimator_train.cli import evaluation_log
from estimator_train.cli.run.build import build_input_fns
from estimator_train.cli.run.export import trained_model
from estimator_train.host.dataset_iterators import iterate
from estimator_train.host.files import printable
from estimator_train.input_fns.decoding import decode_pixels
from estimator_train.report import image_events, plots
from estimator_train.report.classification import classification
from estimator_train.report.grad_cam import grad_cam
from estimator_train.report.page import Mistake, write_report
from estimator_train.session.private_names import eager_mode

_SAMPLES = 8
_MISTAKES = 12


class Reporter:
    """Keeps the evaluations of a run in its folder.

    Args:
      data: of the settings, None for an input_fn.
    """

    def __init__(self, settings, data, model_dir):
        self._settings = settings
        self._data = data
        self._model_dir = model_dir
        self._samples = None

    def add(self, checkpoint, evaluation):
        """Adds an `Evaluation` to the log; of a classifier, its images too, to the events of evaluations."""
        metrics, labels, probabilities = self._last = evaluation
        self._checkpoint = checkpoint
        result = None if labels is None else classification(self._settings.class_names, labels, probabilities)
        evaluation_log.append(self._model_dir, checkpoint, metrics, result)
        if result is not None:
            self._write_images(int(metrics["global_step"]), result)

    def write(self):
        """Writes the report of the evaluation that was added last; returns its path."""
        mistakes, note = self._mistakes(), None
        if mistakes:
            try:
                mistakes = self._with_heat(mistakes)
                note = "Below each, what speaks for the predicted class, in warm colours, by Grad-CAM."
            except (click.ClickException, ValueError) as error:
                note = f"Grad-CAM is left out: {error}."
        return write_report(self._model_dir, mistakes, note=note)

    def _with_heat(self, mistakes):
        settings = self._settings
        height, width = settings.image_size
        images = [mistake.image.convert("RGB").resize((width, height)) for mistake in mistakes]
        pixels = np.stack([np.asarray(image, "float32") / 255 for image in images])
        classes = np.array([settings.class_names.index(mistake.predicted_class) for mistake in mistakes])
        heats = grad_cam(trained_model(settings, self._checkpoint), pixels, classes)
        return [mistake._replace(heat=heat) for mistake, heat in zip(mistakes, heats, strict=True)]

    def _write_images(self, step, result):
        class_names = self._settings.class_names
        images = {"confusion_matrix": plots.confusion_matrix(plots.LIGHT, class_names, result.confusion_matrix)}
        if self._samples is None:
            _, labels, _ = self._last
            spread = np.linspace(0, len(labels) - 1, min(_SAMPLES, len(labels))).astype(int)
            self._samples = _images(self._settings, self._data, spread)
        captions = [self._caption(index) for index in self._samples]
        images["samples"] = plots.samples(plots.LIGHT, list(self._samples.values()), captions)
        image_events.write_images(os.path.join(self._model_dir, "eval"), step, images)

    def _caption(self, index):
        class_names, (_, labels, probabilities) = self._settings.class_names, self._last
        predicted = probabilities[index].argmax()
        prediction = f"{class_names[predicted]} {probabilities[index, predicted]:.2f}"
        return prediction if predicted == labels[index] else f"{prediction}\nis {class_names[labels[index]]}"

    def _mistakes(self):
        """The most confidently wrong predictions; None of no classifier."""
        class_names, (_, labels, probabilities) = self._settings.class_names, self._last
        if labels is None:
            return None
        wrong = np.flatnonzero(probabilities.argmax(axis=1) != labels)
        worst = wrong[np.argsort(-probabilities[wrong].max(axis=1), kind="stable")[:_MISTAKES]]
        images = _images(self._settings, self._data, worst)
        names = _names(self._data)
        return [
            Mistake(
                image=images[index],
                name=names[index] if names else f"example {index}",
                true_class=class_names[labels[index]],
                true_probability=probabilities[index, labels[index]],
                predicted_class=class_names[probabilities[index].argmax()],
                predicted_probability=probabilities[index].max(),
            )
            for index in worst.tolist()
        ]


def _images(settings, data, indices):
    """{index: PIL image} of the examples that are evaluated, in order."""
    paths = _paths(data)
    if paths:
        return {index: _image(paths[index]) for index in np.sort(indices).tolist()}
    _, eval_input_fn = build_input_fns(settings, data)
    examples = eval_input_fn().unbatch().enumerate()
    chosen = examples.filter(lambda index, _: tf.reduce_any(index == indices)).take(len(indices))
    return {
        int(index): Image.fromarray((255 * image.numpy()).round().astype("uint8"))
        for index, (image, _) in iterate(chosen)
    }


def _image(path):
    # By TensorFlow, as in training: Pillow refuses other files than it does.
    with eager_mode():  # a training evaluates, and reports, inside its graph
        pixels = decode_pixels(tf.io.read_file(os.fsencode(path))).numpy()
    return Image.fromarray(np.repeat(pixels, 3 // pixels.shape[-1], axis=-1))


def _names(data):
    return [printable(os.path.join(Path(path).parent.name, Path(path).name)) for path in _paths(data)]


def _paths(data):
    """Paths of the examples that are evaluated, in order; none of data that is not in image files."""
    return sorted(getattr(data, "eval_paths", []))
