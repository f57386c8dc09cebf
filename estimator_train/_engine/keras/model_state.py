"""ModelState: a copy of a Keras model in the scope of a strategy, with its checkpoint and compiled steps."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import threading
import weakref

import tensorflow as tf

from estimator_train._engine import checkpoints
from estimator_train._engine.checkpoints import object_based
from estimator_train._engine.distribution import synchronous
from estimator_train._engine.input_fns.frozen_features import FrozenFeatures
from estimator_train._engine.input_fns.order import draw_seed
from estimator_train._engine.keras.hook_graph import make_hook_graph
from estimator_train._engine.keras.hyperparameters import Hyperparameters
from estimator_train._engine.keras.loop import Loop, PredictionLoop
from estimator_train._engine.keras.parts.feature_cache import FeatureBatches
from estimator_train._engine.keras.parts.frozen_layers import split
from estimator_train._engine.keras.parts.recomputation import recomputing
from estimator_train._engine.keras.step_draws import StepDraws
from estimator_train._engine.model_fn import ModeKeys

log = tf.get_logger()


# Held while a model is copied or traced: a copy in mixed precision is made under Keras' global policy, and traces over
# the replicas of one strategy in several threads have hung.
BUILDING = threading.RLock()

TRAINED = "trained"  # the variables have been trained since the last checkpoint was restored


class ModelState:
    """A copy of the model in the scope of a strategy, its checkpoint, and its compiled loops by step program."""

    def __init__(self, source, strategy, role, config):
        """`role` is "train", or for evaluation, "checkpoint" or "given", the state of the given model."""
        self.strategy = strategy
        self._source = source
        self.adapter = source.adapter
        self.model = source.copy(strategy, config.mixed_precision)
        # At its end, Keras' fit replaces the weights by the optimizer's moving averages. Here training can resume from
        # its checkpoints, so they keep both, and evaluation uses the averages.
        self._trains = role == "train"
        self._takes_averages = role == "checkpoint" and object_based.keeps_averages(self.model.optimizer)
        with strategy.scope():
            if self._trains and self.adapter.is_own_step(self.model, "train_step"):
                self.adapter.build_slots(self.model)
        if self._trains:
            self.adapter.check_trains_on(self.model, strategy)
            self.adapter.prepare_optimizers(self.model)
        self.global_step = tf.Variable(0, dtype=tf.int64, trainable=False, name="global_step")
        self.trained_examples = self.input_seed = self.draws = None
        self._saved_besides = {}
        self._hyperparameters = Hyperparameters(self.adapter.hyperparameters(self.model)) if self._trains else None
        if self._trains:
            # The position of training in the input, and the seed of the order if the input_fn has none.
            self.trained_examples = tf.Variable(0, dtype=tf.int64, trainable=False, name="trained_examples")
            self.input_seed = tf.Variable(0, dtype=tf.int64, trainable=False, name="input_seed")
            self.draws = StepDraws(self.adapter, self.model, self.trained_examples, self.input_seed)
            self._saved_besides = {
                "estimator_trained_examples": self.trained_examples,
                "estimator_input_seed": self.input_seed,
                **self._hyperparameters.saved,
            }
        self._make_checkpoint()
        self._lacks_slots = False  # they are restored when the optimizer has created them
        self.loaded = None  # the checkpoint that the variables hold, TRAINED, or None for the given state
        self._config = config
        self._loops = {}  # by program
        self._hook_graphs = {}
        self._features = weakref.WeakKeyDictionary()  # the frozen part's outputs by input_fn

    def _make_checkpoint(self):
        self._parts = self.adapter.saved_parts(self.model)
        if self._hyperparameters is not None:
            self._hyperparameters.leave_out_of(self.root)
        attached = {"estimator_global_step": self.global_step, **self._saved_besides}
        self.checkpoint = tf.train.Checkpoint(root=self.root, **attached)

    def to_train(self, input_fn):
        """Returns the model that trains on the data of `input_fn`, and the input_fn that feeds it.

        The model is the whole model, one that recomputes activations in the backward pass, or the part after the frozen
        layers, which is fed with their outputs.
        """
        if isinstance(input_fn, FrozenFeatures):
            frozen, trained = self._frozen_and_trained
            held = self._features.setdefault(input_fn, {})
            return trained, FeatureBatches(input_fn, frozen, self.strategy, held)
        return (self._recomputing if self._config.recompute else self.model), input_fn

    def loop(self, program):
        """Returns the compiled loop of `program`, a `step_programs.StepProgram` of this model or a part of it."""
        if program not in self._loops:
            # A new program, because steps compiled by an equal one have Normalization statistics as constants.
            program = dataclasses.replace(program)
            if program.mode == ModeKeys.PREDICT:
                self._loops[program] = PredictionLoop(program)
            else:
                self._loops[program] = Loop(program, self.strategy, self.global_step if self._trains else None)
        return self._loops[program]

    def hook_graph(self, mode, value_specs, config):
        """Like `make_hook_graph`, for runs whose hooks add nothing to the graph; runs with equal values share one."""
        key = mode, *value_specs.items()
        if key not in self._hook_graphs:
            hook_graph, spec = make_hook_graph(mode, value_specs, self.checkpoint, config)
            with hook_graph.graph.as_default():
                spec.scaffold.finalize()
            self._hook_graphs[key] = hook_graph, spec
        return self._hook_graphs[key]

    def restore(self, path, trained=None):
        """Restores the variables from the checkpoint at prefix `path`, unless they already have its values.

        `trained` is the ModelState of the training that has just saved the checkpoint; its variables are copied
        instead of reading the file.
        """
        stamp = path, checkpoints.stamp(path)
        if stamp == self.loaded:
            return
        log.info("Restoring parameters from %s", path)
        self.loaded = TRAINED  # after an error, the state belongs to no checkpoint
        with self._taken_up():
            if trained is None or self._takes_averages or not self._copy_from(trained):
                self._read(path)
        self.loaded = stamp

    @property
    def root(self):
        """The trackable object that checkpoints save, with all of the model's variables."""
        return self._parts.root

    @contextlib.contextmanager
    def new_variables_restored(self, path):
        """Wraps code that may create variables of the model, such as a first trace, and restores them afterwards.

        `path` is the prefix of the checkpoint; if None, new variables keep their initial values.
        """
        before = set(map(id, self.adapter.variables(self.model)))
        with BUILDING:
            yield
        made = [variable for variable in self.adapter.variables(self.model) if id(variable) not in before]
        if made or self._lacks_slots:
            self._make_checkpoint()
            if path is not None:
                with self._taken_up():
                    self._read(path)
            else:
                with self.strategy.scope():
                    self.adapter.finish_variables(self.model, made)
        self._lacks_slots = False

    def has_slots_of_others(self, path):
        """See `object_based.has_slots_of_others`; False if the variables have the checkpoint's values."""
        is_loaded = self.loaded == (path, checkpoints.stamp(path))
        return not is_loaded and object_based.has_slots_of_others(self._parts, path)

    def check_variables(self, used):
        """See `ModelSource.check_variables`; `used` are the variables of a function that was traced for this state."""
        self._source.check_variables(self.model, used)

    def _read(self, path):
        there = object_based.among_saved(path, self._saved_besides)
        hyperparameters = self._hyperparameters.restoring(there) if self._trains else contextlib.nullcontext()
        with self.strategy.scope(), hyperparameters:
            attached = {"estimator_global_step": self.global_step, **there}
            self._lacks_slots = object_based.restore(self._parts, attached, path, self._trains)
            if self._takes_averages:
                object_based.take_averages(self._parts, path)
        if self._trains and "estimator_trained_examples" not in there:
            self.trained_examples.assign(0)
            self.input_seed.assign(0)

    def _copy_from(self, trained):
        """Copies the values of another state's model; returns False if that would miss state that a checkpoint has."""
        ours, theirs = object_based.variables_by_key(self.root), object_based.variables_by_key(trained.root)
        if ours is None or theirs is None or ours.keys() != theirs.keys():
            return False
        with self.strategy.scope():
            for key, variable in ours.items():
                variable.assign(trained.value_of(theirs[key]))
            self.global_step.assign(trained.value_of(trained.global_step))
        return True

    @contextlib.contextmanager
    def _taken_up(self):
        """Wraps code that changes the variables' values, and makes the model use the new ones."""
        before = self.adapter.statistics(self.model)
        yield
        with self.strategy.scope():
            self.adapter.finalize_state(self.model)
        if before != self.adapter.statistics(self.model):
            self._loops.clear()  # they have the statistics of Normalization layers as constants

    def value_of(self, variable):
        """Returns the value that a checkpoint would save for a variable of this state, aggregated over replicas."""
        with self.strategy.scope():
            return variable.read_value().numpy()

    def input_position(self):
        """Returns (the number of examples trained on, the seed of the run's order)."""
        examples = int(self.value_of(self.trained_examples))
        if examples == 0 and self.value_of(self.global_step) > 0:
            log.warning("The checkpoint does not record how many examples were trained on, so the input starts over.")
        if self.value_of(self.input_seed) == 0:  # after a restart from a checkpoint without it
            self.draw_input_seed()
        return examples, int(self.value_of(self.input_seed))

    def draw_input_seed(self):
        """Draws the seed of the run's order and random numbers, unless the checkpoint had one."""
        # All processes take part, because one that finds no checkpoint would otherwise wait for the others.
        seed = int(self.value_of(self.input_seed)) or draw_seed()
        self.input_seed.assign(synchronous.agreed(self._config, seed))

    @functools.cached_property
    def _recomputing(self):
        return recomputing(self.model, self.strategy)

    @functools.cached_property
    def _frozen_and_trained(self):
        return split(self.model, self.strategy, recompute=self._config.recompute)
