"""A training on a dataset or an input_fn: resolved from settings, checked, shown and started."""

import contextlib
import dataclasses
import os
from collections.abc import Callable, Collection, Mapping
from typing import Any

import click

from estimator_train._engine.host import launchers
from estimator_train._engine.host.checkpoint_files import damage_of_files
from estimator_train._engine.host.cluster_task import ClusterTask, this_task
from estimator_train._engine.host.files import quoted
from estimator_train._engine.host.gpu_devices import is_gpu_there
from estimator_train._engine.host.paths import absolute, as_path, is_remote
from estimator_train.app import datasets, models
from estimator_train.app.datasets.dataset import Dataset
from estimator_train.app.datasets.held_out import BY_NAME, BY_RANK
from estimator_train.app.datasets.images import ImageFiles
from estimator_train.app.errors import SettingError, one_line_errors, spelled
from estimator_train.app.running import changed_images, directories
from estimator_train.app.running.image_cache import with_default_cache
from estimator_train.app.running.messages import on_terminal
from estimator_train.app.running.opened_run import saying_data_may_have_moved
from estimator_train.app.running.plan import plan
from estimator_train.app.running.planned_run import PlannedRun
from estimator_train.app.running.startup import starting_tensorflow
from estimator_train.app.runs import StoredRun, checkpoints, run_file, trust
from estimator_train.app.runs.fields import given_of, settings_in, text_of
from estimator_train.app.runs.monitor import Monitor
from estimator_train.app.runs.progress import Progress
from estimator_train.app.runs.spec import Settings, Training, optimization_of

_VALIDATION = 0.1  # of the training examples, to choose on
_FOR_ONE_PROCESS = {  # settings, and what to do about them in a cluster
    "find_learning_rate": "unset TF_CONFIG",
    "callbacks": "unset TF_CONFIG, or leave it out",
    "replicas": "in TF_CONFIG's cluster every worker is a replica",
    "phases": "unset TF_CONFIG",
}


@dataclasses.dataclass(frozen=True)
class Request:
    """A training that somebody asks for; `settings` include those of a run that it repeats."""

    settings: Mapping[str, Any]
    given: Collection[str]  # names of those that this call gives; the others are an earlier run's
    model_dir: str | None = None  # None for the default
    repeats: str | os.PathLike[str] | None = None  # the run.json of a run that is repeated elsewhere
    resumes: bool = False
    finds_rate: bool = False  # whether it only tries learning rates, and keeps nothing else
    only_plans: bool = False  # whether nothing is drawn or downloaded for it
    verbosity: str = "normal"  # or "quiet" or "verbose"
    sources: Mapping[str, str] = dataclasses.field(default_factory=dict)  # of facts that no setting sets
    command: str | None = None  # the command line, if it is one

    def get(self, name: str) -> Any:
        """Returns the value of a setting, None if there is none."""
        return self.settings.get(name)


def resolve(request: Request) -> PlannedRun:
    """Returns the run that is asked for; opens its dataset, which may be drawn or downloaded for it."""
    imports = launchers.is_one_of_several_of_slurm()
    with one_line_errors(), starting_tensorflow(request.verbosity) if imports else contextlib.nullcontext():
        lacks_evaluator = launchers.set_tf_config()
        task = this_task()
    _check_cluster(request, task, lacks_evaluator)
    model_dir = directories.model_dir_of(request.model_dir, request.settings)
    _check_place(request, model_dir, task)
    _check_weights(request, model_dir)
    request, sources = _with_data_named(request)
    directories.check_not_a_class(model_dir, "model_dir", request.get("dataset"), request.get("data_dir"))

    progress = Progress()
    if not request.finds_rate:
        with one_line_errors():
            progress = Progress.of(model_dir, checkpoints.newest(model_dir))
    settings, data, missing = _settings(request, model_dir, progress)
    training = _training(request, settings, data)
    how = request.verbosity, request.finds_rate
    run = PlannedRun(settings, training, data, model_dir, task, *how, sources, missing, progress, request.command)
    if _leaves_cache_open(request, model_dir):
        return with_default_cache(run)
    return run


