"""A training on a dataset is resolved from its flags, or from a run and the flags that replace its own."""

import dataclasses
import json
import sys

import pytest
from pretended_checkpoints import pretend

from estimator_train.app.running import planning

NOTHING = "; the run is at step 5 already, so nothing is left to train"
PHASES = "freeze=all epochs=1; freeze=none epochs=2"
EARLY = {"epochs": 3, "evaluate_every": 1, "early_stopping": 2, "monitor": "accuracy:max"}


@pytest.fixture
def resolve(scans):
    """Resolves a training with these settings on `scans`, and the arguments of `Request`."""
    arguments = {field.name for field in dataclasses.fields(planning.Request)}

    def resolve(**given):
        settings = {"dataset": "images", "data_dir": str(scans)}
        settings |= {name: value for name, value in given.items() if name not in arguments}
        how = {name: value for name, value in given.items() if name in arguments}
        return planning.resolve(planning.Request(settings, settings.keys(), **how))

    return resolve


@pytest.fixture
def stored(scans, tmp_path):
    """Writes the run.json of a run on `scans` and returns its path."""

    def stored(training, **settings):
        base = {"dataset": "images", "data_dir": str(scans), "model": "vgg16", "image_size": [64, 64]}
        base |= {"batch_size": 4, "class_names": ["bright", "dark"], "task": "classification"}
        (tmp_path / "run.json").write_text(json.dumps({"settings": base | settings, "training": training}))
        return str(tmp_path / "run.json")

    return stored


@pytest.fixture
def started(stored, tmp_path):
    """Writes a run of 4 epochs that has begun with `train` examples, and is at step 5."""

    def started(train):
        path = stored({"epochs": 4})
        about = {"last_step": train, "batches_per_step": 1, "data": {"train": train}}
        with open(path) as file:
            run = json.load(file) | about
        with open(path, "w") as file:
            json.dump(run, file)
        pretend(tmp_path, 5)

    return started


@pytest.fixture
def stopped_early(stored, tmp_path):
    """Writes a run in phases whose first one has stopped at step 2, and its newest checkpoint."""

    def stopped_early(step, **training):
        stored(training, phases=PHASES)
        about = json.loads((tmp_path / "run.json").read_text()) | {"last_step": 8, "phase_ends": [2]}
        (tmp_path / "run.json").write_text(json.dumps(about))
        pretend(tmp_path, step)

    return stopped_early


@pytest.fixture
def plan(command):
    def plan(*arguments):
        code, output, errors = command(*arguments, "--dry-run")
        assert (code, errors) == (0, "")
        return {line[:12].rstrip(): line[13:] for line in output.splitlines()}

    return plan


def test_what_flags_leave_open_comes_from_the_dataset(resolve):
    run = resolve(epochs=2, only_plans=True)
    assert (run.settings.model, run.settings.class_names) == ("mobilenet_v2", ("bright", "dark"))
    assert (run.training.epochs, run.training.steps_per_loop) == (2, "auto")
    assert run.last_step == 2 * run.steps_per_epoch
    assert run.verbosity == "normal"


def test_a_rate_test_ends_after_its_own_steps(resolve):
    assert resolve(finds_rate=True, only_plans=True).last_step == 100


def test_epochs_count_on_where_a_run_is_resumed_on_other_devices(resolve, started, tmp_path):
    started(12)  # after 5 steps in epochs of 3, which are 3 steps in epochs of 2
    given = {"model_dir": str(tmp_path), "resumes": True, "epochs": 4, "batch_size": 4, "only_plans": True}
    assert resolve(**given).first_step == 0
    run = resolve(**given, replicas=2)
    assert (run.steps_per_epoch, run.first_step, run.last_step) == (2, 2, 10)


@pytest.mark.parametrize(
    "odd",
    [{"last_step": "9"}, {"batches_per_step": 0}, {"data": [1]}, {"data": {"train": "12"}}, {"last_step": 10**99}],
)
def test_odd_facts_of_a_run_do_not_decide_where_its_epochs_end(plan, started, tmp_path, odd):
    started(12)
    path = tmp_path / "run.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | odd))
    assert plan("--model-dir", tmp_path, "--resume", "--model", "vgg16")["steps"] == "12: 4 epochs of 3 steps"


def test_phases_set_the_last_step(resolve):
    run = resolve(phases=PHASES, batch_size=4, only_plans=True)
    assert (run.training.epochs, run.steps_per_epoch, run.last_step) == (None, 3, 9)


def test_phases_keep_early_stopping_and_averages_of_a_repeated_run(plan, stored):
    planned = plan("--config", stored(EARLY, ema=0.9), "--phases", PHASES)
    assert planned["phases"] == PHASES
    assert planned["steps"] == "9: 3 epochs of 3 steps"
    assert "; 2 without a higher accuracy end the phase; the ch" in planned["evaluation"]
    assert planned["optimizer"] == "adam, averages with momentum 0.9"


