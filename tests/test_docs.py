"""README, CONTRIBUTING and docs/ are true: every command and block of Python in them runs, every link leads somewhere.

A page is followed from top to bottom, in a temporary directory with the files that its commands name. The rules below
shrink long commands, and skip commands that need more than this machine. A command without a rule fails.

A block of text below commands or code is what they print. What ran as the page has it must have printed the numbers of
the block, and of a training that is made short, its plan must have: see `not_printed`.
"""

import base64
import importlib.util
import io
import itertools
import json
import os
import re
import shlex
import shutil
import sys
import tempfile
import textwrap
import urllib.request
from pathlib import Path

import numpy as np
import platformdirs
import pytest
import tensorflow as tf
import tf_keras as keras
import warm_python
from PIL import Image
from records import write_records

from benchmarks.works import WORKS
from estimator_train import distribution
from estimator_train._engine.distribution.replica_input import log_batch
from estimator_train.app.cli import main
from estimator_train.app.cli.commands.export import export
from estimator_train.app.cli.commands.launch import launch
from estimator_train.app.datasets import dataset, kaggle, oct2017, synthetic_oct
from estimator_train.app.models import small_cnn

ROOT = Path(__file__).parent.parent
AT_ROOT = [ROOT / f"{name}.md" for name in ("README", "CONTRIBUTING", "RELEASING")]
PAGES = [*AT_ROOT, *sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "docs" / "questions").glob("*.md"))]
PAGES.append(ROOT / "docs" / "api" / "heads.md")  # the others are generated from docstrings alone
LINKED = [*PAGES, *(ROOT / f"{name}.md" for name in ("ARCHITECTURE", "CHANGELOG", "SECURITY"))]
EXAMPLES = [path for path in sorted((ROOT / "examples").glob("*.py")) if "# %%" in path.read_text()]
# The pages that train most.
SLOW = ("README.md", "command.md", "concepts.md", "distribution.md", "fine_tuning.md", "gallery.md", "heads.md")
SLOW += ("hooks.md", "input_fns.md", "keras.md", "old_checkpoint.md", "out_of_memory.md", "performance.md")
SLOW += ("recipes.md", "resume.md", "tutorial.md", "two_gpus.md", "unet3d.md")

# Pages whose data and code are not made small, because they show numbers.
AS_PRINTED = ("tutorial.md",)
FULL = synthetic_oct.IMAGES_PER_CLASS, dataset.DEFAULT_STEPS

# How far metrics of the same seed may be apart on other processors: 0.52 and 0.61 have been seen.
SPREAD = {"rel": 0.2, "abs": 0.05}
NUMBER = re.compile(r"(?<![\w.])\d+(?:,\d{3})*(?:\.\d+)?(?:e[+-]?\d+)?")
TIME = re.compile(r"[\d.]+(?= examples/s|% of the time| m?s\b)")

