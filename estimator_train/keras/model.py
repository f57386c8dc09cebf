"""model_to_estimator: a compiled Keras model as an Estimator, run as TF 2."""

from __future__ import annotations

import functools
import os
import weakref

import tensorflow as tf
import tf_keras as keras

from estimator_train import checkpoints, iterators, keras_steps, multi_worker, step_values
from estimator_train.distribution import call_input_fn, distribute
from estimator_train.estimator import Estimator
from estimator_train.export import PredictOutput
from estimator_train.feature_cache import feature_input_fn
from estimator_train.frozen_layers import split
from estimator_train.function_session import FunctionSessionCreator, HookGraph, eager_mode
from estimator_train.input_fns.frozen_features import FrozenFeatures
from estimator_train.keras_export import write_saved_model
from estimator_train.model_copy import ModelSource, finalize_state, statistics
from estimator_train.model_fn import EstimatorSpec, ModeKeys, PreparedModel, Run, argument_names, metrics_of
from estimator_train.recomputation import recomputing

v1 = tf.compat.v1
log = tf.get_logger()

_TRAINED = "trained"  # what variables hold that have moved on from every checkpoint


def model_to_estimator(
    keras_model=None,
    keras_model_path=None,
    custom_objects=None,
    model_dir=None,
    config=None,
    checkpoint_format="checkpoint",
    metric_names_map=None,
    export_outputs=None,
):
    """An `Estimator` that trains, evaluates and predicts with a copy of a compiled Keras model.

    The copy carries all of the model's state: weights, BatchNorm and Normalization statistics, lookup tables, optimizer
    settings and slots. The given model stays as it is and usable.

    Args:
      keras_model: a compiled `tf_keras.Model`; or, for a model that Keras cannot copy, a function without arguments
        that builds and compiles it.
      keras_model_path: a saved compiled model (.keras, .h5 or a SavedModel folder), instead of `keras_model`.
      custom_objects: dict of names to the custom classes and functions of the model.
      model_dir: folder for checkpoints and events, made when missing; None: `config.model_dir` or a temporary folder.
      config: `RunConfig`; `train_distribute` is where it trains, `eval_distribute` where it is evaluated.
      checkpoint_format: "checkpoint" or "saver", as tf.estimator has them; both write object-based checkpoints.
      metric_names_map: dict of every compiled metric name to the name it gets in results.
      export_outputs: dict of output names to ExportOutput classes, for the signatures of exports.

    Raises:
      ValueError: no model or two given, not compiled, a Keras 3 model, one that cannot be copied, or a bad format.
    """
    if (keras_model is None) == (keras_model_path is None):
        raise ValueError("Give either keras_model or keras_model_path.")
    if checkpoint_format not in ("checkpoint", "saver"):
        raise ValueError(f"checkpoint_format must be 'checkpoint' or 'saver', given: {checkpoint_format!r}")
    if keras_model_path is not None:
        keras_model = keras.models.load_model(os.fspath(keras_model_path), custom_objects=custom_objects)
    source = ModelSource(keras_model, custom_objects)
    return Estimator(KerasModel(source, metric_names_map, export_outputs), model_dir, config)