def _with_data_named(request: Request) -> tuple[Request, dict[str, str]]:
    """Returns the request with its dataset and data_dir, and {fact of the plan: what has set it, if not a setting}."""
    settings, sources = dict(request.settings), dict(request.sources)
    if request.get("dataset") and not request.get("data_dir"):
        settings["data_dir"], channels = directories.data_dir_of_environment()
        if channels:
            sources["files"] = channels
            request = dataclasses.replace(request, given={*request.given, "data_dir"})
    if not request.get("input_fn") and not request.get("dataset"):
        if request.get("data_dir"):
            sources["data"] = spelled("{data_dir}")
        settings["dataset"] = directories.dataset_of(None, request.get("data_dir"))
    return dataclasses.replace(request, settings=settings), sources


def _settings(
    request: Request, model_dir: str, progress: Progress
) -> tuple[Settings, Dataset | None, str | SettingError | None]:
    """Returns the settings, filled by the dataset, and what `_opened` does: the dataset, and what is missing of it."""
    earlier = _earlier(model_dir)
    given = given_of(request.settings, Settings)
    settings = Settings(**given, class_names=(), held_out_by=_rule(request, earlier))
    data, missing = _opened(settings, request)
    if settings.validation is None and (request.get("early_stopping") or request.get("keep_best")):
        settings, data = _with_validation(settings, data, earlier)
    settings = settings.filled_by(data)
    if earlier is not None and request.resumes and progress.step:  # its model has them; data may grow
        settings = dataclasses.replace(settings, label_moments=earlier.label_moments)
    if settings.data_dir:
        settings = dataclasses.replace(settings, data_dir=absolute(settings.data_dir))
    return settings, data, missing


def _earlier(model_dir: str) -> Settings | None:
    """Returns the settings of the run in a directory, or None."""
    spec = run_file.spec_in(model_dir)
    if spec is None:
        return None
    return spec.settings


def _rule(request: Request, earlier: Settings | None) -> str:
    """Returns the rule that holds out examples: that of the run which is resumed or repeated, if it is one."""
    if earlier is not None:
        return earlier.held_out_by
    if request.repeats:
        return run_file.read(request.repeats)["settings"].get("held_out_by", BY_RANK)
    return BY_NAME


def _training(request: Request, settings: Settings, data: Dataset | None) -> Training:
    training = Training(**given_of(request.settings, Training))
    if training.cache == "none":
        training = dataclasses.replace(training, cache=None)
    if training.early_stopping:
        training = dataclasses.replace(training, keep_best=True)
    if data and not (training.epochs or training.max_steps or settings.phases):
        training = dataclasses.replace(training, epochs=data.epochs_for(settings.batch_size or data.default_batch_size))
    return training


def _leaves_cache_open(request: Request, model_dir: str) -> bool:
    """Returns whether neither this call nor the run that is repeated says what is kept of the images.

    Runs of earlier versions kept nothing unless a flag said so, and go on without.
    """
    if request.get("cache"):
        return False
    path = request.repeats
    if request.resumes and path is None:
        path = run_file.path_in(model_dir)
    if path is None or not as_path(path).exists():
        return True
    return run_file.read(path).get("chooses_cache", False)


def _with_validation(
    settings: Settings, data: Dataset | None, earlier: Settings | None
) -> tuple[Settings, Dataset | None]:
    """Holds out a share of the training examples if there are none to choose on; not all datasets can.

    A task of a cluster may start after the chief has written run.json: it holds out what the `earlier` settings say.
    """
    share: float | None = _VALIDATION
    if earlier is not None:
        share = earlier.validation
    if data is None or data.validation_examples or share is None:
        return settings, data
    holding_out = dataclasses.replace(settings, validation=share)
    with contextlib.suppress(ValueError):
        return holding_out, holding_out.holding_out(data)
    return settings, data


def check(run: PlannedRun) -> None:
    """Rejects settings that do not fit the dataset, the model, or the run that is resumed."""
    settings, training = run.settings, run.training
    if settings.input_fn and ":" not in settings.model:
        raise SettingError(
            "{model} {0} is for the classes of a dataset; with {input_fn}, give a FILE:FUNCTION that returns a "
            "compiled Keras model",
            settings.model,
        )
    _check_flags_of_files(run)
    if training.cache not in (None, "memory", "features"):
        directories.check_directory(training.cache, "cache")
    earlier = _earlier(run.model_dir)
    if earlier is not None and not run.finds_rate:
        now = settings
        if run.missing:
            now = dataclasses.replace(now, class_names=earlier.class_names)
        _check_same(dataclasses.asdict(now), dataclasses.asdict(earlier), run.model_dir)
        _check_phases(run, earlier)
    with one_line_errors():
        for each in (settings, *(phase for phase, _ in settings.in_phases())):
            if each.model:
                models.check_options(each.model, image_size=each.image_size, weights=each.weights, freeze=each.freeze)
        if run.missing:  # the other checks need the data
            return
        for first_step, last_step in run.steps_of_stages[len(run.progress.ended_phases) :]:
            optimization_of(settings, training).check_steps(last_step and last_step - first_step)
        if training.class_weights and run.data:
            datasets.class_weights(run.data, training.class_weights)
        if training.monitor:
            _check_monitor(run, Monitor.of(training.monitor))
        if training.keep_best:
            _check_kept(checkpoints.best(run.model_dir))
    if run.task.is_chief:
        directories.warn_of_lost_checkpoints(run.model_dir)
        _say_what_images_are(run, earlier)


