"""A copy of a Keras model in the scope of a strategy, with its checkpoint and its compiled steps."""

from __future__ import annotations

import weakref

import tensorflow as tf

from estimator_train import checkpoints
from estimator_train.checkpoints import object_based
from estimator_train.keras import steps
from estimator_train.keras.cloning import finalize_state, statistics
from estimator_train.keras.hook_graph import make_hook_graph
from estimator_train.keras.parts.feature_cache import feature_input_fn
from estimator_train.keras.parts.frozen_layers import split
from estimator_train.keras.parts.recomputation import recomputing
from estimator_train.model_fn import ModeKeys

log = tf.get_logger()


TRAINED = "trained"  # what variables hold that have moved on from every checkpoint


class ModelState:
    """A copy of the model in the scope of a strategy, its checkpoint, and its compiled functions by mode."""

    def __init__(self, source, strategy, rename, role, config, evaluated_parts):
        """`evaluated_parts`: the parts of batches that evaluations give out, see `steps.evaluation`."""
        self.strategy = strategy
        self.model = source.copy(strategy, config.mixed_precision)
        # Keras' fit ends by putting the averages that an optimizer keeps in the place of the weights. Here training
        # goes on from its checkpoints: they keep both, and what is evaluated is the averages.
        self._trains = role == "train"
        self._takes_averages = role == "checkpoint" and getattr(self.model.optimizer, "use_ema", False)
        if self._takes_averages:
            with strategy.scope():
                self.model.optimizer.build(self.model.trainable_variables)
        self.global_step = tf.Variable(0, dtype=tf.int64, trainable=False, name="global_step")
        self.checkpoint = tf.train.Checkpoint(root=self.model, estimator_global_step=self.global_step)
        self.loaded = None  # the checkpoint that the variables hold, TRAINED, or None for the given state
        self._rename = rename
        self._config = config
        self._evaluated_parts = evaluated_parts
        self._functions = {}
        self._hook_graphs = {}
        self._parts = self._recomputing = None
        self._features = weakref.WeakKeyDictionary()  # by input_fn, what the frozen part gives

    def recomputing(self):
        """The model as one that computes activations again in the backward pass."""
        if self._recomputing is None:
            self._recomputing = recomputing(self.model, self.strategy)
        return self._recomputing

    def over_features(self, input_fn):
        """The part of the model that trains over frozen features, and the input_fn that gives these."""
        if self._parts is None:
            self._parts = split(self.model, self.strategy, recompute=self._config.recompute)
        frozen, trained = self._parts
        return trained, feature_input_fn(input_fn, frozen, self.strategy, self._features.setdefault(input_fn, {}))

    def function(self, mode, part=None, finish=None):
        """The compiled steps of that mode, of the model or of that part of it, on features that `finish` completes."""
        key = mode, part, finish
        if key not in self._functions:
            model, strategy = part or self.model, self.strategy
            if mode == ModeKeys.TRAIN:
                function = steps.training(
                    model,
                    strategy,
                    self.global_step,
                    self._rename,
                    finish,
                    jit_compile=self._config.jit_compile,
                    accumulate_steps=self._config.accumulate_steps,
                )
            elif mode == ModeKeys.EVAL:
                function = steps.evaluation(model, strategy, self._rename, finish, self._evaluated_parts)
            else:
                function = steps.Prediction(model, finish)
            self._functions[key] = function
        return self._functions[key]

    def hook_graph(self, mode, value_specs, config):
        """As `make_hook_graph`, of runs whose hooks add nothing to it: one serves all that give the same values."""
        key = mode, *value_specs.items()
        if key not in self._hook_graphs:
            hook_graph, spec = make_hook_graph(mode, value_specs, self.checkpoint, config)
            with hook_graph.graph.as_default():
                spec.scaffold.finalize()
            self._hook_graphs[key] = hook_graph, spec
        return self._hook_graphs[key]

    def restore(self, path):
        """Brings the variables to the state at prefix `path`, where they do not hold it."""
        stamp = path, checkpoints.stamp(path)
        if stamp == self.loaded:
            return
        log.info("Restoring parameters from %s", path)
        before = statistics(self.model)
        with self.strategy.scope():
            object_based.restore(self.checkpoint, self.model, path, self._trains)
        finalize_state(self.model)
        if self._takes_averages:
            self.model.optimizer.finalize_variable_values(self.model.trainable_variables)
        if before != statistics(self.model):
            self._functions.clear()  # they hold the statistics of Normalization layers as constants
        self.loaded = stamp
