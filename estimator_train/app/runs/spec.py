"""The settings of a run: each field is a keyword of `et.runs.new` and a flag of `train`; see `fields.Declaration`.

A field owns its default, its kind of value, its rules, its place in the plan and, as its docstring, what it is for. The
classes say where a value goes. docs/flags.md lists them all: `python -m tests.app.cli.flag_tables` writes it.
"""

import dataclasses
import difflib
import json
import types
import typing
from collections.abc import Mapping
from typing import Any

import estimator_train as et
from estimator_train._engine.host.cluster_task import this_task
from estimator_train._engine.host.files import CONTROL, printable
from estimator_train._engine.host.paths import local, why_not_utf_8
from estimator_train.app import datasets, models
from estimator_train.app.datasets.held_out import BY_RANK, holding_out_by
from estimator_train.app.datasets.images import subdirectories
from estimator_train.app.datasets.patients import with_patients_for_validation
from estimator_train.app.errors import SettingError, one_line_errors
from estimator_train.app.models import Optimization, parse_phases
from estimator_train.app.models.backbones import CLASSES
from estimator_train.app.models.optimization import OPTIMIZERS, SCHEDULES
from estimator_train.app.runs import values as kinds
from estimator_train.app.runs.fields import rules_of, setting, settings_in
from estimator_train.app.runs.rules import Excludes, Needs, Replaces, check_rules

MOST_USED, DATA, MODEL, TRAINING = "Most used", "Data", "Model", "Training"
DEVICES, CHECKPOINTS, OUTPUT = "Devices", "Checkpoints and evaluation", "Output"

RESIZES = ("squash", "crop", "pad")  # of `input_fns.images.decoding`, which imports TensorFlow

