"""ModelState: a copy of a Keras model in the scope of a strategy, with its checkpoint and compiled steps."""

from __future__ import annotations

import contextlib
import dataclasses
import enum
import functools
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from estimator_train._engine import checkpoints
from estimator_train._engine.checkpoints import object_based
from estimator_train._engine.checkpoints.object_based import ObjectSaver
from estimator_train._engine.cluster import synchronous
from estimator_train._engine.distribution.private_tensorflow import own_collectives
from estimator_train._engine.input_fns.frozen_features import FrozenFeatures
from estimator_train._engine.input_fns.order import draw_seed
from estimator_train._engine.input_fns.protocols import on_host_and_device
from estimator_train._engine.keras.dataset import distributed_dataset
from estimator_train._engine.keras.device_rows import DeviceRows
from estimator_train._engine.keras.feature_cache import FeatureBatches
from estimator_train._engine.keras.hyperparameters import Hyperparameters
from estimator_train._engine.keras.loop import Loop, PredictionLoop
from estimator_train._engine.keras.protocols import FrozenPart, Model
from estimator_train._engine.keras.source import ModelSource
from estimator_train._engine.keras.step_programs import StepProgram
from estimator_train._engine.model_fn import EstimatorSpec
from estimator_train._engine.run_config import RunConfig
from estimator_train._engine.session.function_session import HookGraph
from estimator_train._engine.types import Strategy

v1 = tf.compat.v1
log = tf.get_logger()

# Held while a model is copied or traced: a copy in mixed precision is made under Keras' global policy, and traces over
# the replicas of one strategy in several threads have hung.
BUILDING = threading.RLock()


_EXAMPLES, _SEED = "estimator_trained_examples", "estimator_input_seed"  # their names in checkpoints


class Values(enum.Enum):
    """The values of a state's variables, if they are not those of a checkpoint."""

    GIVEN = "the given model's"
    TRAINED = "changed since by steps or hooks, or by a checkpoint of which an error left a part unread"


class SavedValues(NamedTuple):
    """The values of the checkpoint at prefix `path`, whose files had this stamp when they were read."""

    path: str
    stamp: checkpoints.Stamp

    @classmethod
    def at(cls, path: str) -> SavedValues:
        return cls(path, checkpoints.stamp(path))


