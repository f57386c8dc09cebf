"""A training on a dataset or an input_fn: resolved from flags, checked, shown and started."""

import contextlib
import dataclasses
import os
from types import SimpleNamespace

import click
from click.core import ParameterSource

from estimator_train._engine.host import launchers
from estimator_train._engine.host.checkpoint_files import damage_of_files
from estimator_train._engine.host.cluster_task import this_task
from estimator_train._engine.host.gpu_devices import is_gpu_there
from estimator_train._engine.host.paths import absolute, as_path, is_remote
from estimator_train.app import datasets, models
from estimator_train.app.cli import changed_images, directories
from estimator_train.app.cli.conflicts import flag_of
from estimator_train.app.cli.errors import one_line_errors
from estimator_train.app.cli.image_cache import with_default_cache
from estimator_train.app.cli.messages import on_terminal
from estimator_train.app.cli.plan import plan
from estimator_train.app.cli.settings import Settings, Training, optimization_of
from estimator_train.app.cli.startup import starting_tensorflow, verbosity_of
from estimator_train.app.cli.stored_settings import check_same, load_settings, read, saying_data_may_have_moved
from estimator_train.app.cli.table import given_of
from estimator_train.app.cli.training_run import Run
from estimator_train.app.datasets.held_out import BY_NAME, BY_RANK
from estimator_train.app.datasets.images import ImageFiles
from estimator_train.app.runs import StoredRun, checkpoints, run_file, trust
from estimator_train.app.runs.monitor import Monitor
from estimator_train.app.runs.progress import Progress

_VALIDATION = 0.1  # of the training examples, to choose on
_FOR_ONE_PROCESS = {  # flags, and what to do about them in a cluster
    "find_learning_rate": "unset TF_CONFIG",
    "callbacks": "unset TF_CONFIG, or leave it out",
    "replicas": "in TF_CONFIG's cluster every worker is a replica",
    "phases": "unset TF_CONFIG",
}


def resolve(flags: SimpleNamespace) -> Run:
    """Returns the run that the flags describe; opens its dataset, which may be drawn or downloaded for it."""
    imports = launchers.is_one_of_several_of_slurm()
    with one_line_errors(), starting_tensorflow(verbosity_of(flags)) if imports else contextlib.nullcontext():
        lacks_evaluator = launchers.set_tf_config()
        task = this_task()
    _check_cluster(flags, task, lacks_evaluator)
    model_dir = directories.model_dir_of(flags)
    _check_place(flags, model_dir, task)
    _check_weights(flags, model_dir)
    sources = _defaults_of_environment(flags)
    if not flags.input_fn and not flags.dataset:
        if flags.data_dir:
            sources["data"] = "--data-dir"
        flags.dataset = directories.dataset_of(flags)
    directories.check_not_a_class(model_dir, "--model-dir", flags.dataset, flags.data_dir)

    progress = Progress()
    if not flags.find_learning_rate:
        with one_line_errors():
            progress = Progress.of(model_dir, checkpoints.newest(model_dir))
    settings, data, missing = _settings(flags, model_dir, progress)
    training, finds_rate = _training(flags, settings, data), flags.find_learning_rate
    run = Run(settings, training, data, model_dir, task, verbosity_of(flags), finds_rate, sources, missing, progress)
    if _leaves_cache_open(flags, model_dir):
        return with_default_cache(run)
    return run


def _settings(flags, model_dir, progress):
    """Returns the settings, filled by the dataset, and what `_opened` does: the dataset, and what is missing of it."""
    earlier = load_settings(model_dir)
    settings = Settings(**given_of(vars(flags), Settings), class_names=(), held_out_by=_rule(flags, earlier))
    data, missing = _opened(settings, flags)
    if settings.validation is None and (flags.early_stopping or flags.keep_best):
        settings, data = _with_validation(settings, data, earlier)
    settings = settings.filled_by(data)
    if earlier is not None and flags.resume and progress.step:  # its model has them; data may grow
        settings = dataclasses.replace(settings, label_moments=earlier.label_moments)
    if settings.data_dir:
        settings = dataclasses.replace(settings, data_dir=absolute(settings.data_dir))
    return settings, data, missing


def _rule(flags, earlier):
    """Returns the rule that holds out examples: that of the run which is resumed or repeated, if it is one."""
    if earlier is not None:
        return earlier.held_out_by
    if flags.config:
        return read(flags.config)["settings"].get("held_out_by", BY_RANK)
    return BY_NAME


def _training(flags, settings, data):
    training = Training(**given_of(vars(flags), Training))
    if training.cache == "none":
        training = dataclasses.replace(training, cache=None)
    if training.early_stopping:
        training = dataclasses.replace(training, keep_best=True)
    if data and not (training.epochs or training.max_steps or settings.phases):
        training = dataclasses.replace(training, epochs=data.epochs_for(settings.batch_size))
    return training