NOT_RUN = {
    "python3.11 -m venv tf215": "it makes an environment of the old TensorFlow",
    "tf215/bin/python ": "it belongs to that environment",
    "python3.7 -m venv tf115": "few machines have Python 3.7",
    "tf115/bin/python ": "it belongs to that environment",
    "python3.12 -m venv build/next": "it makes an environment of nightly builds",
    "build/next/bin/": "it belongs to that environment",
    "python3 -m venv ": "these are .ci/run's: they make a virtual environment",
    "pip install ": "it would change this environment; .ci/matrix library tests it",
    ".venv/bin/": ".ci/run runs them, in the virtual environment that it makes",
    "rm -rf ": ".ci/run runs it: it begins the build of a release",
    "cd build/sdist": ".ci/run runs it: these are the tests of the sdist",
    ".ci/matrix": "it installs every TensorFlow; .ci/run runs its first row",
    "estimator_train run --tf1": "it makes this process's TensorFlow one of version 1; tests/examples has it",
    "estimator_train verify ": "it needs an environment with TensorFlow 2.15; tests/compat/test_verify.py has it",
    "python -m benchmarks": "they measure for minutes",
    "python examples/": "tests/examples has these programs",
    "python -m pytest -m gpu": "its tests need GPUs",
    "python -m tests.faults": "its campaigns take minutes to hours",
    "estimator_train bench ": "it trains in processes of its own; tests/app/cli has it",
    "estimator_train --dataset hf": "its package is an extra; tests/app/datasets has it",
    "estimator_train --dataset images --data-dir gs://": "it needs a bucket; tests/app/cli has runs in ram://",
    "estimator_train --log mlflow,wandb": "neither is installed with the tests; tests/app/cli/test_log.py has it",
    "estimator_train export --format onnx": "the tests do not install tf2onnx; tests/app/running/test_export.py has it",
    'eval "$(_ESTIMATOR_TRAIN_COMPLETE=': "a shell's own; tests/app/cli has completion",
    "flask --app": "a server; the page calls its functions, too",
    "curl ": "it needs that server",
    "docker run": "it downloads a server; `tensorflow_serving` takes its place",
    "tensorboard ": "a server",
}
# Commands whose words are only parsed, because another test runs them: tests/app/running/test_export.py.
ONLY_PARSED = "estimator_train export --model-dir runs/oct2017 --format tflite_"
# Imports of packages that only the tests need, which may be missing where the library is tested.
NEEDED = {"import optuna": "optuna", "import flask": "flask", "from service import": "flask"}

# Appended to a training, where the last of two flags counts. VGG16 and MobileNetV2 would download their weights.
TRAIN = "--model small_cnn --weights none --image-size 32 --batch-size 4 --max-steps 2"
TRAIN_OWN = "--max-steps 2"
RESUME = "--max-steps 3"
# Appended to what is no training.
SMALL = {"memory --model": "--image-size 32"}
# A training whose folder no later command of the page names, or that is another way to make it.
ONLY_PLAN = "--dry-run --model-dir only-planned"

# Replacements in the Python code of pages and examples: of devices, and to make it small.
DEVICES = {
    "tf.distribute.MirroredStrategy()": "two_replicas",
    "distribution.gpus(2)": "two_replicas",
    "distribution.multi_worker()": "two_replicas",  # it must come before all else of TensorFlow
    '"GPU:': '"CPU:',
}
SMALLER = {
    '"vgg16"': '"small_cnn"',
    "image_size=data.image_size": "image_size=(32, 32)",
    "MAX_STEPS = 2000": "MAX_STEPS = 4",
    "IMAGE_SIZE = (224, 224)": "IMAGE_SIZE = (32, 32)",
    "EPOCHS = 5": "EPOCHS = 1",
    "build_model(32, filters=8)": "build_model(8, filters=2, poolings=1)",
    "build_model(240, filters=32)": "build_model(8, filters=2, poolings=1)",
    "keras.applications.MobileNetV2(": "small_backbone(",
    'MODEL, TRIALS, EPOCHS = "mobilenet_v2", 20, 5': 'MODEL, TRIALS, EPOCHS = "small_cnn", 1, 1',
    'MODEL, EPOCHS = "mobilenet_v2", 5': 'MODEL, EPOCHS = "small_cnn", 1',
    "StratifiedKFold(5,": "StratifiedKFold(2,",
    "for filters in (16, 32, 64, 128)": "for filters in (4,)",
    'train_input_fn, "light,cutout")': 'train_input_fn, "flip,cutout")',
    'input_fn, "light")': 'input_fn, "flip")',
    "max_steps=100)": "max_steps=4)",
    "max_steps=1000)": "max_steps=8)",
    "range(240)": "range(12)",
}
PYTHON = DEVICES | SMALLER
SCRIPT = """
import sys
import tensorflow as tf
assert sys.argv[1] == "--its" and tf.estimator.Estimator
"""
PRINTS = {
    "README.md": r"'mae': .*'global_step': .*200\b",
    "concepts.md": r"^4\n",
    "distribution.md": r"'global_step': .*4\b",
    "hooks.md": r"^20 \d.*^step,loss,mae,learning_rate,val_loss,val_mae$",
    "fine_tuning.md": r"^4$",
    "input_fns.md": r"^12$",
    "keras.md": r"'global_step': .*20\b.*^[01]\.\d+$",
    "recipes.md": (
        r"^best: \{'dropout'.*^accuracy [01]\.\d+, standard deviation.*^200 OK \{\"CNV\":.*^400 BAD REQUEST.*"
        r"^served: \[\{'CNV': [\w'.: ,-]+\}\]$.*^lite: \{'CNV': [\w'.: ,-]+\}$.*"
        r"^profile: \S+\.xplane\.pb$.*^averaged: accuracy [01]\.\d+, loss \d"
    ),
    "tutorial.md": r"dogs/\d+\.jpg \w+ [01]\.\d{4}$",
}