class ModelState:
    """A copy of the model in the scope of a strategy, its checkpoint, and its compiled loops by step program.

    A run takes a state in this order, because a model may create variables only when it is traced:

    1. `can_start_from` says whether the state can have the values that the run starts from. If not, it gets a new one.
    2. `restore_early` reads the checkpoint if the variables that it has exist.
    3. The run traces its step inside `completed`, which reads the checkpoint afterwards if step 2 could not, and again
       if the trace has made variables that step 2 missed.

    `restored` is steps 2 and 3. Between runs, `_values` says which values the variables have: a checkpoint that they
    already come from is not read again, and a loop that hooks or a checkpoint gave other statistics is traced again.
    """

    def __init__(self, source: ModelSource, strategy: Strategy, config: RunConfig) -> None:
        if isinstance(strategy, tf.distribute.MirroredStrategy):
            own_collectives(strategy)
        self.strategy = strategy
        self.adapter = source.adapter
        self.model = source.copy(strategy, config.mixed_precision)
        self.global_step = tf.Variable(0, dtype=tf.int64, trainable=False, name="global_step")
        self._source = source
        self._config = config
        self._values: Values | SavedValues = Values.GIVEN
        self._loops: dict[tuple[StepProgram, type], Any] = {}
        self._hook_graphs: dict[tuple, tuple[HookGraph, EstimatorSpec]] = {}

    @staticmethod
    def role(path: str | None) -> str:
        """Returns a name for the runs that may use the same states, given the checkpoint that they start from."""
        return "given" if path is None else "checkpoint"

    def _make_checkpoint(self) -> None:
        self._parts = self.adapter.saved_parts(self.model)
        self.root = self._parts.root  # what checkpoints save, with all of the model's variables
        attached = {"estimator_global_step": self.global_step, **self._attached()}
        self.checkpoint = tf.train.Checkpoint(root=self.root, **attached)

    def _attached(self) -> dict[str, tf.Variable]:
        """Returns what the checkpoint saves besides the model and the global step, by name."""
        return {}

    def fed_by(self, input_fn: Callable) -> tuple[Model, Callable, Callable | None]:
        """Returns (the model that runs on the data of `input_fn`, this one or a part of it; the input_fn for it; the
        function that each replica first applies to the features of a batch, or None)."""
        _, preprocess = on_host_and_device(input_fn)
        return self.model, input_fn, preprocess

    def input_position(self) -> tuple[int, int] | None:
        """Returns (the number of examples trained on, the seed of the run's order); None starts at the beginning."""
        return None

    def dataset(self, input_fn: Callable, **offered: object) -> tf.distribute.DistributedDataset:
        """Returns the data of a run, distributed to the replicas, from the position of its training."""
        return distributed_dataset(self.strategy, input_fn, self.input_position(), **offered)

    def loop(self, program: StepProgram, kind: type[Loop | PredictionLoop]) -> Any:
        """Returns the compiled loop of `program`, a program of this model or a part."""
        if (program, kind) not in self._loops:
            # A new program, because steps compiled by an equal one have Normalization statistics as constants.
            new = dataclasses.replace(program)
            self._loops[new, kind] = kind(new, self.strategy, self.global_step if program.trains else None)
        return self._loops[program, kind]

    def hook_graph(
        self, program: StepProgram, value_specs: dict[str, tf.TypeSpec], config: RunConfig, is_shared: bool
    ) -> tuple[HookGraph, EstimatorSpec]:
        """Returns a program's `HookGraph` and EstimatorSpec; runs whose hooks add nothing to it may share one."""
        key = program.mode, *value_specs.items()
        if is_shared and key in self._hook_graphs:
            return self._hook_graphs[key]
        hook_graph = HookGraph(value_specs, None if is_shared else self)
        with hook_graph.graph.as_default():
            saver = ObjectSaver(self.checkpoint, config)
            v1.add_to_collection(v1.GraphKeys.SAVERS, saver)  # a user's CheckpointSaverHook looks there
            ready = hook_graph.ready_op
            scaffold = v1.train.Scaffold(ready_op=ready, ready_for_local_init_op=ready, saver=saver)
            spec = program.spec(hook_graph, scaffold)
            if is_shared:
                scaffold.finalize()
                self._hook_graphs[key] = hook_graph, spec
        return hook_graph, spec

    def check_variables(self, used: Iterable[tf.Variable]) -> None:
        self._source.check_variables(self.model, used)

    def value_of(self, variable: tf.Variable) -> np.ndarray:
        """Returns the value that a checkpoint would save for a variable of this state, aggregated over replicas."""
        with self.strategy.scope():
            return variable.read_value().numpy()

    # Variables, for hooks; see `hook_variables.ModelVariables`

    def variable_specs(self) -> dict[str, tuple[tf.TensorSpec, bool]]:
        if synchronous.spans_workers(self.strategy):
            raise ValueError(
                "Hooks cannot use the variables of a Keras model that several workers train; give the model other "
                "weights before model_to_estimator, or pass warm_start_from."
            )
        trained = set(map(id, self.adapter.trainable_variables(self.model)))
        return {
            name: (tf.TensorSpec(variable.shape, variable.dtype), id(variable) in trained)
            for name, variable in self._weights_by_name().items()
        }

    def variable_values(self, names: Iterable[str]) -> list[np.ndarray]:
        weights = self._weights_by_name()
        return [self.value_of(weights[name]) for name in names]

    def assign(self, values: dict[str, np.ndarray]) -> None:
        before, weights = self.adapter.statistics(self.model), self._weights_by_name()
        self._values = Values.TRAINED
        with self.strategy.scope():
            for name, value in values.items():
                weights[name].assign(value)
            if before != self.adapter.statistics(self.model):
                self.adapter.finalize_state(self.model)
                self._loops.clear()  # they have the statistics of Normalization layers as constants

    def _weights_by_name(self) -> dict[str, tf.Variable]:
        weights: dict[str, tf.Variable] = {}
        for name, weight in self.adapter.named_weights(self.model):
            while name in weights:
                name += "_1"
            weights[name] = weight
        return weights

    # Checkpoints

    def can_start_from(self, path: str | None) -> bool:
        """Returns whether a run may start from the checkpoint at prefix `path`, or for None from the given state."""
        # A state that was trained or restored cannot return to the given one: the optimizer's slots would remain.
        return self._values is Values.GIVEN or path is not None

    @contextlib.contextmanager
    def restored(self, path: str | None, trained: ModelState | None = None) -> Iterator[None]:
        """Wraps the first trace of a run, and restores the checkpoint at prefix `path`, if any; see `restore`."""
        # It is read before the trace if the variables exist, otherwise after it, so once for either.
        self.restore_early(path, trained)
        with self.completed(path, trained):
            yield

    def restore_early(self, path: str | None, trained: ModelState | None = None) -> None:
        """Restores the checkpoint if that can be done before a trace; see `restored`."""
        if path is not None and (self._has_variables() or object_based.needs_variables(path)):
            self.restore(path, trained)

    @contextlib.contextmanager
    def completed(self, path: str | None, trained: ModelState | None = None) -> Iterator[None]:
        """Wraps a trace after `restore_early`, and restores what that has missed."""
        is_restored = self._values is not Values.GIVEN
        before = set(map(id, self.adapter.variables(self.model)))
        yield
        made = [variable for variable in self.adapter.variables(self.model) if id(variable) not in before]
        if not made and (is_restored or path is None):
            return
        self._make_checkpoint()
        if path is None:
            with self.strategy.scope():
                self.adapter.finish_variables(self.model, made)
        elif is_restored:  # the trace has created variables of layers that claimed to be built
            self._load(path)
        else:
            self.restore(path, trained)

    def _has_variables(self) -> bool:
        """Returns whether the variables that a checkpoint has exist, as far as that can be known before a trace."""
        return self._values is not Values.GIVEN or self.adapter.is_built(self.model)

    def restore(self, path: str, trained: ModelState | None = None) -> None:
        """Restores the variables from the checkpoint at prefix `path`, unless they already have its values.

        `trained` is the state of the training that has just saved the checkpoint; an `EvaluationState` copies its
        variables instead of reading the file.
        """
        saved = SavedValues.at(path)
        if saved == self._values:
            return
        log.info("Restoring parameters from %s", path)
        self._values = Values.TRAINED  # until all are read
        self._load(path, trained)
        self._values = saved

    def _load(self, path: str, trained: ModelState | None = None) -> None:
        before = self.adapter.statistics(self.model)
        self._assign(path, trained)
        with self.strategy.scope():
            self.adapter.finalize_state(self.model)
        if before != self.adapter.statistics(self.model):
            self._loops.clear()  # they have the statistics of Normalization layers as constants

    def _assign(self, path: str, trained: ModelState | None) -> None:
        raise NotImplementedError