def test_phases_replace_cached_features(plan, stored):
    planned = plan("--config", stored({"cache": "features", "epochs": 2}), "--phases", PHASES)
    assert planned["phases"] == PHASES


@pytest.mark.parametrize(
    ("step", "phases", "steps"),
    [
        (2, PHASES, "8: 2.667 epochs of 3 steps"),  # 2, and 2 epochs
        (2, f"{PHASES}; freeze=none epochs=1", "11: 3.667 epochs of 3 steps"),
        (1, PHASES, "9: 3 epochs of 3 steps"),  # a checkpoint is lost: the first phase has not ended
    ],
)
def test_a_resumed_run_knows_where_its_phases_have_ended(plan, stopped_early, tmp_path, step, phases, steps):
    stopped_early(step)
    assert plan("--model-dir", tmp_path, "--resume", "--phases", phases)["steps"] == steps


def test_a_warm_up_may_be_longer_than_a_phase_that_has_ended(plan, stopped_early, tmp_path):
    stopped_early(2, warmup_steps=2, schedule="cosine")
    assert plan("--model-dir", tmp_path, "--resume")["phases"] == PHASES


@pytest.mark.parametrize(
    ("flag", "steps"), [("--epochs", "9: 3 epochs of 3 steps"), ("--max-steps", "3: 1 epoch of 3 steps")]
)
def test_a_length_replaces_the_phases_of_a_repeated_run(plan, stored, flag, steps):
    planned = plan("--config", stored({}, phases=PHASES), flag, "3")
    assert planned["steps"] == steps
    assert "phases" not in planned


def test_a_resumed_run_can_lose_its_phases(plan, stored, tmp_path):
    stored({}, phases=PHASES)
    pretend(tmp_path, 3)
    planned = plan("--model-dir", tmp_path, "--resume", "--epochs", "4")
    assert planned["steps"] == "12: 4 epochs of 3 steps" and "phases" not in planned


def test_a_resumed_run_cannot_go_back_to_an_earlier_phase(command, stored, tmp_path):
    stored({}, phases=PHASES)
    pretend(tmp_path, 9)
    record = (tmp_path / "run.json").read_text()
    resume = ["--model-dir", tmp_path, "--resume", "--dry-run", "--phases"]
    code, _, errors = command(*resume, "freeze=none epochs=1 lr=1e-5")
    assert code == 2 and f"--phases ends at step 3, and {tmp_path} is at step 9; give its earlier phases, too" in errors
    assert f'"{PHASES}; freeze=none epochs=1 lr=1e-5"' in errors
    assert (tmp_path / "run.json").read_text() == record


@pytest.mark.parametrize(
    ("now", "steps"),
    [
        ([], "12: 4 epochs of 3 steps"),
        (["--max-steps", "300000"], "300000: 100000 epochs of 3 steps"),
        (["--accumulate-steps", "3"], "8: the rest of 4 epochs of 1 step"),  # 5 + 4 - 5/3
        (["--replicas", "2"], "10: the rest of 4 epochs of 2 steps"),  # 5 + (4 - 5/3) * 2
        (["--replicas", "2", "--epochs", "5"], "12: the rest of 5 epochs of 2 steps"),
        (["--replicas", "2", "--max-steps", "6"], "6: 3 epochs of 2 steps"),
        (["--epochs", "1"], f"3: 1 epoch of 3 steps{NOTHING}"),  # with which a later --epochs 2 ends at step 6
        (["--replicas", "8", "--epochs", "1"], "5: the rest of 1 epoch of 1 step"),  # 5 - 2/3, rounded up
        (["--max-steps", "4"], f"4: 1.333 epochs of 3 steps{NOTHING}"),
    ],
)
def test_a_run_resumed_on_other_devices_trains_its_epochs_to_the_end(now, steps, plan, started, tmp_path):
    started(train=12)
    assert plan("--model-dir", tmp_path, "--resume", *now)["steps"] == steps


def test_a_run_resumed_on_more_data_trains_epochs_of_all(plan, started, tmp_path):
    started(train=8)  # 2.5 epochs of 2 steps
    assert plan("--model-dir", tmp_path, "--resume")["steps"] == "10: the rest of 4 epochs of 3 steps"


@pytest.mark.parametrize(("step", "moments"), [(5, (50.0, 9.0)), (0, (2.5, 0.5))])
def test_a_regression_resumed_on_more_data_keeps_the_scale_of_its_model(
    step, moments, resolve, stored, scans, tmp_path
):
    rows = [
        f"{scans}/dark/{number}.jpeg,{2 + number % 2},{side}" for number, side in enumerate(["train"] * 4 + ["val"])
    ]
    (tmp_path / "numbers.csv").write_text("\n".join(["path,label,split", *rows]))
    manifest = {"dataset": "manifest", "data_dir": str(tmp_path / "numbers.csv"), "task": "regression"}
    stored({}, **manifest, class_names=[], label_moments=[50.0, 9.0])
    pretend(tmp_path, step)
    fixed = {"model": "vgg16", "image_size": (64, 64), "batch_size": 4, "model_dir": str(tmp_path), "resumes": True}
    run = resolve(**manifest, **fixed)
    planning.check(run)
    assert run.settings.label_moments == moments