@pytest.fixture
def namespace(mirrored):
    """The namespace that Python code runs in."""
    return {"__name__": "__main__", "two_replicas": mirrored(2), "small_backbone": small_backbone}


def shrink(folder, monkeypatch):
    """Makes data and models small, and draws what would be downloaded, without starting TensorFlow."""
    monkeypatch.chdir(folder)
    # Not by XDG_CACHE_HOME: matplotlib would look through all fonts again.
    monkeypatch.setattr(platformdirs, "user_cache_dir", lambda name: str(folder / "cache" / name))
    monkeypatch.setenv("TFDS_DATA_DIR", str(folder / "cache"))
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    monkeypatch.setattr(sys, "path", [str(folder), *sys.path])
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)  # `run` replaces it
    monkeypatch.setattr(synthetic_oct, "IMAGES_PER_CLASS", {"train": 2, "test": 1})
    monkeypatch.setattr(dataset, "DEFAULT_STEPS", 2)
    monkeypatch.setattr(small_cnn, "build", smaller_cnn)
    draw_oct2017(folder / "OCT2017")
    draw_oct2017(folder / "scans_of_another_clinic")
    zip_oct2017(folder / "archive.zip")
    monkeypatch.setattr(kaggle, "download", lambda _, folder: zip_oct2017(folder / "kermany2018.zip"))
    clothes = np.zeros((250, 28, 28), np.uint8), np.arange(250) % 10
    monkeypatch.setattr(keras.datasets.fashion_mnist, "load_data", lambda: (clothes, clothes))


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch, mirrored, blank_plots):
    """The directory that a page is followed in, with an empty download cache."""
    shrink(tmp_path, monkeypatch)
    # A process can have one strategy of two replicas.
    monkeypatch.setattr(distribution, "cpu_replicas", lambda count, all_reduce=None: mirrored(count))

    draw(tmp_path / "FOLDER", {"CNV": 6, "NORMAL": 6})
    draw(tmp_path / "scans", {"CNV": 6, "NORMAL": 6})
    draw_image(tmp_path / "scan.jpeg")
    manifests = {"labels": ("CNV", "NORMAL"), "findings": ("fluid|drusen", "drusen"), "ages": (41, 67.5)}
    for name, labels in manifests.items():
        paths = (tmp_path / "FOLDER").glob("*/*")
        rows = ["path,label", *(f"{path},{labels['NORMAL' in path.parts]}" for path in paths)]
        (tmp_path / f"{name}.csv").write_text("\n".join(rows))
    draw_image(tmp_path / "scans" / "scan.png")
    images, labels = np.zeros((8, 20, 20), np.uint8), np.arange(8) % 2
    np.savez(tmp_path / "mnist.npz", x_train=images, y_train=labels, x_test=images, y_test=labels)
    write_tfrecord_files(tmp_path / "records")

    (tmp_path / "package").mkdir()
    for script in ("script.py", "old_script.py", "package/module.py"):
        (tmp_path / script).write_text(SCRIPT)
    return tmp_path