class KerasModel(PreparedModel):
    """The `PreparedModel` of a Keras model.

    One copy of the model trains, another evaluates and predicts from checkpoints, so that neither disturbs the other; a
    third stays as given, for evaluation before training. They and their compiled functions live as long as it does.
    """

    has_initial_values = True

    def __init__(self, source, metric_names_map=None, export_outputs=None, metric_fns=()):
        self._source = source
        self._metric_names_map = metric_names_map
        self._export_outputs = export_outputs
        self._metric_fns = metric_fns
        self._copies = {}

    def with_metrics(self, metric_fn):
        return KerasModel(self._source, self._metric_names_map, self._export_outputs, (*self._metric_fns, metric_fn))

    def prepare(self, mode, input_fn, config, params, checkpoint_path, last_step, hooks=()):
        is_one_of_several = config.num_worker_replicas > 1 and not multi_worker.is_one(config.train_distribute)
        if mode == ModeKeys.TRAIN and is_one_of_several:
            raise ValueError(
                f"TF_CONFIG names {config.num_worker_replicas} workers; give RunConfig a "
                "tf.distribute.MultiWorkerMirroredStrategy as train_distribute, or unset TF_CONFIG."
            )
        with eager_mode():
            if mode == ModeKeys.TRAIN and config.tf_random_seed is not None:
                tf.random.set_seed(config.tf_random_seed)
            copy = self._copy(mode, config, checkpoint_path)
            if checkpoint_path is not None:
                copy.restore(checkpoint_path)
            part = finish = None
            if mode == ModeKeys.TRAIN and isinstance(input_fn, FrozenFeatures):
                part, input_fn = copy.over_features(input_fn)
            elif mode == ModeKeys.TRAIN and config.recompute:
                part = copy.recomputing()
            if hasattr(input_fn, "narrow"):
                input_fn, finish = input_fn.narrow, input_fn.widen
            dataset = _dataset(copy.strategy, input_fn, finish, mode=mode, config=config, params=params)
            steps = _Steps(copy, mode, dataset, config, checkpoint_path, last_step, part, finish)
        if mode == ModeKeys.TRAIN or hooks or self._metric_fns:
            hook_graph, spec = _hook_graph(mode, steps.value_specs, copy.checkpoint, config)
        else:
            hook_graph, spec = copy.hook_graph(mode, steps.value_specs, config)
        if mode == ModeKeys.EVAL and self._metric_fns:
            with hook_graph.graph.as_default():
                parts = tf.nest.pack_sequence_as(copy.function(mode, part, finish).parts, hook_graph.batch_tensors)
                spec = spec._replace(eval_metric_ops=spec.eval_metric_ops | metrics_of(self._metric_fns, parts, config))
        triggers = list(hook_graph.values.values()) if mode == ModeKeys.PREDICT else [hook_graph.step_op]
        return Run(hook_graph.graph, spec, FunctionSessionCreator(spec.scaffold, hook_graph, steps, triggers))

    def export(self, receiver_fns, config, params, checkpoint_path, folder, as_text):
        if list(receiver_fns) != [ModeKeys.PREDICT]:
            raise ValueError(f"A Keras model is exported for {ModeKeys.PREDICT!r} alone, given: {list(receiver_fns)}.")
        with eager_mode():
            copy = self._copy(ModeKeys.PREDICT, config, checkpoint_path)
            if checkpoint_path is not None:
                copy.restore(checkpoint_path)

            def serve(features):
                predictions = keras_steps.predict(copy.model, features)
                outputs = {name: kind(predictions[name]) for name, kind in (self._export_outputs or {}).items()}
                return {tf.saved_model.DEFAULT_SERVING_SIGNATURE_DEF_KEY: PredictOutput(predictions)} | outputs

            write_saved_model(copy.model, serve, receiver_fns[ModeKeys.PREDICT], folder, as_text)

    def _copy(self, mode, config, checkpoint_path):
        strategy = {ModeKeys.TRAIN: config.train_distribute, ModeKeys.EVAL: config.eval_distribute}.get(mode)
        if mode == ModeKeys.EVAL and multi_worker.is_one(strategy):
            raise ValueError("eval_distribute must not span a cluster's workers: one process evaluates a checkpoint.")
        if tf.distribute.has_strategy() and tf.distribute.get_strategy() is not strategy:
            raise ValueError(
                "train, evaluate and predict do not run inside a strategy.scope() of another strategy than theirs; "
                "leave the scope, and give the strategy to RunConfig as train_distribute or eval_distribute."
            )
        role = "train" if mode == ModeKeys.TRAIN else "given" if checkpoint_path is None else "checkpoint"
        copy = self._copies.get((role, id(strategy)))
        # A copy that has been trained cannot come back to the given state: the optimizer's slots would stay.
        if copy is None or (checkpoint_path is None and copy.loaded is not None):
            parts = [name for metric_fn in self._metric_fns for name in argument_names(metric_fn) if name != "config"]
            strategy_in_scope = strategy or tf.distribute.get_strategy()
            copy = _Copy(self._source, strategy_in_scope, self._rename, role, config, sorted(set(parts)))
            self._copies[role, id(strategy)] = copy
        return copy

    def _rename(self, logs):
        if not isinstance(logs, dict):
            raise ValueError(f"train_step and test_step must return a dict of names to values, got: {logs!r}")
        if "global_step" in logs:
            raise ValueError("A metric cannot be called global_step, which the results hold; give it another name.")
        if self._metric_names_map is None:
            return dict(logs)
        metrics = logs.keys() - {"loss"}
        if metrics != self._metric_names_map.keys():
            raise ValueError(
                f"metric_names_map must have every compiled metric, {sorted(metrics)}, and no other key; "
                f"it has {sorted(self._metric_names_map)}."
            )
        return {self._metric_names_map.get(name, name): value for name, value in logs.items()}


