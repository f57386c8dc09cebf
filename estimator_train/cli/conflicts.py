"""Which flags of `train` exclude or need each other: a row each, looked through before TensorFlow is imported."""

from __future__ import annotations

from collections.abc import Iterable
from types import SimpleNamespace
from typing import NamedTuple

import click


class Excludes(NamedTuple):
    """None of `flags` goes with any of `others`, all by their names in Python; `reason` may name {flag} and {other}.

    "name=value" is a flag where it is given that value.
    """

    flags: tuple[str, ...]
    others: tuple[str, ...]
    reason: str = "{flag} and {other} exclude each other; give one"


class Needs(NamedTuple):
    """Each of `flags` goes with one of `others` alone. `reason` may name {flag}."""

    flags: tuple[str, ...]
    others: tuple[str, ...]
    reason: str


_OF_DATASETS = ("batch_size", "limit", "split", "task", "cache", "fast")

RULES = (
    Excludes(("quiet",), ("verbose",)),
    Excludes(
        ("split_over",),
        ("gpus", "replicas"),
        "--split-over has one model on several devices, --gpus and --replicas have one on each; give one",
    ),
    Needs(
        ("all_reduce",),
        ("gpus", "replicas"),
        "--all-reduce is over replicas; give --gpus N or --replicas N, too",
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
    Excludes(("phases",), ("ema",), "the averages of --ema would begin anew in each of the --phases; leave one out"),
    Excludes(
        ("phases", "freeze=none"),
        ("cache=features",),
        "--cache features keeps what frozen layers give; leave it out, or freeze all",
    ),
    Excludes(
        ("phases", "freeze"),
        ("recipe", "input_fn"),
        "{flag} is for a dataset and a model with a backbone of keras.applications; leave out {other}",
    ),
    Needs(
        ("early_stopping", "keep_best"),
        ("evaluate_every",),
        "{flag} goes by evaluations on the way; give --evaluate-every STEPS, too",
    ),
    Needs(
        ("monitor",),
        ("early_stopping", "keep_best"),
        "--monitor is what --early-stopping and --keep-best go by; give one of them, too",
    ),
    Excludes(
        ("input_fn",),
        ("dataset", "data_dir"),
        "--input-fn takes the place of --dataset and --data-dir; give one or the other",
    ),
    Needs(("input_fn",), ("eval_input_fn",), "--input-fn and --eval-input-fn go together; give both"),
    Needs(("eval_input_fn",), ("input_fn",), "--input-fn and --eval-input-fn go together; give both"),
    Excludes(
        ("input_fn",),
        ("epochs",),
        "--input-fn decides itself how often it gives its data; leave out --epochs",
    ),
    Excludes(
        ("input_fn",),
        _OF_DATASETS,
        "--input-fn decides itself what is in its batches; leave out {other}",
    ),
    Needs(
        ("input_fn",),
        ("model",),
        "--input-fn needs --model, a FILE:FUNCTION that returns a compiled Keras model",
    ),
    Excludes(
        ("augment",),
        ("cache=features",),
        "--cache features computes once what --augment changes each time; leave one of them out",
    ),
    Excludes(
        ("class_weights",),
        ("input_fn",),
        "--class-weights are of a dataset's classes; let the --input-fn give weights, as its batches' third part",
    ),
    Excludes(
        ("class_weights",),
        ("task=multilabel", "task=regression"),
        "--class-weights are of the classes of a classification; give weights of examples as a column of the manifest",
    ),
    Excludes(
        ("find_learning_rate",),
        ("learning_rate", "schedule", "warmup_steps", "scale_learning_rate", "ema"),
        "--find-learning-rate tries rates of its own; leave out {other}",
    ),
    Excludes(
        ("find_learning_rate",),
        (*("resume", "evaluate_every", "early_stopping", "keep_best", "epochs", "max_steps"), "save_checkpoints_steps"),
        "--find-learning-rate trains nothing that is kept; leave out {other}",
    ),
)


def check_conflicts(flags: SimpleNamespace, rules: Iterable[Excludes | Needs] = RULES) -> None:
    """Refuses `flags`, by their names in Python, in the words of the first of the rules that they break.

    A flag is given where its value is true, so one with a default that is true is in no rule.

    Raises:
      click.ClickException: a rule is broken.
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
    """`name`, that of a parameter, as it is typed."""
    return f"--{name.replace('_', '-')}"