def test_the_same_dataset_replaces_nothing_of_a_resumed_run(plan, stored, scans, tmp_path):
    stored({"evaluate_every": 1, "keep_best": True}, validation=0.25)
    pretend(tmp_path, 3)
    planned = plan("--model-dir", tmp_path, "--resume", "--dataset", "images")
    assert planned["files"] == str(scans)
    assert "a share of 0.25 of the training images" in planned["validation"]


@pytest.mark.parametrize("share", [0.25, None])
def test_a_late_evaluator_holds_out_what_the_run_has_held_out(share, resolve, stored, tmp_path, monkeypatch):
    task = {"cluster": {"chief": ["127.0.0.1:1"]}, "task": {"type": "evaluator", "index": 0}}
    monkeypatch.setenv("TF_CONFIG", json.dumps(task))
    stored({}, validation=share)
    same = {"model": "vgg16", "image_size": (64, 64), "batch_size": 4}
    run = resolve(**same, model_dir=str(tmp_path), evaluate_every=1, keep_best=True)
    planning.check(run)
    assert run.settings.validation == share
    assert bool(run.data.validation_examples) == bool(share)


def test_only_a_run_without_a_checkpoint_needs_its_initial_weights(command, plan, stored, tmp_path):
    path = stored({}, weights=str(tmp_path / "gone.h5"))
    pretend(tmp_path, 3)
    assert plan("--model-dir", tmp_path, "--resume")["folder"].endswith("continuing from model.ckpt-3")
    for flags in (["--config", path], ["--config", path, "--model-dir", tmp_path, "--find-learning-rate"]):
        code, _, errors = command(*flags, "--dry-run")
        assert (code, f"there is no weights file {tmp_path}/gone.h5" in errors) == (2, True)


@pytest.mark.parametrize(
    ("name", "source"), [("tfds:cifar10", "TensorFlow Datasets"), ("hf:beans", "the Hugging Face hub")]
)
def test_a_dry_run_downloads_nothing_into_a_directory(plan, name, source, monkeypatch, tmp_path):
    for package in ("tensorflow_datasets", "datasets"):
        monkeypatch.setitem(sys.modules, package, None)  # neither could be asked for the data
    planned = plan("--dataset", name, "--data-dir", tmp_path / "downloads")
    assert planned["data"] == f"{name}: not here; training downloads it first (from {source})"


@pytest.fixture
def sagemaker(monkeypatch):
    """The variables of a host of SageMaker, one of two workers; the TF_CONFIG that the command sets is removed."""
    monkeypatch.setenv("TF_CONFIG", "")
    monkeypatch.delenv("TF_CONFIG")
    monkeypatch.setenv("SM_HOSTS", '["algo-1", "algo-2"]')
    monkeypatch.setenv("SM_CURRENT_HOST", "algo-1")


def test_evaluations_that_no_task_would_make_are_refused(command, sagemaker):
    code, _, errors = command("--evaluate-every", "5", "--keep-best", "--dry-run")
    assert code == 2
    assert "need a task of type evaluator, and Slurm and SageMaker start none; leave out --evaluate-every" in errors


def test_a_run_with_evaluations_may_continue_without_an_evaluator(plan, sagemaker, stored, tmp_path):
    stored({"evaluate_every": 5})
    pretend(tmp_path, 3)
    assert plan("--model-dir", tmp_path, "--resume")["evaluation"].startswith("by a task of type evaluator, if there ")


def test_a_rate_in_a_repeated_run_with_phases_is_refused(command, stored):
    code, _, errors = command("--config", stored({}, phases=PHASES), "--learning-rate", "0.1", "--dry-run")
    assert code == 2
    assert "each of the --phases has its own freeze=, epochs= and lr=; leave out --learning-rate" in errors


def test_a_rate_test_replaces_evaluations_and_their_monitor(plan, stored):
    planned = plan("--config", stored(EARLY), "--find-learning-rate")
    assert planned["steps"].startswith("100: ") and "evaluation" not in planned


def test_another_dataset_replaces_the_data_of_a_repeated_run(plan, stored):
    of_files = {"fast": True, "resize": "crop", "ignore_orientation": True}
    path = stored({"epochs": 2, "cache": "memory"}, split="patient", model="small_cnn", **of_files)
    planned = plan("--config", path, "--dataset", "synthetic_oct")
    assert planned["data"].startswith("synthetic_oct: 800 images")
    assert planned["model"] == "small_cnn for images of 64x64"