class _Copy:
    """A copy of the model in the scope of a strategy, its checkpoint, and its compiled functions by mode."""

    def __init__(self, source, strategy, rename, role, config, evaluated_parts):
        """`evaluated_parts`: the parts of batches that evaluations give out, see `keras_steps.evaluation`."""
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
        self.loaded = None  # the checkpoint that the variables hold, _TRAINED, or None for the given state
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
                function = keras_steps.training(
                    model,
                    strategy,
                    self.global_step,
                    self._rename,
                    finish,
                    jit_compile=self._config.jit_compile,
                    accumulate_steps=self._config.accumulate_steps,
                )
            elif mode == ModeKeys.EVAL:
                function = keras_steps.evaluation(model, strategy, self._rename, finish, self._evaluated_parts)
            else:
                function = keras_steps.Prediction(model, finish)
            self._functions[key] = function
        return self._functions[key]

    def hook_graph(self, mode, value_specs, config):
        """As `_hook_graph`, of runs whose hooks add nothing to it: one serves all that give the same values."""
        key = mode, *value_specs.items()
        if key not in self._hook_graphs:
            hook_graph, spec = _hook_graph(mode, value_specs, self.checkpoint, config)
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
            checkpoints.restore(self.checkpoint, self.model, path, self._trains)
        finalize_state(self.model)
        if self._takes_averages:
            self.model.optimizer.finalize_variable_values(self.model.trainable_variables)
        if before != statistics(self.model):
            self._functions.clear()  # they hold the statistics of Normalization layers as constants
        self.loaded = stamp


class _Steps:
    """The steps of one run, for a FunctionSession: called, it runs the next of them and gives their values."""

    def __init__(self, copy, mode, dataset, config, checkpoint_path, last_step, part, finish):
        """`part`: of the copy's model, the part that is trained on the data set; None: the whole.

        `finish`: what the replicas make of the features of a batch first; None: nothing.
        """
        self._copy = copy
        self._mode = mode
        self._dataset = dataset
        self._config = config
        self._checkpoint_path = checkpoint_path
        self._last_step = last_step
        self._function_of = functools.partial(copy.function, mode, part, finish)
        self._sessions = 0
        self._state = copy.loaded
        self._iterators = [iter(dataset)]  # only the current one
        weakref.finalize(self, iterators.release, self._iterators).atexit = False
        self.global_step = self._first_step = int(copy.global_step.numpy())
        self._function = self._function_of()
        was_built = copy.model.built
        self.value_specs, self._call = self._function.trace(self._iterator)
        if checkpoint_path is not None and not was_built:
            checkpoints.check_same_model(copy.model, checkpoint_path)

    @property
    def _iterator(self):
        (iterator,) = self._iterators
        return iterator

    def start(self):
        """Called for every new session: all but the first recover from an error, from the newest checkpoint."""
        self._sessions += 1
        self._function.clear()
        if self._sessions > 1:
            newest = checkpoints.latest_intact(self._config.model_dir)
            if self._mode == ModeKeys.TRAIN and newest is not None:  # else it goes on with the variables as they are
                self._copy.restore(newest)
            iterators.release(self._iterators)
            self._iterators.append(iter(self._dataset))
            self.global_step = int(self._copy.global_step.numpy())

    def __call__(self):
        if self._mode == ModeKeys.TRAIN:
            self._copy.loaded = _TRAINED
        elif self._copy.loaded != self._state:
            self._copy.restore(self._checkpoint_path)  # another generator has loaded its own since
        function = self._function_of()
        if self._function is not function:
            self._function = function
            _, self._call = self._function.trace(self._iterator)
        with multi_worker.naming_lost_workers(self._copy.strategy):
            values = self._call(self._iterator, self._count())
        if self._mode == ModeKeys.TRAIN:
            self.global_step += int(values[step_values.STEPS])
        return values

    def _count(self):
        """How many steps the next call may run: to the last step, the next checkpoint or the next log line, no more.

        Checkpoints are saved every so many steps, and what is logged is that of the first step and every so many on.
        """
        if self._mode != ModeKeys.TRAIN:
            return 1
        config, done = self._config, self.global_step - self._first_step
        counts = [config.steps_per_loop]
        if self._last_step is not None:
            counts.append(self._last_step - self.global_step)
        for every, first in (
            (config.save_checkpoints_steps, 0),
            (config.save_summary_steps, 0),  # SummarySaverHook asks for the summaries of one step, before it
            (config.save_summary_steps, 1),
            (config.log_step_count_steps, 1),
        ):
            if every:
                counts.append(int(every) - (done - first) % int(every))
        return min(counts)