def _say_what_images_are(run: PlannedRun, earlier: Settings | None) -> None:
    """Says which images have changed since the run was trained, and which sides share some."""
    if run.data is None or run.finds_rate:
        return
    if earlier is not None and run.progress.step:
        with one_line_errors():
            changed_images.say_changes(StoredRun(run.model_dir), run.settings, run.data)
    changed_images.say_shared(run.data)


def _check_kept(best: str | None) -> None:
    """Rejects a damaged best checkpoint of earlier, which may be the result of the training."""
    if best and (damage := damage_of_files(best)):
        raise SettingError(
            "{0}, kept by {keep_best}, is damaged: {1}; move {2} elsewhere, and training keeps another",
            *(best, damage, os.path.dirname(best)),
        )


def _check_monitor(run: PlannedRun, monitor: Monitor) -> None:
    best = None
    if run.settings.dataset and ":" not in run.settings.model:
        monitor.check_name(run.settings.task)
    if run.training.keep_best:
        best = checkpoints.best(run.model_dir)
    monitor.check(run.settings.class_names, best)


def _check_flags_of_files(run: PlannedRun) -> None:
    if not run.data or isinstance(run.data.train, ImageFiles):
        return
    given = vars(run.settings) | vars(run.training)
    for name in ("cache", "fast", "resize", "ignore_orientation"):
        if given[name]:
            raise SettingError(f"{{{name}}} is for image files, and {{0}} has none; leave it out", run.data.name)


def _check_phases(run: PlannedRun, earlier: Settings) -> None:
    """Rejects phases that are over, of a run that has had others: the step says where it is."""
    step, last_step = run.progress.step, run.last_step
    if not (step and last_step and run.data and earlier.phases and run.settings.phases):
        return
    if last_step <= step and run.settings.phases != earlier.phases:
        raise SettingError(
            '{phases} ends at step {0}, and {1} is at step {2}; give its earlier phases, too: "{3}; {4}"',
            last_step,
            run.model_dir,
            step,
            earlier.phases,
            run.settings.phases,
        )


def _check_same(settings: Mapping[str, Any], earlier: Mapping[str, Any], model_dir: str) -> None:
    """Rejects other settings than the `earlier` ones of the run in `model_dir`.

    Some may change: files may have moved, a resumed run may train other layers, and `Training` is never fixed. Nor are
    what the data alone decides, the mean and deviation of its numbers, of a run that has no step yet.
    """
    free = settings_in(Training).keys() | {name for name, each in settings_in(Settings).items() if each.may_change}
    free.add("label_moments")
    for name, ours in settings.items():
        theirs = earlier.get(name)
        if ours != theirs and name not in free:
            said: Callable[[Any], str] = quoted if name == "class_names" else text_of
            raise SettingError(
                "the run in {0} has {1} {2}, not {3}; continue with the same, or give another {model_dir}",
                model_dir,
                name,
                said(theirs),
                said(ours),
            )


def show(run: PlannedRun) -> None:
    """Prints the plan; raises SettingError if the data is not where data_dir says."""
    if run.task.is_chief:
        click.echo(on_terminal(plan(run), indent=13))
    if run.missing and not must_be_fetched(run.settings.dataset, run.settings.data_dir):
        raise SettingError("{0}", run.missing)


def check_devices(run: PlannedRun) -> None:
    """Says in a dry run, which does not start TensorFlow, that there are no GPUs; training counts them itself."""
    gpus = run.training.gpus
    if gpus and run.task.is_alone and not is_gpu_there():
        raise SettingError("{gpus} {0}: this machine has no NVIDIA GPU; {replicas} {0} trains on the CPU instead", gpus)


