"""The thresholds of several labels, which `evaluate --choose-thresholds` keeps with the run for all commands."""

import os

import click

from estimator_train._engine.host.files import quoted
from estimator_train.app.errors import SettingError, one_line_errors, spelled
from estimator_train.app.running import evaluation
from estimator_train.app.running.messages import listed
from estimator_train.app.runs import checkpoints, thresholds

_SHOWN = 10  # labels in a message


def choose(settings, data, model_dir, checkpoint):
    """Chooses the thresholds on the images that choose a checkpoint, keeps them, and returns {label: threshold}."""
    (evaluated,) = evaluation.evaluate(settings, data.to_choose_on(), model_dir, [checkpoint])
    if evaluated.result is None:
        raise SettingError("{choose_thresholds} needs a probability for each label")
    labels, outputs = evaluated.labels, evaluated.outputs
    values = thresholds.choose(settings.class_names, labels, outputs)
    images = "evaluation"
    if data.validation_examples:
        images = "validation"
    fingerprint = checkpoints.fingerprint(checkpoint)
    chosen = thresholds.Thresholds(values, os.path.basename(checkpoint), images, len(labels), fingerprint)
    with one_line_errors():
        thresholds.write(model_dir, chosen)
    shown = listed([f"{name} {value:.4f}" for name, value in values.items()])
    _say(f"the thresholds of the best {thresholds.CRITERION} are {shown}, kept in {_file(model_dir)}", chosen)
    if unseen := [name for name, each in evaluated.result.labels.items() if not each.support]:
        more = f" and {len(unseen) - _SHOWN} more" if len(unseen) > _SHOWN else ""
        click.echo(f"no image has {quoted(unseen[:_SHOWN])}{more}: the threshold remains 0.5", err=True)
    return values


def kept(settings, model_dir, checkpoint):
    """Returns {label: threshold} as chosen for a checkpoint, which is then said; None if 0.5 holds for all labels."""
    if settings.task != "multilabel":
        return None
    with one_line_errors():
        chosen = thresholds.read(model_dir, settings.class_names)
    if chosen is None:
        return None
    file, name, theirs = _file(model_dir), os.path.basename(checkpoint), chosen.checkpoint
    if theirs == name and chosen.fingerprint not in (None, checkpoints.fingerprint(checkpoint)):
        theirs = f"another {name}, of before the run was trained again from an earlier one"
    if theirs != name:
        click.echo(
            f"{file} is for {theirs}, so {name} predicts labels from 0.5 on; evaluate "
            f"{spelled('{choose_thresholds}')} chooses thresholds for it",
            err=True,
        )
        return None
    _say(f"using the thresholds in {file}", chosen)
    return chosen.values


def _say(text, chosen):
    text += f", chosen on {chosen.examples} {chosen.images} images"
    if chosen.images != "validation":
        text += ", on which the numbers are therefore too good"
    click.echo(text, err=True)


def _file(model_dir):
    return os.path.join(model_dir, thresholds.NAME)