def _hook_graph(mode, value_specs, checkpoint, config):
    """A HookGraph of those values, and its EstimatorSpec."""
    hook_graph = HookGraph(value_specs)
    with hook_graph.graph.as_default():
        saver = checkpoints.ObjectSaver(checkpoint, config)
        v1.add_to_collection(v1.GraphKeys.SAVERS, saver)  # where a CheckpointSaverHook of the user's finds it
        ready = hook_graph.ready_op
        scaffold = v1.train.Scaffold(ready_op=ready, ready_for_local_init_op=ready, saver=saver)
        return hook_graph, _spec(mode, hook_graph, scaffold)


def _spec(mode, hook_graph, scaffold):
    """The EstimatorSpec of the hook graph; call with the graph as default."""
    values = hook_graph.model_values
    if mode == ModeKeys.PREDICT:
        return EstimatorSpec(mode, predictions=values, scaffold=scaffold)
    if not values:
        raise ValueError("train_step and test_step must return at least one value; return the loss.")
    loss = values.get("loss", next(iter(values.values())))
    if mode == ModeKeys.TRAIN:
        for name, value in values.items():
            if value is not loss and value.shape.rank == 0 and value.dtype.is_floating:
                v1.add_to_collection(v1.GraphKeys.SUMMARIES, tf.raw_ops.ScalarSummary(tags=name, values=value))
        if step_values.LEARNING_RATE in hook_graph.values:
            rate = hook_graph.values[step_values.LEARNING_RATE]
            v1.add_to_collection(v1.GraphKeys.SUMMARIES, tf.raw_ops.ScalarSummary(tags="learning_rate", values=rate))
        return EstimatorSpec(mode, loss=loss, train_op=hook_graph.step_op, scaffold=scaffold)
    metrics = {name: (value, hook_graph.step_op) for name, value in values.items()}
    return EstimatorSpec(mode, loss=loss, eval_metric_ops=metrics, scaffold=scaffold)


def _dataset(strategy, input_fn, finish, **offered):
    """The input_fn's data for the replicas of `strategy`, which `finish` the features."""

    def dataset_fn(input_context):
        dataset = call_input_fn(input_fn, input_context=input_context, **offered)
        if not isinstance(dataset, tf.data.Dataset):
            raise ValueError(
                f"input_fn must return a tf.data.Dataset, got: {type(dataset).__name__}. Return the data set itself, "
                "not tensors of its iterator; arrays go in with tf.data.Dataset.from_tensor_slices."
            )
        pipelines = input_context.num_input_pipelines
        if pipelines > 1 and dataset.cardinality() == 0:
            raise ValueError(
                f"The input_fn has no data for worker {input_context.input_pipeline_id} of {pipelines}; share out "
                "examples instead of files, or take fewer workers."
            )
        spec = dataset.element_spec
        if isinstance(spec, tuple) and len(spec) > 3:
            raise ValueError(f"input_fn's data must be (features, labels) or (features, labels, weights), got: {spec}")
        return _with_ranks(dataset)

    return distribute(strategy, dataset_fn, finish)


def _with_ranks(dataset):
    """`dataset`, with the ranks of its first element where it has none, as from a generator without a signature.

    Without ranks Keras cannot tell which accuracy "acc" is, nor TensorFlow what an example of a batch is.
    """
    specs = dataset.element_spec
    if all(spec.shape.rank is not None for spec in tf.nest.flatten(specs) if isinstance(spec, tf.TensorSpec)):
        return dataset
    first = next(iterators.elements(dataset.take(1)), None)
    if first is None:
        return dataset

    def with_ranks(*element):
        return tf.nest.map_structure(
            lambda part, like: tf.ensure_shape(part, [None] * like.shape.rank) if part.shape.rank is None else part,
            element if isinstance(specs, tuple) else element[0],
            first,
        )

    return dataset.map(with_ranks)