def _leaves_cache_open(flags, model_dir):
    """Returns whether neither a flag nor the run that is repeated says what is kept of the images.

    Runs of earlier versions kept nothing unless a flag said so, and go on without.
    """
    if flags.cache:
        return False
    path = flags.config
    if flags.resume and path is None:
        path = run_file.path_in(model_dir)
    if path is None or not as_path(path).exists():
        return True
    return read(path).get("chooses_cache", False)


def _with_validation(settings, data, earlier):
    """Holds out a share of the training examples if there are none to choose on; not all datasets can.

    A task of a cluster may start after the chief has written run.json: it holds out what the `earlier` settings say.
    """
    share = _VALIDATION
    if earlier is not None:
        share = earlier.validation
    if data is None or data.validation_examples or share is None:
        return settings, data
    holding_out = dataclasses.replace(settings, validation=share)
    with contextlib.suppress(ValueError):
        return holding_out, holding_out.holding_out(data)
    return settings, data


def check(run: Run) -> None:
    """Rejects settings that do not fit the dataset, the model, or the run that is resumed."""
    settings, training = run.settings, run.training
    if settings.input_fn and ":" not in settings.model:
        raise click.ClickException(
            f"--model {settings.model} is for the classes of a dataset; with --input-fn, give a FILE:FUNCTION that "
            "returns a compiled Keras model"
        )
    _check_flags_of_files(run)
    if training.cache not in (None, "memory", "features"):
        directories.check_directory(training.cache, "--cache")
    earlier = load_settings(run.model_dir)
    if earlier is not None and not run.finds_rate:
        now = settings
        if run.missing:
            now = dataclasses.replace(now, class_names=earlier.class_names)
        check_same(dataclasses.asdict(now), dataclasses.asdict(earlier), run.model_dir)
        _check_phases(run, earlier)
    with one_line_errors():
        for each in (settings, *(phase for phase, _ in settings.in_phases())):
            if each.model:
                models.check_options(each.model, image_size=each.image_size, weights=each.weights, freeze=each.freeze)
        if run.missing:  # the other checks need the data
            return
        for first_step, last_step in run.steps_of_parts[len(run.progress.ended_phases) :]:
            optimization_of(settings, training).check_steps(last_step and last_step - first_step)
        if training.class_weights:
            datasets.class_weights(run.data, training.class_weights)
        if training.monitor:
            _check_monitor(run, Monitor.of(training.monitor))
        if training.keep_best:
            _check_kept(checkpoints.best(run.model_dir))
    if run.task.is_chief:
        directories.warn_of_lost_checkpoints(run.model_dir)
        _say_what_images_are(run, earlier)


def _say_what_images_are(run, earlier):
    """Says which images have changed since the run was trained, and which sides share some."""
    if run.data is None or run.finds_rate:
        return
    if earlier is not None and run.progress.step:
        with one_line_errors():
            changed_images.say_changes(StoredRun(run.model_dir), run.settings, run.data)
    changed_images.say_shared(run.data)


def _check_kept(best):
    """Rejects a damaged best checkpoint of earlier, which may be the result of the training."""
    if best and (damage := damage_of_files(best)):
        raise ValueError(
            f"{best}, kept by --keep-best, is damaged: {damage}; move {os.path.dirname(best)} elsewhere, and training "
            "keeps another"
        )


def _check_monitor(run, monitor):
    best = None
    if run.settings.dataset and ":" not in run.settings.model:
        monitor.check_name(run.settings.task)
    if run.training.keep_best:
        best = checkpoints.best(run.model_dir)
    monitor.check(run.settings.class_names, best)


def _check_flags_of_files(run):
    if not run.data or isinstance(run.data.train, ImageFiles):
        return
    given = vars(run.settings) | vars(run.training)
    for name in ("cache", "fast", "resize", "ignore_orientation"):
        if given[name]:
            raise click.ClickException(
                f"{flag_of(name)} is for image files, and {run.data.name} has none; leave it out"
            )


def _check_phases(run, earlier):
    """Rejects phases that are over, of a run that has had others: the step says where it is."""
    step = run.progress.step
    if not (step and run.data and earlier.phases and run.settings.phases):
        return
    if run.last_step <= step and run.settings.phases != earlier.phases:
        raise click.ClickException(
            f"--phases ends at step {run.last_step}, and {run.model_dir} is at step {step}; give its earlier phases, "
            f'too: "{earlier.phases}; {run.settings.phases}"'
        )


def show(run: Run) -> None:
    """Prints the plan; raises ClickException if the data is not where --data-dir says."""
    if run.task.is_chief:
        click.echo(on_terminal(plan(run), indent=13))
    if run.missing and not must_be_fetched(run.settings):
        raise click.ClickException(run.missing)