@pytest.mark.parametrize(
    "page", [pytest.param(page, marks=pytest.mark.slow if page.name in SLOW else (), id=page.name) for page in PAGES]
)
def test_a_page_can_be_followed_from_top_to_bottom(page, folder, namespace, monkeypatch, capsys, caplog):
    blocks, missing = list(blocks_of(page)), set()
    followed = Followed(page, namespace, monkeypatch, capsys, caplog)
    monkeypatch.setattr(urllib.request, "urlopen", tensorflow_serving)
    log_batch.cache_clear()  # it logs each line once in a process
    for language, text in blocks:
        write_file(language, text, folder)
    later = [command for language, text in blocks if language in ("", "sh") for command in commands_of(text)]
    for language, text in blocks:
        if language in ("", "sh"):
            for command in commands_of(text):
                later.remove(command)
                followed.command(command, later)
        elif language == "python" and (lacks := packages_lacking(text)):
            missing |= lacks
        elif language == "python":
            followed.code(text)
        else:
            assert language in ("text", "json", "toml"), f"no rule says what to do with a block of {language}"
            assert language != "text" or followed.not_printed(text) == []
    output = followed.output
    if missing:
        pytest.skip(f"all blocks ran but those that need {', '.join(sorted(missing))}, which is not installed")
    assert re.search(PRINTS.get(page.name, ""), output, re.DOTALL | re.MULTILINE), output


@pytest.mark.parametrize(
    "line, printed, is_printed",
    [
        ("steps        300: 12 epochs", "steps        300: 12 epochs", True),
        ("steps        26: 2 epochs", "steps        312: 24 epochs", False),
        ("training 97,956 weights", "training 97,957 weights", False),
        ("trained 300 steps, 27.2 examples/s, 2% of the time", "trained 300 steps, 9 examples/s, 3% of the time", True),
        ("{'loss': np.float32(0.52), 'step': 100}", "{'loss': np.float32(0.60935), 'step': 100}", True),
        ("{'loss': np.float32(0.52), 'step': 100}", "{'loss': np.float32(0.68395), 'step': 100}", False),
        ("model.ckpt-500  500  1.0000", "model.ckpt-500     500    0.9700", True),
        ("dogs 0.9959", "cats 0.9959", False),
    ],
)  # fmt: skip
def test_a_line_of_a_page_is_printed_with_its_numbers_within_their_spread(line, printed, is_printed):
    assert lines_besides(line, f"before\n{printed}") == [line] * (not is_printed)


@pytest.mark.slow
def test_examples_of_cells_run_as_scripts_of_their_own(tmp_path):
    assert min(script.read_text().count("# %%") for script in EXAMPLES) > 3
    environment = os.environ | {"CUDA_VISIBLE_DEVICES": "-1"}  # a GPU would make other devices
    arguments = ["-m", "tests.helpers.small_script", *EXAMPLES, tmp_path]
    done = warm_python.run(arguments, tmp_path, cwd=ROOT, env=environment)
    assert done.returncode == 0, done.stderr[-2000:]


def test_each_line_instead_of_an_argument_of_fit_is_run():
    page = ROOT / "docs" / "keras.md"
    table = page.read_text().split("| with `fit` | here |\n")[1].split("\n\n")[0]
    cells = [row.split("|")[2] for row in table.splitlines()[1:]]
    lines = [code for code in re.findall(r"`([^`]+)`", "".join(cells)) if re.search(r"=|et\.", code)]
    code = "".join(text for language, text in blocks_of(page) if language == "python")
    assert len(lines) == 7
    assert [line for line in lines if line not in code] == []