_HAS_BATCHES = "{input_fn} decides what is in its batches; leave out {other}"
_HAS_WEIGHTS = "{class_weights} is for classification; give the weights of examples in the manifest's column weight"
_NEEDS_BACKBONE = "{other} needs a dataset and a model with a backbone of keras.applications; leave out {self}"
_NEEDS_BOTH = "{input_fn} and {eval_input_fn} go together; give both"
_HAS_PHASES = "each of the {phases} has its own freeze=, epochs= and lr=; leave out {other}"
_NEEDS_FREEZING = "{cache=features} keeps the outputs of frozen layers; leave it out, or freeze all"
_NEEDS_MOMENTUM = "{momentum} is of two optimizers; give {optimizer=sgd} or {optimizer=rmsprop}, too"
_NEEDS_EVALUATIONS = Needs(
    ("evaluate_every",), "{self} needs evaluations during training; give {evaluate_every=STEPS}, too"
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings:
    """The data and the model of a run, as given or by the dataset's defaults; run.json has them as its "settings".

    `input_fn` and `eval_input_fn`, and `model` if it is not a name, refer to the user's code as FILE:FUNCTION. With an
    input_fn, `batch_size` is None.
    """

    dataset: str | None = setting(
        MOST_USED,
        kinds.OneOf(datasets.names),
        Replaces(("data_dir", "split", "validation", "task")),
        Replaces(("cache", "fast", "resize", "ignore_orientation")),  # which are for image files
        names=datasets.NAMES,
        plan="data",
    )
    """{names}, tfds:NAME or hf:NAME.  [default: what --data-dir holds: images, oct2017, manifest or npz; else
    synthetic_oct, which is drawn]"""
    data_dir: str | None = setting(MOST_USED, kinds.Directory(), may_change=True, plan="files")
    """Directory of the dataset's files, such as class directories, or its single file, such as a .csv."""
    model: str = setting(MOST_USED, kinds.Model(lambda: models.NAMES, "TEXT"), plan="model")
    """small_cnn, fashion_mnist_cnn, a classifier of keras.applications such as mobilenet_v2 or resnet50, or
    FILE:FUNCTION that returns a compiled Keras model."""
    batch_size: int | None = setting(MOST_USED, kinds.Count(), plan="batch")
    """Images per step on each replica.  [default: the dataset's own]"""
    image_size: tuple[int, int] | None = setting(DATA, kinds.ImageSize(), plan="model")
    """Image size in pixels: one side, or height x width."""
    limit: int | None = setting(DATA, kinds.Count(2), plan="")
    """Use at most N images, keeping class proportions."""
    split: str | None = setting(DATA, kinds.Choice(["patient"]), plan="")
    """Evaluate on patients held out from training."""
    validation: float | None = setting(DATA, kinds.SHARE, _NEEDS_EVALUATIONS, plan="")
    """Hold out a share of the training images to choose a checkpoint on; 0 chooses on the evaluation images.
    [default: the dataset's own validation images, else 0.1 with --early-stopping or --keep-best]"""
    task: str = setting(
        DATA,
        kinds.Choice(models.TASKS),
        Excludes(("class_weights",), _HAS_WEIGHTS, "task=multilabel"),
        Excludes(("class_weights",), _HAS_WEIGHTS, "task=regression"),
        default="classification",
        plan="data",
    )
    """Kind of labels in --dataset manifest: a class, several labels, or a number.  [default: a class]"""
    resize: str | None = setting(DATA, kinds.Choice(RESIZES, "|".join(RESIZES)), plan="model", phrase="{} to this size")
    """How images get the size of the model: squash changes their proportions, crop cuts off two sides, pad adds black
    borders.  [default: squash]"""
    ignore_orientation: bool = setting(DATA, plan="model", phrase="not turned as their EXIF orientation says")
    """Do not turn JPEG and TIFF images as their EXIF orientation says."""
    fast: bool = setting(DATA, plan="")
    """Let the JPEG decoder scale large images down; pixel values differ."""
    input_fn: str | None = setting(
        DATA,
        kinds.Function(),
        Excludes(
            ("dataset", "data_dir"), "{input_fn} replaces {dataset} and {data_dir}; give one or the other", mutual=True
        ),
        Needs(("eval_input_fn",), _NEEDS_BOTH),
        Excludes(("epochs",), "{input_fn} decides how often it repeats its data; leave out {epochs}"),
        Excludes(("batch_size", "limit", "split", "validation", "task", "cache", "fast"), _HAS_BATCHES),
        Excludes(("resize", "ignore_orientation"), _HAS_BATCHES),
        Excludes(
            ("class_weights",),
            "{class_weights} needs a dataset's classes; return weights as the third part of the batches of {input_fn}",
        ),
        Excludes(("phases", "freeze"), _NEEDS_BACKBONE),
        Needs(("model",), "{input_fn} needs {model}, a FILE:FUNCTION that returns a compiled Keras model"),
        plan="data",
    )
    """Your own training input_fn, instead of a dataset."""
    eval_input_fn: str | None = setting(DATA, kinds.Function(), Needs(("input_fn",), _NEEDS_BOTH), plan="data")
    """Your own evaluation input_fn."""
    weights: str | None = setting(MODEL, kinds.PathOr("FILE", "imagenet", "none"), plan="model")
    """Initial weights: a file, imagenet or none."""
    freeze: str | None = setting(
        MODEL,
        kinds.Text("all|none|N|LAYER"),
        Excludes(("cache=features",), _NEEDS_FREEZING, "freeze=none"),
        may_change=True,
        plan="model",
        phrase="freeze={}",
    )
    """Backbone layers to freeze: all, none, the first N, or all up to a named layer.  [default: none with --weights
    none, else the model's own]"""
    phases: str | None = setting(
        MODEL,
        kinds.Phases(),
        Excludes(("epochs", "max_steps"), _HAS_PHASES, mutual=True),
        Excludes(("freeze", "learning_rate", "find_learning_rate"), _HAS_PHASES),
        Excludes(("cache=features",), _NEEDS_FREEZING),
        may_change=True,
    )
    """Fine-tune in phases, such as "freeze=all epochs=2 lr=1e-3; freeze=none epochs=5 lr=1e-5"."""
    dropout: float | None = setting(MODEL, kinds.SHARE, plan="model", phrase="dropout={:g}")
    """Dropout rate before the last layer."""
    optimizer: str | None = setting(TRAINING, kinds.Choice(OPTIMIZERS, "NAME"), names=OPTIMIZERS, plan="optimizer")
    """{names}, with Keras' defaults.  [default: the model's own]"""
    momentum: float | None = setting(
        TRAINING,
        kinds.MOMENTUM,
        Needs(("optimizer=sgd", "optimizer=rmsprop"), _NEEDS_MOMENTUM),
        plan="optimizer",
        phrase="momentum {:g}",
    )
    """Momentum of --optimizer sgd or rmsprop, such as 0.9.  [default: 0]"""
    ema: float | None = setting(TRAINING, kinds.MOMENTUM, plan="optimizer", phrase="averages with momentum {:g}")
    """Evaluate and export a moving average of the weights, with a momentum such as 0.999."""
    label_smoothing: float | None = setting(TRAINING, kinds.SHARE, plan="optimizer", phrase="labels smoothed by {:g}")
    """Share of each label to spread over all classes."""
    seed: int | None = setting(TRAINING, kinds.SEED, metavar="N")
    """Seed of the initial weights and the order of the images."""

    class_names: tuple[str, ...]
    label_moments: tuple[float, float] | None = None  # mean and standard deviation of a regression's training labels
    held_out_by: str = BY_RANK  # the rule of `datasets.held_out`; run.json of before does not name it

    @property
    def decoding(self):
        """Returns the arguments of `decode_image` among these settings, those of training."""
        return {"resize": self.resize or RESIZES[0], "orient": not self.ignore_orientation}

    @property
    def initial_weights(self):
        """Returns the weights that a new run starts from: imagenet, none or a file; None for the model's own."""
        if self.weights is None and self.model in CLASSES:
            return "imagenet"
        return self.weights

    def in_phases(self):
        """Returns a list of (settings, `Phase`) for each of the --phases; empty without them."""
        if not self.phases:
            return []
        phases = parse_phases(self.phases)
        return [(dataclasses.replace(self, freeze=phase.freeze, phases=None), phase) for phase in phases]

    def filled_by(self, data):
        """Returns the settings with the dataset's own where none are given; without a dataset, as they are."""
        if data is None:
            return self
        return dataclasses.replace(
            self,
            model=self.model or data.default_model,
            image_size=self.image_size or data.image_size,
            batch_size=self.batch_size or data.default_batch_size,
            class_names=data.class_names,
            label_moments=data.label_moments(),
        )

    def open_data(self, *, draw=True):
        """Opens the dataset, or returns None for an input_fn.

        Without `draw`, an embedded dataset that does not exist yet lists its future files without drawing them. It is
        never drawn into `data_dir`, where the user's own data may be expected.
        """
        if not self.dataset:
            return None
        options = {}
        if self.split:
            if self.dataset == "manifest":
                raise SettingError(
                    "{split} {0} reads the file names of oct2017; in {1}, give each row its side in the column split "
                    "(train, test or val), and leave out {split}",
                    self.split,
                    self.data_dir,
                )
            options["split"] = self.split
        if self.task != "classification":
            options["task"] = self.task
        if not draw and self.dataset == datasets.NAMES[0]:
            options["draw"] = False
        with one_line_errors(), holding_out_by(self.held_out_by):
            if self.dataset == datasets.NAMES[0] and self.data_dir:
                _check_drawn(self.data_dir)
            data = datasets.open_dataset(
                self.dataset, self.data_dir, limit=self.limit, limit_seed=self.seed or 0, **options
            )
            check_class_names(data.class_names)
            if self.validation is None:
                return data
            return self.holding_out(data)

    def holding_out(self, data):
        """Returns the dataset with its share `validation` held out for validation, with `split` by patient."""
        with holding_out_by(self.held_out_by):
            if self.split and self.validation:
                return with_patients_for_validation(data, self.validation)
            return data.with_validation(self.validation)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Training:
    """How to train: length, devices, evaluations, rates; the "training" of run.json, which --resume may change."""

    epochs: int | None = setting(MOST_USED, kinds.Count(), Excludes(("max_steps",), mutual=True), plan="steps")
    """Passes over the data.  [default: some 300 steps, at least 5 epochs, unless the dataset has its own]"""
    learning_rate: float | None = setting(MOST_USED, kinds.Number("RATE", positive=True), plan="rate")
    """Learning rate, or the peak rate of --schedule.  [default: the model's own]"""
    augment: str | None = setting(
        MOST_USED,
        kinds.Augmentations(),
        Excludes(
            ("cache=features",),
            "{cache=features} computes features once, but {augment} changes them every epoch; leave one of them out",
        ),
        names=kinds.Augmentations.NAMES,
        plan="augmentation",
    )
    """Random changes to training images, separated by commas: {names}."""
    gpus: int | None = setting(MOST_USED, kinds.Count(), Excludes(("replicas",), mutual=True), plan="devices")
    """Train on the first N GPUs."""
    cache: str | None = setting(DATA, kinds.Cache())
    """Keep decoded images, in memory or in a directory, or features: the outputs of the model's frozen layers.
    [default: features, else memory, if they take at most a tenth of the free memory]"""
    max_steps: int | None = setting(TRAINING, kinds.STEPS, plan="steps")
    """Global step to stop at, instead of --epochs."""
    accumulate_steps: int = setting(TRAINING, kinds.Count(), default=1, plan="batch", is_of_config=True)
    """Batches per replica that are combined into one update.  [default: 1]"""
    schedule: str | None = setting(TRAINING, kinds.Choice(SCHEDULES), plan="rate")
    """Learning-rate schedule up to the last step, or in each of the --phases.  [default: as the model is compiled]"""
    warmup_steps: int | None = setting(TRAINING, kinds.STEPS, plan="rate")
    """Raise the learning rate from 0 over the first N steps."""
    scale_learning_rate: bool = setting(TRAINING, plan="rate")
    """Multiply the learning rate by the number of replicas."""
    weight_decay: float | None = setting(TRAINING, kinds.Number("RATE"), plan="optimizer", phrase="weight decay {:g}")
    """Decoupled weight decay, Keras' weight_decay."""
    clip_norm: float | None = setting(
        TRAINING, kinds.Number("NORM", positive=True), plan="optimizer", phrase="gradients clipped to {:g}"
    )
    """Clip gradients to this global norm, Keras' global_clipnorm."""
    class_weights: str | None = setting(TRAINING, kinds.PathOr("balanced|FILE", "balanced"), plan="class weight")
    """Weight classes by their counts, or by a JSON or CSV file of names and weights."""
    callbacks: str | None = setting(TRAINING, kinds.Function())
    """Function that returns Keras callbacks."""
    replicas: int | None = setting(DEVICES, kinds.Count(), plan="devices")
    """Train on N CPU replicas, without GPUs."""
    all_reduce: str | None = setting(
        DEVICES,
        kinds.Choice(["nccl", "hierarchical", "one_device", "ring"]),
        Needs(("gpus", "replicas"), "{all_reduce} sums over replicas; give {gpus=N} or {replicas=N}, too"),
        plan="",
    )
    """How gradients are summed over the replicas; over workers, nccl or ring.  [default: nccl on GPUs]"""
    mixed_precision: str | None = setting(DEVICES, kinds.Choice(["bfloat16", "float16"]), plan="", is_of_config=True)
    """Compute in 16 bits."""
    recompute: bool = setting(DEVICES, plan="", is_of_config=True)
    """Recompute activations in the backward pass, to save memory."""
    jit_compile: bool = setting(DEVICES, plan="", is_of_config=True)
    """Compile the step with XLA."""
    deterministic: bool = setting(
        DEVICES, None, Needs(("seed",), "{deterministic} needs a seed; give {seed=N}, too"), plan="", is_of_config=True
    )
    """Train to the same weights, to the bit, each time; slower."""
    steps_per_loop: int | str = setting(DEVICES, kinds.CountOrAuto(), default="auto", plan="", is_of_config=True)
    """Steps per compiled call; auto: as many as hooks allow, for 0.2 seconds, 0.8 on a GPU."""
    save_checkpoints_steps: int | None = setting(CHECKPOINTS, kinds.STEPS, plan="checkpoints", is_of_config=True)
    """Steps between checkpoints.  [default: every 10 minutes]"""
    async_checkpoints: bool = setting(CHECKPOINTS, plan="", is_of_config=True)
    """Continue training while a checkpoint is written."""
    evaluate_every: int | None = setting(CHECKPOINTS, kinds.STEPS, metavar="STEPS", plan="evaluation")
    """Steps between evaluations during training."""
    early_stopping: int | None = setting(CHECKPOINTS, kinds.Count(), _NEEDS_EVALUATIONS, plan="evaluation")
    """Stop, or end one of the --phases, after N evaluations without a better loss, and keep the best checkpoint as
    --keep-best does."""
    keep_best: bool = setting(CHECKPOINTS, None, _NEEDS_EVALUATIONS, plan="evaluation")
    """Keep the evaluated checkpoint with the best loss in export/, as the result of the run."""
    monitor: str | None = setting(  # METRIC:min or METRIC:max; None: the loss
        CHECKPOINTS,
        kinds.Metric(),
        Needs(
            ("early_stopping", "keep_best"),
            "{monitor} is the metric for {early_stopping} and {keep_best}; give one of them, too",
        ),
        plan="evaluation",
    )
    """Metric for these two flags instead of the loss: accuracy, macro_f1, macro_roc_auc or any other."""
    log: tuple[str, ...] | None = setting(OUTPUT, kinds.Loggers(), names=et.loggers.NAMES)
    """Where to log metrics besides TensorBoard's events: {names}."""

    @property
    def num_replicas(self):
        """Returns the number of replicas, over all workers."""
        return this_task().num_training_tasks * (self.gpus or self.replicas or 1)

    @property
    def config_arguments(self):
        """Returns the arguments of RunConfig among these settings, without those that it chooses itself."""
        arguments = {name: getattr(self, name) for name, each in settings_in(Training).items() if each.is_of_config}
        return {name: value for name, value in arguments.items() if value is not None}


STORED = (Settings, Training)  # in run.json
RULES = rules_of(*STORED)


@dataclasses.dataclass(frozen=True)
class RunSpec:
    """The definition of a run, in the two parts that run.json stores under the same names."""

    settings: Settings
    training: Training


def optimization_of(settings: Settings, training: Training | None = None) -> Optimization:
    """Returns the `Optimization` of a run; without `training`, only the parts that evaluation needs, too."""
    given, factor = dataclasses.asdict(settings), 1
    if training:
        given |= dataclasses.asdict(training)
        if training.scale_learning_rate:
            factor = training.num_replicas
    names = given.keys() & {field.name for field in dataclasses.fields(Optimization)}
    return Optimization(**{name: given[name] for name in names}, learning_rate_factor=factor)


def checked(given: Mapping[str, Any]) -> dict[str, Any]:
    """Returns settings that are given in Python, by their names, in the form that the fields of the classes have.

    Raises SettingError for a name that there is not, with the nearest one, for a value of another type or out of its
    range, and for settings that exclude each other.
    """
    values = {}
    for name, value in given.items():
        table = next((each for each in STORED if name in settings_in(each)), None)
        if table is None:
            near = difflib.get_close_matches(name, settings_in(*STORED), 1)
            raise SettingError("there is no setting {0}{1}", name, f"; {near[0]} is near" if near else "")
        if isinstance(value, list):
            value = tuple(value)
        kind, hint = settings_in(table)[name].kind, typing.get_type_hints(table)[name]
        try:
            if kind is not None and value is not None:
                value = kind.from_python(value, name)
            if not _is_of(value, hint):
                raise ValueError(f"{value!r} is no {hint}")
        except SettingError:
            raise
        except ValueError as error:
            raise SettingError(f"{{{name}}}: {{0}}", error) from error
        values[name] = value
    check_rules(values, RULES)
    return values


def stored(values: Mapping[str, Any], table: type) -> dict[str, Any]:
    """Returns the settings of `table` that run.json holds; raises ValueError for a name or a value that it has not.

    Unknown names are left out if they have no value: a newer version stores all of its settings.
    """
    hints, fields = typing.get_type_hints(table), {}
    for name, value in values.items():
        if name in hints:
            fields[name] = tuple(value) if isinstance(value, list) else value  # JSON has no tuples
            _check_stored(name, fields[name], hints[name], settings_in(table).get(name))
        elif value is not None and value is not False:
            raise ValueError(
                f"{name} is {json.dumps(value)}, and this version does not know it; update estimator_train"
            )
    return fields


def _check_stored(name, value, hint, setting):
    remedy = "delete the file, or use another folder"
    if not _is_of(value, hint):
        raise ValueError(f"{name} is {json.dumps(value)}; {remedy}")
    if value is None or setting is None or setting.kind is None or not setting.kind.same_everywhere:
        return
    try:
        setting.kind.checked(value, name)
    except ValueError as error:
        raise ValueError(f"{name}: {error}; {remedy}") from error


def _is_of(value, kind):
    """Checks a value against a type used in the tables: a class, a tuple of one class, or either of them or None."""
    if typing.get_origin(kind) in (types.UnionType, typing.Union):
        return any(_is_of(value, each) for each in typing.get_args(kind))
    if kind is float:
        return type(value) in (float, int)
    if typing.get_origin(kind) is not tuple:
        return type(value) is kind
    each, *rest = typing.get_args(kind)
    is_any_length = rest == [Ellipsis]
    return type(value) is tuple and all(_is_of(item, each) for item in value) and (is_any_length or len(value) == 2)


def _check_drawn(data_dir):
    """Raises FileNotFoundError unless the images of the embedded dataset are in a directory given for them."""
    if not subdirectories(local(data_dir)):
        draw = f"estimator_train datasets download {datasets.NAMES[0]} --data-dir {data_dir}"
        raise FileNotFoundError(f"there are no images in {data_dir}; give their folder, or draw them: {draw}")


def check_class_names(names: tuple[str, ...]) -> None:
    """Raises ValueError for a name that would control the terminal, or that no file of a run could hold."""
    for name in names:
        if CONTROL.search(name):
            raise ValueError(f"the class {printable(name)} has control characters; rename it")
        if reason := why_not_utf_8(name):
            raise ValueError(f"the class {printable(name)} {reason}")
