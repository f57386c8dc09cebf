"""The table of settings: what a field says reaches every place that a flag shows in."""

import dataclasses
import json
import re
import sys

import pytest
import warm_python

from estimator_train.app.cli.commands.train import train
from estimator_train.app.cli.invocation import RULES, TABLE
from estimator_train.app.runs.fields import help_of, lines_of, phrases_of, settings_in, text_of
from estimator_train.app.runs.spec import RESIZES, STORED, Settings, Training, check_class_names
from estimator_train.input_fns.images import decoding
from tests.app.cli import flag_tables


def test_docs_list_every_flag_as_the_table_has_it():
    assert flag_tables.in_page(flag_tables.PAGE.read_text()) == flag_tables.section()


def test_every_field_is_a_flag_of_train_with_a_help():
    names = [name for table in TABLE for name in settings_in(table)]
    assert sorted(names) == sorted(parameter.name for parameter in train.params)
    assert all(help_of(table, name).endswith((".", "]")) for table in TABLE for name in settings_in(table))


def test_rules_name_only_flags():
    names = settings_in(*TABLE)
    named = {name.partition("=")[0] for rule in RULES for name in (rule.name, *rule.others)}
    assert named <= names.keys()


def test_a_setting_says_its_value_in_its_line_of_the_plan():
    settings = Settings(model="vgg16", freeze="all", dropout=0.25, seed=0, class_names=())
    assert lines_of(settings)["seed"] == "0"
    assert phrases_of(settings, "model") == ["freeze=all", "dropout=0.25"]
    training = Training(log=("csv", "mlflow"), cache="memory", augment="flip")
    assert lines_of(training) == {"log": "csv, mlflow", "augmentation": "flip", "cache": "memory", "batch": "1"}


@pytest.mark.parametrize(
    ("value", "text"),
    [((24, 32), "24x32"), (("a", "b"), "a, b"), ((), "none"), (None, "its default"), (0.5, "0.5")],
)
def test_a_value_is_said_as_it_is_typed(value, text):
    assert text_of(value) == text


def test_arguments_of_run_config_are_those_that_say_so():
    training = Training(recompute=True, accumulate_steps=3, epochs=2)
    assert training.config_arguments == {
        "accumulate_steps": 3, "recompute": True, "jit_compile": False,
        "deterministic": False, "steps_per_loop": "auto", "async_checkpoints": False,
    }  # fmt: skip


def test_phases_are_settings_with_their_own_frozen_layers():
    settings = Settings(model="vgg16", phases="freeze=all epochs=2; freeze=none epochs=1 lr=1e-4", class_names=())
    (first, _), (second, phase) = settings.in_phases()
    assert (first.freeze, second.freeze, second.phases, phase.learning_rate) == ("all", "none", None, 1e-4)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("caf\udce9", r"caf\\udce9 is not UTF-8, which TensorFlow needs; rename it"),
        ("a\x1b", r"a\\x1b has control characters"),
    ],
)
def test_a_class_that_no_report_could_name_is_refused(name, message):
    check_class_names(("café", "scans 1"))
    with pytest.raises(ValueError, match=f"the class {message}"):
        check_class_names(("café", name))


def test_every_stored_value_has_a_default_that_a_flag_leaves():
    fields = [field for table in STORED for field in dataclasses.fields(table) if "setting" in field.metadata]
    defaults = {field.name: field.default for field in fields if field.default not in (None, False)}
    assert defaults == {"task": "classification", "accumulate_steps": 1, "steps_per_loop": "auto"}


# Runs the command with a table that has one more setting, once for each line of arguments; no training takes a step.
# A line "= CODE" ends the output of each; the last output is the page's section on flags.
PROGRAM = """
import importlib.util, sys
name = "estimator_train.app.runs.spec"

class Finder:
    @staticmethod
    def find_spec(wanted, path=None, target=None):
        return importlib.util.spec_from_file_location(name, {file!r}) if wanted == name else None

sys.meta_path.insert(0, Finder)
for loaded in [module for module in sys.modules if module.startswith("estimator_train.app")]:
    del sys.modules[loaded]
from estimator_train.app.cli import main
from estimator_train.app.running import training
training._train = lambda *_: sys.exit(0)
for arguments in {calls!r}:
    sys.argv = ["estimator_train", *arguments]
    try:
        main()
    except SystemExit as end:
        print("=", end.code or 0)
from tests.app.cli import flag_tables
print(flag_tables.section())
"""
FIELD = '''
    paper: str | None = setting(MODEL, kinds.Text())
    """Paper to cite."""

    class_names: tuple[str, ...]
'''


def test_one_more_field_shows_in_help_run_json_plan_resume_and_docs(scans, tmp_path):
    table = sys.modules[Settings.__module__].__file__
    with open(table) as source:
        changed = source.read().replace("\n    class_names: tuple[str, ...]\n", FIELD)
    (tmp_path / "settings.py").write_text(changed)
    run = str(tmp_path / "run")
    data = ["--dataset", "images", "--data-dir", str(scans), "--model", "small_cnn", "--image-size", "16"]
    resume = ["--model-dir", run, "--resume", "--dry-run"]
    calls = [
        ["train", "--help"],
        [*data, "--max-steps", "1", "--model-dir", run, "--paper", "Kermany 2018"],
        resume,
        [*resume, "--paper", "He 2015"],
    ]
    program = tmp_path / "program.py"
    program.write_text(PROGRAM.format(file=str(tmp_path / "settings.py"), calls=calls))
    done = warm_python.run([program], tmp_path, cwd=flag_tables.PAGE.parents[1])
    assert done.returncode == 0, done.stderr
    shown, trained, resumed, refused, docs = done.stdout.split("\n= ")
    assert re.search(r"\n  --paper TEXT +Paper to cite\.\n", shown)
    assert "\n| `--paper TEXT` | Paper to cite. | fixed |\n" in docs
    assert "\npaper        Kermany 2018\n" in trained
    assert json.loads((tmp_path / "run" / "run.json").read_text())["settings"]["paper"] == "Kermany 2018"
    assert "\npaper        Kermany 2018\n" in resumed
    assert (refused, docs[:2]) == ("0", "2\n")
    assert f"the run in {run} has paper Kermany 2018, not He 2015; continue with the same" in done.stderr


def test_the_command_knows_the_ways_to_resize():
    assert RESIZES == decoding.RESIZES
