"""Rules for flags of `train` that exclude or require each other, checked before TensorFlow is imported."""

from __future__ import annotations

from collections.abc import Iterable
from types import SimpleNamespace
from typing import NamedTuple

import click


class Excludes(NamedTuple):
    """None of `flags` can be combined with any of `others`. `reason` may use {flag} and {other}.

    Flags are given by their Python names; "name=value" matches a flag only if it has that value.
    """

    flags: tuple[str, ...]
    others: tuple[str, ...]
    reason: str = "{flag} and {other} exclude each other; give one"


class Needs(NamedTuple):
    """Each of `flags` requires at least one of `others`. `reason` may use {flag}."""

    flags: tuple[str, ...]
    others: tuple[str, ...]
    reason: str


_OF_DATASETS = ("batch_size", "limit", "split", "task", "cache", "fast")

RULES = (
    Excludes(("quiet",), ("verbose",)),
    Excludes(
        ("split_over",),
        ("gpus", "replicas"),
        "--split-over spreads one model over several devices, --gpus and --replicas put a copy on each; give one",
    ),
    Needs(
        ("all_reduce",),
        ("gpus", "replicas"),
        "--all-reduce sums over replicas; give --gpus N or --replicas N, too",
    ),
    Needs(("filters", "volume", "split_over"), ("recipe",), "{flag} is for recipes; give --recipe NAME, too"),
    Excludes(("gpus",), ("replicas",)),
    Excludes(("epochs",), ("max_steps",)),
    Excludes(
        ("phases",),
        ("epochs", "max_steps", "freeze", "learning_rate", "find_learning_rate"),
        "each of the --phases has its own freeze=, epochs= and lr=; leave out {other}",
    ),
    Excludes(
        ("phases",),
        ("early_stopping", "schedule", "warmup_steps"),
        "each of the --phases has a number of epochs and one learning rate; leave out {other}",
    ),
    Excludes(("phases",), ("ema",), "the averages of --ema would start over in each of the --phases; leave one out"),
    Excludes(
        ("phases", "freeze=none"),
        ("cache=features",),
        "--cache features keeps the outputs of frozen layers; leave it out, or freeze all",
    ),
    Excludes(
        ("phases", "freeze"),
        ("recipe", "input_fn"),
        "{flag} needs a dataset and a model with a backbone of keras.applications; leave out {other}",
    ),
    Needs(
        ("early_stopping", "keep_best"),
        ("evaluate_every",),
        "{flag} needs evaluations during training; give --evaluate-every STEPS, too",
    ),
    Needs(
        ("monitor",),
        ("early_stopping", "keep_best"),
        "--monitor is the metric for --early-stopping and --keep-best; give one of them, too",
    ),
    Excludes(
        ("input_fn",),
        ("dataset", "data_dir"),
        "--input-fn replaces --dataset and --data-dir; give one or the other",
    ),
    Needs(("input_fn",), ("eval_input_fn",), "--input-fn and --eval-input-fn go together; give both"),
    Needs(("eval_input_fn",), ("input_fn",), "--input-fn and --eval-input-fn go together; give both"),
    Excludes(
        ("input_fn",),
        ("epochs",),
        "--input-fn decides how often it repeats its data; leave out --epochs",
    ),
    Excludes(
        ("input_fn",),
        _OF_DATASETS,
        "--input-fn decides what is in its batches; leave out {other}",
    ),
    Needs(
        ("input_fn",),
        ("model",),
        "--input-fn needs --model, a FILE:FUNCTION that returns a compiled Keras model",
    ),
    Excludes(
        ("augment",),
        ("cache=features",),
        "--cache features computes features once, but --augment changes them every epoch; leave one of them out",
    ),
    Excludes(
        ("class_weights",),
        ("input_fn",),
        "--class-weights needs a dataset's classes; return weights as the third part of the --input-fn's batches",
    ),
    Excludes(
        ("class_weights",),
        ("task=multilabel", "task=regression"),
        "--class-weights is for classification; give the weights of examples in the manifest's column weight",
    ),
    Excludes(
        ("find_learning_rate",),
        ("learning_rate", "schedule", "warmup_steps", "scale_learning_rate", "ema"),
        "--find-learning-rate chooses the rates itself; leave out {other}",
    ),
    Excludes(
        ("find_learning_rate",),
        (*("resume", "evaluate_every", "early_stopping", "keep_best", "epochs", "max_steps"), "save_checkpoints_steps"),
        "--find-learning-rate does not keep what it trains; leave out {other}",
    ),
)


def check_conflicts(flags: SimpleNamespace, rules: Iterable[Excludes | Needs] = RULES) -> None:
    """Rejects `flags`, given by their Python names, with the reason of the first rule that they break.

    A flag counts as given if its value is true, so no rule can name a flag whose default is true.

    Raises:
      click.ClickException: the flags break a rule.
    """
    for rule in rules:
        given, others = ([name for name in names if _is_given(flags, name)] for names in rule[:2])
        if given and bool(others) == isinstance(rule, Excludes):
            named = {"flag": flag_of(given[0]), "other": flag_of(others[0]) if others else ""}
            raise click.ClickException(rule.reason.format(**named))


def _is_given(flags, name):
    name, has_value, value = name.partition("=")
    return getattr(flags, name) == value if has_value else bool(getattr(flags, name))


def flag_of(name: str) -> str:
    """Returns the flag of a parameter, such as --data-dir for data_dir."""
    return f"--{name.replace('_', '-')}"