def test_the_readme_counts_the_timings_against_fit_as_their_table_has_them():
    table = (ROOT / "docs" / "measured.md").read_text().split("<!-- benchmarks: begin -->")[1]
    rows = [
        [cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines() if re.search(r" fit\b", line)
    ]
    assert "peak memory" in rows.pop()[0]
    frozen = [float(row[3]) for row in rows if "frozen" in row[1]]
    spreads = [[float(cell) for cell in row[3:6]] for row in rows if "frozen" not in row[1]]
    ahead, behind = ([each[0] for each in spreads if side(each)] for side in (lambda x: x[1] > 1, lambda x: x[2] < 1))
    others = len(spreads) - len(ahead) - len(behind)
    claim = (
        f"Of {len(spreads)} [timings against Keras' `fit`](docs/measured.md) doing the same work, "
        f"{len(ahead)} are ahead, by {min(ahead)} to {max(ahead)} times, {len(behind)} are behind, at {min(behind)} "
        f"and {max(behind)}, and in {others} the spread includes 1. Where frozen layers run once instead of in every "
        f"epoch, VGG16 is {min(frozen)} to {max(frozen)} times as fast as `fit`"
    )
    assert claim in " ".join((ROOT / "README.md").read_text().split())


def test_every_rule_is_of_use():
    text = "".join(path.read_text() for path in [*PAGES, *EXAMPLES])
    assert [rule for rule in [*NOT_RUN, ONLY_PARSED, *PYTHON, *NEEDED] if rule not in text] == []


def test_files_that_contributing_names_exist():
    text = (ROOT / "CONTRIBUTING.md").read_text()
    named = re.findall(r"(?:estimator_train|tests|docs|examples|\.ci)/[\w./]*", text)
    assert len(named) > 30
    assert [name for name in named if "NAME" not in name and not (ROOT / name).exists()] == []


@pytest.mark.parametrize("page", LINKED, ids=lambda page: page.name)
def test_every_link_leads_somewhere(page):
    for link in re.findall(r"(?:\]\(|src=\")([^)\s\"]+)", page.read_text()):
        if not link.startswith("https://"):
            path, _, heading = link.partition("#")
            target = page.parent / path if path else page
            assert target.exists(), link
            assert not heading or heading in headings_of(target), link


def headings_of(page):
    """Returns the anchors of a page's headings."""
    return [
        re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")
        for title in re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    ]


def blocks_of(page):
    """Yields (language, text) of the fenced blocks of a page."""
    for block in re.finditer(r"^( *)```(\w*)\n(.*?)^\1```$", page.read_text(), re.MULTILINE | re.DOTALL):
        yield block.group(2), textwrap.dedent(block.group(3))


def commands_of(text):
    return [line for line in text.replace("\\\n", " ").splitlines() if line.strip()]


def write_file(language, text, folder):
    """Writes the file that a block's first line names, or what a pyproject.toml makes where it is installed."""
    if file := re.match(r"# (\w+\.py)\n", text):
        (folder / file.group(1)).write_text(text)
    if language == "toml":
        group, name, module = re.fullmatch(r'\[project\.entry-points\."(.+)"\]\n(\w+) = "(\w+)"\n', text).groups()
        (folder / "installed-1.0.dist-info").mkdir()
        (folder / "installed-1.0.dist-info" / "entry_points.txt").write_text(f"[{group}]\n{name} = {module}\n")


def made_small(code, rules=PYTHON):
    for there, here in rules.items():
        code = code.replace(there, here)
    return code


def packages_lacking(code):
    """Returns the packages of NEEDED that a block imports and that are not installed."""
    named = {package for imported, package in NEEDED.items() if imported in code}
    return {package for package in named if importlib.util.find_spec(package) is None}


def tensorflow_serving(url, body):
    """Answers as its REST API does: https://www.tensorflow.org/tfx/serving/api_rest.

    Instances without names are for the only input, and predictions without names are those of the only output.
    """
    assert url == "http://127.0.0.1:8501/v1/models/model:predict"
    (version,) = (path for path in Path("serving").iterdir() if path.name.isdecimal())
    model = tf.saved_model.load(str(version))
    serve = model.signatures["serving_default"]
    (name,) = serve.structured_input_signature[1]
    assert name.endswith("_bytes")  # which asks for base64
    images = [base64.b64decode(instance["b64"], validate=True) for instance in json.loads(body)["instances"]]
    (outputs,) = serve(**{name: tf.constant(images)}).values()
    return io.StringIO(json.dumps({"predictions": outputs.numpy().tolist()}))


class Followed:
    """A page as far as it has been followed, and what is smaller than the page says."""

    def __init__(self, page, namespace, monkeypatch, capsys, caplog):
        self.output = ""
        self._namespace, self._monkeypatch, self._capsys, self._caplog = namespace, monkeypatch, capsys, caplog
        self._printed, self._plan = None, None  # of the last command or block, unless it is smaller; of a training
        self._has_small_code, self._small_places = False, set()
        self._rules, self._is_full = PYTHON, page.name in AS_PRINTED
        if self._is_full:
            self._rules = DEVICES
            monkeypatch.setattr(synthetic_oct, "IMAGES_PER_CLASS", FULL[0])
            monkeypatch.setattr(dataset, "DEFAULT_STEPS", FULL[1])

    def code(self, text):
        """Executes a block of Python."""
        self._plan = None
        small = made_small(text, self._rules)
        self._has_small_code |= small != made_small(text, DEVICES)
        exec(compile(small, "a block of a page", "exec"), self._namespace)
        self._end(is_whole=not (self._has_small_code or self._names_what_is_small(text)))

    def command(self, command, later):
        """Runs a command in this process; `later` are the commands after it."""
        self._printed = self._plan = None
        if any(command.startswith(start) for start in NOT_RUN):
            for module in re.findall(r"-m (benchmarks\.\w+)", command):
                assert importlib.util.find_spec(module), command
            for name in re.findall(r"-m benchmarks (\w+)", command):
                assert name in [work.__name__ for work in WORKS], command
            return
        program, *arguments = shlex.split(command, comments=True)
        assert program == "estimator_train", f"no rule says how to run {command!r}"
        if command.startswith(ONLY_PARSED):
            export.make_context("export", arguments[1:])
            return
        if arguments[:1] == ["launch"]:  # one process of those that it would start, alone
            with launch.make_context("launch", arguments[1:]) as context:
                arguments = list(context.params["arguments"])
        added = shlex.split(SMALL.get(" ".join(arguments[:2]), ""))
        if not arguments or arguments[0].startswith("--"):
            run = run_of(arguments)
            if self._is_full and not run.exists():
                self._plan = self._main([*arguments, "--dry-run"], command)
            added += shlex.split(instead_of_training(arguments, later))
            self._small_places.add(str(run))
            arguments = ["--replicas" if argument == "--gpus" else argument for argument in arguments]
        is_whole = not (added or self._names_what_is_small(command))
        if not is_whole and "--out" in arguments:
            self._small_places.add(arguments[arguments.index("--out") + 1])
        self._main([*arguments, *added], command)
        self._end(is_whole=is_whole)

    def not_printed(self, text):
        """Returns the lines of a block that what is above it has not printed; none if that is smaller."""
        printed, plan = self._printed, self._plan
        self._printed = self._plan = None
        if printed is not None:
            return lines_besides(text, printed)
        if plan is None:
            return []
        names = {line[:12] for line in plan.splitlines()}
        of_plan = [line for line in text.splitlines() if line[:12] in names]
        trained = re.findall(r"^trained \d+ steps", text, re.MULTILINE)
        steps = re.search(r"^steps +(\d+)", plan, re.MULTILINE)[1]
        return lines_besides("\n".join([*of_plan, *trained]), f"{plan}\ntrained {steps} steps")

    def _main(self, arguments, command):
        self._monkeypatch.setattr(sys, "argv", ["estimator_train", *arguments])
        with pytest.raises(SystemExit) as end:
            main()
        assert not end.value.code, command
        return self._capsys.readouterr().out if "--dry-run" in arguments[-1:] else None

    def _end(self, is_whole):
        out, errors = self._capsys.readouterr()
        self.output += out
        logged = [f"{each.levelname}:{each.name}:{each.getMessage()}" for each in self._caplog.records]
        self._caplog.clear()
        self._printed = "\n".join([out, errors, *logged]) if is_whole else None

    def _names_what_is_small(self, text):
        return any(place in text for place in self._small_places)


def lines_besides(text, printed):
    """Returns the lines of a page's block that are no lines of what was printed.

    Metrics, of lines with decimals, may differ by SPREAD; all other numbers are the same, and times are not compared.
    """
    lines = printed.splitlines()
    return [line for line in text.splitlines() if line != "..." and not any(is_like(line, each) for each in lines)]


def is_like(line, printed):
    line, printed = (" ".join(TIME.sub("", each).split()) for each in (line, printed))
    if NUMBER.split(line) != NUMBER.split(printed):
        return False
    numbers, others = ([float(each.replace(",", "")) for each in NUMBER.findall(text)] for text in (line, printed))
    if "." not in "".join(NUMBER.findall(line)):
        return numbers == others
    return others == pytest.approx(numbers, **SPREAD)


def instead_of_training(arguments, later):
    """Returns flags that make training short, or only plan it."""
    flags, run = dict(itertools.pairwise([*arguments, ""])), run_of(arguments)
    if "--resume" in flags:  # a page's first goes on with the run
        return RESUME if (run / "model.ckpt-2.index").exists() and not resumed(run) else f"{RESUME} --dry-run"
    if run.exists() or not any(str(run) in command for command in later):
        return ONLY_PLAN
    return TRAIN_OWN if "--input-fn" in flags else TRAIN


def run_of(arguments):
    flags = dict(itertools.pairwise([*arguments, ""]))
    name = "own" if "--input-fn" in flags else flags.get("--dataset", "synthetic_oct")
    return Path(flags.get("--model-dir", f"runs/{name}"))


def resumed(run):
    return (run / "model.ckpt-3.index").exists()


def smaller_cnn(image_size, head):
    model = keras.Sequential([keras.Input((*image_size, 3)), keras.layers.Conv2D(2, 3)])
    for layer in [keras.layers.GlobalMaxPooling2D(), *head.layers()]:
        model.add(layer)
    head.compile(model, keras.optimizers.Adam())
    return model


def small_backbone(input_shape, include_top, pooling, weights):
    return keras.Sequential(
        [keras.Input(input_shape), keras.layers.Conv2D(2, 3), keras.layers.GlobalAveragePooling2D()]
    )


def draw(folder, classes):
    for name, number in classes.items():
        for index in range(number):
            draw_image(folder / name / f"{index}.jpeg")


def draw_oct2017(folder):
    """Two patients a class to train on, two images of each, and one to evaluate on."""
    for name in oct2017.CLASS_NAMES:
        for split, images in (("train", ("1-1", "1-2", "2-1", "2-2")), ("test", ("3-1",))):
            for image in images:
                draw_image(folder / split / name / f"{name}-{name.encode()[0]}{image}.jpeg")


def draw_image(path):
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.random.default_rng(1).integers(0, 255, (40, 48)).astype("uint8")
    Image.fromarray(pixels).save(path)


def zip_oct2017(path):
    shutil.make_archive(str(path.with_suffix("")), "zip", root_dir=".", base_dir="OCT2017")
    return path


def write_tfrecord_files(folder):
    folder.mkdir()
    (folder / "labels.txt").write_text("healthy\nill\n")
    for name in ("train", "test"):
        write_records(folder / f"{name}.tfrecord", [(np.zeros((8, 8, 1), np.uint8), label) for label in (0, 1)])