def check_devices(run: Run) -> None:
    """Says in a dry run, which does not start TensorFlow, that there are no GPUs; training counts them itself."""
    gpus = run.training.gpus
    if gpus and run.task.is_alone and not is_gpu_there():
        raise click.ClickException(
            f"--gpus {gpus}: this machine has no NVIDIA GPU; --replicas {gpus} trains on the CPU instead"
        )


def start(run: Run) -> int:
    """Trains and evaluates. Returns the exit code."""
    trust.remember(dataclasses.asdict(run.settings) | dataclasses.asdict(run.training))
    with starting_tensorflow(run.verbosity):
        from estimator_train.app.cli.run import rate_test, training

    if run.finds_rate:
        return rate_test.find_learning_rate(run)
    return training.run_training(run)


def must_be_fetched(flags: SimpleNamespace | Settings) -> bool:
    """Returns whether training would have to download or unpack its data; the embedded dataset is drawn instead."""
    if flags.dataset in (None, datasets.NAMES[0]):
        return False
    with one_line_errors():
        return not datasets.is_here(flags.dataset, flags.data_dir)


def _check_cluster(flags, task, lacks_evaluator):
    if task.is_alone:
        return
    # A run that evaluated on one machine may continue without evaluations.
    source = click.get_current_context().get_parameter_source("evaluate_every")
    if lacks_evaluator and source is ParameterSource.COMMANDLINE:
        raise click.ClickException(
            "evaluations during training need a task of type evaluator, and Slurm and SageMaker start none; leave out "
            "--evaluate-every, and the flags that need it"
        )
    for name, remedy in _FOR_ONE_PROCESS.items():
        if vars(flags)[name]:
            raise click.ClickException(f"{flag_of(name)} is for one process; {remedy}")


def _check_place(flags, model_dir, task):
    directories.check_place(model_dir, is_new=task.is_chief and not (flags.resume or flags.find_learning_rate))
    trackers = [name for name in flags.log or () if name != "csv"]
    if trackers and is_remote(model_dir):
        raise click.ClickException(
            f"--log {trackers[0]} needs a local --model-dir, and {model_dir} is remote; leave it out"
        )
    if run_file.path_in(model_dir).exists() or flags.dataset or flags.data_dir or flags.input_fn:
        return
    if checkpoints.listed(model_dir):
        raise click.ClickException(
            f"{model_dir} holds a run whose run.json is missing; give --dataset or --input-fn, and its other flags"
        )
    if flags.resume:
        raise click.ClickException(
            f"--resume: {model_dir} holds no run; give the folder of one as --model-dir, or --dataset or --input-fn to "
            "start one"
        )


def _check_weights(flags, model_dir):
    """Rejects a file of initial weights that cannot be read, unless a checkpoint of the run replaces them.

    The model of a FILE:FUNCTION gets them nevertheless; see `build_model`.
    """
    if flags.find_learning_rate or ":" in (flags.model or "") or not checkpoints.listed(model_dir):
        with one_line_errors():
            models.check_weights(flags.weights)


def _opened(settings, flags):
    """Returns the dataset and None, or in a dry run of data that is not here, None and what is missing."""
    if must_be_fetched(flags):
        if flags.dry_run:
            return None, _fetching(flags)
        _check_gpus(flags)
    source, explaining = click.get_current_context().get_parameter_source("data_dir"), contextlib.nullcontext()
    if source is ParameterSource.DEFAULT_MAP:  # of an earlier run
        explaining = saying_data_may_have_moved()
    try:
        with explaining:
            return settings.open_data(draw=not flags.dry_run), None
    except click.ClickException as error:
        if not (flags.dry_run and isinstance(error.__cause__, FileNotFoundError)):
            raise
        return None, error.message


def _fetching(flags):
    about = datasets.named(flags.dataset).ABOUT
    origin = f"from {about.source}"
    if about.size != "any":
        origin = f"{about.size}, {origin}"
    if flags.dataset == "oct2017" and flags.data_dir:
        return f"not here; training unpacks it first ({origin})"
    return f"not here; training downloads it first ({origin})"


def _check_gpus(flags):
    """Before anything is downloaded or unpacked, checks that there are the GPUs to train on."""
    if flags.gpus:
        with starting_tensorflow(verbosity_of(flags)):
            from estimator_train.app.cli.run import devices

        devices.choose(flags.gpus)


def _defaults_of_environment(flags):
    """Sets --data-dir from the environment if it is not given; returns {fact of the plan: environment variable}."""
    sources = {}
    if flags.dataset and not flags.data_dir:
        flags.data_dir, channels = directories.data_dir_of_environment()
        if channels:
            sources["files"] = channels
    if click.get_current_context().get_parameter_source("model_dir") is ParameterSource.ENVIRONMENT:
        sources["folder"] = next(name for name in directories.MODEL_DIR_VARIABLES if os.environ.get(name))
    return sources