class EvaluationState(ModelState):
    """A state that evaluates, predicts and exports; with averaged weights, where the optimizer keeps averages."""

    def __init__(self, source: ModelSource, strategy: Strategy, config: RunConfig) -> None:
        super().__init__(source, strategy, config)
        # At its end, Keras' fit replaces the weights by the optimizer's moving averages. Here training can resume from
        # its checkpoints, so they keep both, and evaluation uses the averages.
        self._takes_averages = object_based.keeps_averages(self.model.optimizer)
        self._make_checkpoint()

    def _assign(self, path: str, trained: ModelState | None) -> None:
        if trained is not None and not self._takes_averages and self._copies(trained):
            return
        with self.strategy.scope():
            object_based.restore(self._parts, {"estimator_global_step": self.global_step}, path)
            if self._takes_averages:
                object_based.take_averages(self._parts, path)

    def _copies(self, trained: ModelState) -> bool:
        """Copies the values of another state's model; returns False if that would miss state that a checkpoint has."""
        ours, theirs = object_based.variables_by_key(self.root), object_based.variables_by_key(trained.root)
        if ours is None or theirs is None or ours.keys() != theirs.keys():
            return False
        pairs = [(variable, theirs[key]) for key, variable in ours.items()]
        for variable, other in [*pairs, (self.global_step, trained.global_step)]:
            value = trained.value_of(other)  # not in our scope, which another strategy's cannot be entered from
            with self.strategy.scope():
                variable.assign(value)
        return True


