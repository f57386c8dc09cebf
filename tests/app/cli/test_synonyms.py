"""Flags under the names that other commands give them are suggested."""

import click
import pytest

from estimator_train.app.cli import commands
from estimator_train.app.cli.synonyms import SYNONYMS, meant_by


def flags_of(command):
    return {flag for param in command.params for flag in param.opts if flag.startswith("-")}


def test_every_suggestion_is_a_flag():
    assert SYNONYMS.keys() <= set().union(*map(flags_of, commands.commands.values()))


def test_no_name_is_a_flag_already_or_means_two_flags_of_training():
    flags = flags_of(commands.commands["train"])
    names = [name for flag, names in SYNONYMS.items() if flag in flags for name in names.split()]
    assert [name for name in names if f"--{name}" in flags or names.count(name) > 1] == []


@pytest.mark.parametrize(
    ("command", "typed", "suggested"),
    [
        ("train", "--bs", ["--batch-size"]),
        ("train", "-b", ["--batch-size"]),
        ("train", "--per_device_train_batch_size", ["--batch-size"]),
        ("train", "--Model-Dir", ["--model-dir"]),
        ("train", "--output_dir", ["--model-dir"]),
        ("launch", "--bs", ["--evaluator"]),  # which has no batch size: click's own, by their letters
    ],
)
def test_a_flag_of_the_command_is_suggested_by_meaning_else_by_its_letters(command, typed, suggested):
    context = click.Context(commands.commands[command])
    error = click.NoSuchOption(typed, ctx=context)
    error.possibilities = ["--evaluator"]
    assert meant_by(error) == suggested