def start(run: PlannedRun) -> int:
    """Trains and evaluates. Returns the exit code."""
    trust.remember(dataclasses.asdict(run.settings) | dataclasses.asdict(run.training))
    with starting_tensorflow(run.verbosity):
        from estimator_train.app.running import rate_test, training

    if run.finds_rate:
        return rate_test.find_learning_rate(run)
    return training.run_training(run)


def must_be_fetched(dataset: str | None, data_dir: str | None) -> bool:
    """Returns whether training would have to download or unpack its data; the embedded dataset is drawn instead."""
    if dataset in (None, datasets.NAMES[0]):
        return False
    with one_line_errors():
        return not datasets.is_here(dataset, data_dir)


def _check_cluster(request: Request, task: ClusterTask, lacks_evaluator: bool) -> None:
    if task.is_alone:
        return
    # A run that evaluated on one machine may continue without evaluations.
    if lacks_evaluator and request.get("evaluate_every") and "evaluate_every" in request.given:
        raise SettingError(
            "evaluations during training need a task of type evaluator, and Slurm and SageMaker start none; leave out "
            "{evaluate_every}, and what needs it"
        )
    names = [name for name in _FOR_ONE_PROCESS if request.get(name)]
    if request.finds_rate:
        names.insert(0, "find_learning_rate")
    for name in names:
        raise SettingError(f"{{{name}}} is for one process; {{0}}", _FOR_ONE_PROCESS[name])


def _check_place(request: Request, model_dir: str, task: ClusterTask) -> None:
    directories.check_place(model_dir, is_new=task.is_chief and not (request.resumes or request.finds_rate))
    trackers = [name for name in request.get("log") or () if name != "csv"]
    if trackers and is_remote(model_dir):
        raise SettingError(
            "{log} {0} needs a local {model_dir}, and {1} is remote; leave it out", trackers[0], model_dir
        )
    if run_file.path_in(model_dir).exists() or any(map(request.get, ("dataset", "data_dir", "input_fn"))):
        return
    if checkpoints.listed(model_dir):
        raise SettingError(
            "{0} holds a run whose run.json is missing; give {dataset} or {input_fn}, and its other settings", model_dir
        )
    if request.resumes:
        raise SettingError(
            "{resume}: {0} holds no run; give the folder of one as {model_dir}, or {dataset} or {input_fn} to start "
            "one",
            model_dir,
        )


def _check_weights(request: Request, model_dir: str) -> None:
    """Rejects a file of initial weights that cannot be read, unless a checkpoint of the run replaces them.

    The model of a FILE:FUNCTION gets them nevertheless; see `build_model`.
    """
    if request.finds_rate or ":" in (request.get("model") or "") or not checkpoints.listed(model_dir):
        with one_line_errors():
            models.check_weights(request.get("weights"))


def _opened(settings: Settings, request: Request) -> tuple[Dataset | None, str | SettingError | None]:
    """Returns the dataset and None, or in a dry run of data that is not here, None and what is missing."""
    if settings.dataset and must_be_fetched(settings.dataset, settings.data_dir):
        if request.only_plans:
            return None, _fetching(settings.dataset, settings.data_dir)
        _check_gpus(request)
    explaining: contextlib.AbstractContextManager[None] = contextlib.nullcontext()
    if settings.data_dir and "data_dir" in request.settings and "data_dir" not in request.given:  # of an earlier run
        explaining = saying_data_may_have_moved()
    try:
        with explaining:
            return settings.open_data(draw=not request.only_plans), None
    except SettingError as error:
        if not (request.only_plans and isinstance(error.__cause__, FileNotFoundError)):
            raise
        return None, error


def _fetching(dataset: str, data_dir: str | None) -> str:
    about = datasets.named(dataset).ABOUT
    origin = f"from {about.source}"
    if about.size != "any":
        origin = f"{about.size}, {origin}"
    if dataset == "oct2017" and data_dir:
        return f"not here; training unpacks it first ({origin})"
    return f"not here; training downloads it first ({origin})"


def _check_gpus(request: Request) -> None:
    """Before anything is downloaded or unpacked, checks that there are the GPUs to train on."""
    if request.get("gpus"):
        with starting_tensorflow(request.verbosity):
            from estimator_train.app.running import devices

        devices.choose(request.get("gpus"))