class TrainingState(ModelState):
    """A state that trains, with its position in the input.

    `restored` has a step before those of `ModelState`: the position is read and the input's seed drawn first, because
    the dataset, which the trace needs, begins there. A new state then makes the optimizer's slots, so that the
    checkpoint finds them. `begin_steps` ends what `_values` knew, and `restart` goes back to the newest checkpoint
    after an error.
    """

    def __init__(self, source: ModelSource, strategy: Strategy, config: RunConfig) -> None:
        super().__init__(source, strategy, config)
        self.adapter.prepare_training(self.model, self.strategy)
        # The position in the input: the examples trained on, and the seed of the order if the input_fn has none.
        self.trained_examples = tf.Variable(0, dtype=tf.int64, trainable=False, name="trained_examples")
        self.input_seed = tf.Variable(0, dtype=tf.int64, trainable=False, name="input_seed")
        self.draws = self.adapter.draws(self.model, self.trained_examples, self.input_seed)
        self._hyperparameters = Hyperparameters(self.adapter.hyperparameters(self.model))
        # The frozen part's outputs, by input_fn.
        self._features: weakref.WeakKeyDictionary[FrozenFeatures, dict] = weakref.WeakKeyDictionary()
        self._rows = DeviceRows(self.strategy, self._loops.clear)
        self._lacks_position = False  # whether the checkpoint does not have it
        self._make_checkpoint()

    @staticmethod
    def role(path: str | None) -> str:
        return "train"

    def _make_checkpoint(self) -> None:
        super()._make_checkpoint()
        self._hyperparameters.leave_out_of(self.root)

    def _attached(self) -> dict[str, tf.Variable]:
        position = {_EXAMPLES: self.trained_examples, _SEED: self.input_seed}
        return position | self._hyperparameters.saved

    def fed_by(self, input_fn: Callable) -> tuple[Model, Callable, Callable | None]:
        """The model may also be one that recomputes activations, or the part after the frozen layers, fed by these."""
        if isinstance(input_fn, FrozenFeatures):
            frozen, trained = self._frozen_and_trained
            held = self._features.setdefault(input_fn, {})
            return trained, FeatureBatches(input_fn, frozen, self.strategy, held, self._rows), self._rows.take
        self._rows.free()
        model, input_fn, preprocess = super().fed_by(input_fn)
        if self._config.recompute:
            model = self._recomputing
        return model, input_fn, preprocess

    @functools.cached_property
    def _recomputing(self) -> Model:
        return self.adapter.recomputing(self.model, self.strategy)

    @functools.cached_property
    def _frozen_and_trained(self) -> tuple[FrozenPart, Model]:
        return self.adapter.frozen_and_trained(self.model, self.strategy, self._config.recompute)

    # Checkpoints

    def can_start_from(self, path: str | None) -> bool:
        """Nor can a state take a checkpoint of other frozen layers, in which it lacks slots that must start anew."""
        if self._values is Values.GIVEN or path is None:
            return super().can_start_from(path)
        return self._values == SavedValues.at(path) or not object_based.has_slots_of_others(self._parts, path)

    @contextlib.contextmanager
    def restored(self, path: str | None, trained: ModelState | None = None) -> Iterator[None]:
        self._take_position(path)
        self._draw_input_seed()
        if self._values is Values.GIVEN:
            self._build_slots(path)
        with super().restored(path, trained):
            yield

    def _build_slots(self, path: str | None) -> None:
        if path is not None:
            object_based.forget_slots_to_come(self._parts)  # the given model's
        if self._has_own_step():
            with self.strategy.scope():
                self.adapter.build_slots(self.model)
            self._make_checkpoint()

    def _has_own_step(self) -> bool:
        return self.adapter.is_own_step(self.model, "train_step")

    def _has_variables(self) -> bool:
        # A train_step of the user's may have several optimizers, and create variables of any.
        return self._values is not Values.GIVEN or (self._has_own_step() and super()._has_variables())

    def _assign(self, path: str, trained: ModelState | None) -> None:
        saved = object_based.among_saved(path, self._hyperparameters.saved)
        with self.strategy.scope():
            attached = {"estimator_global_step": self.global_step, **saved}
            object_based.restore(self._parts, attached, path, trains=True)
            self._hyperparameters.follow_compile()

    def begin_steps(self) -> None:
        """Notes that the variables no longer have a checkpoint's values."""
        self._values = Values.TRAINED

    def restart(self) -> None:
        """Returns to the newest checkpoint, after an error; without one, continues with the current variables."""
        newest = checkpoints.latest_intact(str(self._config.model_dir))
        if newest is not None:
            self._take_position(newest)
            if self.value_of(self.input_seed) == 0:
                self._draw_input_seed()
            self.restore(newest)

    # The position in the input

    def _take_position(self, path: str | None) -> None:
        """Reads the position from the checkpoint at prefix `path`, before the rest: the dataset begins there."""
        saved = {} if path is None else object_based.attached_values(path, [_EXAMPLES, _SEED])
        self.trained_examples.assign(saved.get(_EXAMPLES, 0))
        self.input_seed.assign(saved.get(_SEED, 0))
        self._lacks_position = path is not None and _EXAMPLES not in saved and checkpoints.read_global_step(path) > 0

    def _draw_input_seed(self) -> None:
        """Draws the seed of the run's order and random numbers, unless the checkpoint had one."""
        # All processes take part, because one that finds no checkpoint would otherwise wait for the others.
        seed = int(self.value_of(self.input_seed)) or draw_seed()
        self.input_seed.assign(synchronous.agreed(self._config, seed))

    def input_position(self) -> tuple[int, int] | None:
        if not self._config.resume_input:
            return None
        examples = int(self.value_of(self.trained_examples))
        if examples == 0 and self._lacks_position:
            log.warning("The checkpoint does not record how many examples were trained on, so the input starts over.")
        return examples, int(self.value_of(self.input_seed))
