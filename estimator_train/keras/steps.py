"""The compiled steps of a Keras model over the replicas of a strategy, as in Keras' fit, evaluate and predict."""

from __future__ import annotations

import concurrent.futures
import functools

import tensorflow as tf
import tf_keras as keras

from estimator_train.distribution.replica_input import batch_size
from estimator_train.distribution.synchronous import spans_workers
from estimator_train.keras import step_variables
from estimator_train.keras.accumulation import AccumulatedGradients
from estimator_train.session import private_names, step_outputs


class Loop:
    """Steps over the replicas of a strategy, compiled for the data of an iterator by `trace`."""

    def __init__(
        self,
        replica_step,
        strategy,
        rename,
        global_step=None,
        parts_of=lambda batch: {},
        about=dict,
        agreed=list,
        batches=1,
        replica_update=None,
        before_trace=lambda element_spec: None,
        clear=lambda: None,
    ):
        """`replica_step(batch)` gives the logs of one replica's batch; `global_step` counts the steps.

        `batches`: how many batches a step takes; where it takes several, `replica_update(number)` ends it, with the
        number of batches that there were data for.
        `about()`: a dict of names to what else is a value, the same on every replica, computed after the last step.
        `agreed()`: a list of those values of the logs that are those of all replicas already.
        `before_trace(element_spec)` is called with the `tf.TypeSpec` of the batches.
        `parts_of(batch)`: a dict of what else is a value, any tensors with an entry an example; `parts` is one of them,
        as of the last `trace`.
        `clear()` forgets what was added up since the last value, such as metrics.
        """
        self._replica_step = replica_step
        self._parts_of = parts_of
        self._about = about
        self._agreed = agreed
        self.parts = {}
        self._strategy = strategy
        self._rename = rename
        self._global_step = global_step
        self._batches = batches
        self._replica_update = replica_update
        self._before_trace = before_trace
        self.clear = clear
        self._values = {}  # of the function that is traced
        self._traced = {}  # of every traced function its values and parts

    def trace(self, iterator):
        """A dict of value names to `tf.TypeSpec`, and a function (iterator, count) that runs up to `count` steps.

        The function returns a dict of the values of the last step: what the model's step returned, each name through
        `rename`, and those of `step_values`, among them how many steps were run; it raises
        `tf.errors.OutOfRangeError` where there were no data for one.
        """
        self._before_trace(iterator.element_spec)
        self._values, self.parts = {}, {}
        # A concrete function spares each call the search for it.
        run = self._run.get_concrete_function(iterator, tf.constant(1, tf.int64))
        self._values, self.parts = self._traced.setdefault(run, (self._values, self.parts))

        def call(iterator, count):
            values = run(iterator, tf.constant(count, tf.int64))
            if not values[step_outputs.STEPS]:
                raise tf.errors.OutOfRangeError(None, None, "The input_fn's data has ended.")
            return values

        return _specs(run.structured_outputs), call

    # The loops are written out: AutoGraph would take longer to find them than all else of a trace takes.
    @tf.function(autograph=False)
    def _run(self, iterator, count):
        begun = tf.timestamp()
        with tf.control_dependencies([begun]):
            more, batch, there = self._next_batch(iterator, count > 0)
        none = tf.constant(0, tf.int64)
        # A step is begun with data only: those of its ops that need none, such as the count of the optimizer's
        # iterations, would run all the same. So the loop carries the batch of its next step, read during this one.
        _, _, done, examples, seconds = tf.while_loop(
            lambda more, *_: more,
            functools.partial(self._step if self._batches == 1 else self._step_of_several, iterator, count),
            (more, batch, none, none, there - begun),
        )
        values = {name: value.read_value() for name, value in self._values.items()} | self._about()
        values |= {step_outputs.STEPS: done, step_outputs.EXAMPLES: examples, step_outputs.INPUT_SECONDS: seconds}
        return values

    def _step(self, iterator, count, _, batch, done, examples, seconds):
        taken, ended = self._take(batch.get_value())
        done = self._count(done)
        more, batch, there = self._next_batch(iterator, done < count)
        return more, batch, done, examples + taken, seconds + (there - ended)

    def _step_of_several(self, iterator, count, _, batch, done, examples, seconds):
        def take(_, batch, taken, examples, seconds):
            of_batch, ended = self._take(batch.get_value())
            taken += 1
            more, batch, there = self._next_batch(iterator, (taken < self._batches) | (done + 1 < count))
            return more, batch, taken, examples + of_batch, seconds + (there - ended)

        more, batch, taken, examples, seconds = tf.while_loop(
            lambda more, batch, taken, *_: more & (taken < self._batches),
            take,
            (tf.constant(True), batch, tf.constant(0, tf.int64), examples, seconds),
        )
        self._strategy.run(self._replica_update, args=(taken,))
        return more, batch, self._count(done), examples, seconds

    def _next_batch(self, iterator, wanted):
        """Whether there is a next batch, that as a tf.experimental.Optional, and the time when it was there.

        It waits for nothing but `wanted`, whether there need be one: a function runs ops as soon as their inputs are
        there. Timestamps alone come in the order of the code, so the time is none before an earlier one.
        """
        empty = functools.partial(tf.experimental.Optional.empty, iterator.element_spec)
        batch = tf.cond(wanted, iterator.get_next_as_optional, empty)
        has_batch = batch.has_value()
        with tf.control_dependencies([has_batch]):
            there = tf.timestamp()
        if spans_workers(self._strategy):
            has_batch = tf.cond(has_batch, lambda: self._is_whole(batch.get_value()), lambda: tf.constant(False))
        return has_batch, batch, there

    def _is_whole(self, batch):
        """Whether all replicas have examples: a process that has none left is given an empty batch by TensorFlow."""

        def is_empty(batch):
            parts = [part for part in tf.nest.flatten(batch) if part.shape.rank != 0]
            return tf.cast(tf.reduce_any([batch_size(part) < 1 for part in parts]), tf.int32)

        empty = self._strategy.run(is_empty, args=(batch,))
        return self._strategy.reduce(tf.distribute.ReduceOp.SUM, empty, axis=None) < 1

    def _take(self, batch):
        """Runs the replicas' step on a batch; the number of its examples, and the time when all of it was done."""
        graph = tf.compat.v1.get_default_graph()
        before = len(graph.get_operations())
        logs, parts, count = self._strategy.run(self._one_replica, args=(batch,))
        agreed = {id(value) for value in self._agreed()}
        for name, value in self._rename(logs).items():
            self._keep(name, _reduce(self._strategy, value, agreed))
        for index, part in enumerate(parts):
            replicas = self._strategy.experimental_local_results(part)
            self._keep(f"{step_outputs.BATCH}{index}", tf.concat(replicas, axis=0))
        with tf.control_dependencies([op for op in graph.get_operations()[before:] if op.op_def.is_stateful]):
            ended = tf.timestamp()
        return self._strategy.reduce(tf.distribute.ReduceOp.SUM, count, axis=None), ended

    def _count(self, done):
        if self._global_step is not None:
            self._global_step.assign_add(1)
        return done + 1

    def _one_replica(self, batch):
        # A step of the user's may return Python numbers.
        logs = tf.nest.map_structure(tf.convert_to_tensor, self._replica_step(batch))
        self.parts = self._parts_of(batch)
        return logs, tf.nest.flatten(self.parts), batch_size(batch)

    def _keep(self, name, value):
        """Assigns the value to a variable of the trace: a loop gives out only what came into it."""

        def make():
            initial = tf.zeros([size or 0 for size in value.shape], value.dtype)
            return tf.Variable(initial, trainable=False, shape=value.shape, dtype=value.dtype)

        # tf.function traces twice what makes variables; those of another thread are none that it makes.
        with concurrent.futures.ThreadPoolExecutor(1) as thread:
            self._values[name] = thread.submit(make).result()
        self._values[name].assign(value)


def training(model, strategy, global_step, rename, finish=None, *, jit_compile=False, accumulate_steps=1):
    """A `Loop` over `model.train_step`. Its values are those of the last step's batches over all replicas.

    `finish`: what is made of the features of a batch first; None: nothing.
    `accumulate_steps`: batches of each replica whose mean gradient makes one update.
    """
    accumulated = AccumulatedGradients(model) if accumulate_steps > 1 else None
    train_step = _compile(accumulated.step if accumulated else model.train_step, jit_compile or model.jit_compile)

    def replica_step(batch):
        logs = train_step(_keras_data(batch, finish))
        if accumulated is None:
            with tf.control_dependencies([value for value in tf.nest.flatten(logs) if tf.is_tensor(value)]):
                model.reset_metrics()  # else the next values would be running means
        return logs

    def replica_update(batches):
        accumulated.update(batches)
        model.reset_metrics()

    def clear():
        model.reset_metrics()
        if accumulated is not None:
            accumulated.clear()

    with strategy.scope():
        has_rate = _learning_rate(model.optimizer) is not None  # a legacy optimizer makes its variables when asked

    def about():
        return {step_outputs.LEARNING_RATE: _learning_rate(model.optimizer)} if has_rate else {}

    def agreed():
        return private_names.last_metric_results(model.metrics)

    def make_variables(element_spec):
        if step_variables.is_keras_own(model, "train_step"):
            step_variables.of_optimizer(model, strategy)
            step_variables.of_metrics(model, strategy, element_spec, lambda batch: _keras_data(batch, finish))

    updates = {"batches": accumulate_steps, "replica_update": replica_update, "before_trace": make_variables}
    return Loop(replica_step, strategy, rename, global_step, about=about, agreed=agreed, clear=clear, **updates)


def evaluation(model, strategy, rename, finish=None, parts=()):
    """A `Loop` over `model.test_step`. Its values are those of all examples since `model.reset_metrics()`.

    `finish`: as for `training`.
    `parts`: those of "features", "labels" and "predictions" that are values of each step, too.
    """
    test_step = _compile(model.test_step, model.jit_compile)

    def parts_of(batch):
        features, *rest = _keras_data(batch, finish)
        every = {"features": features, "labels": rest[0] if rest else None}
        if "predictions" in parts:
            every["predictions"] = predict(model, features)
        return {part: every[part] for part in parts}

    def replica_step(batch):
        return test_step(_keras_data(batch, finish))

    def make_variables(element_spec):
        if step_variables.is_keras_own(model, "test_step"):
            step_variables.of_metrics(model, strategy, element_spec, lambda batch: _keras_data(batch, finish))

    return Loop(
        replica_step, strategy, rename, parts_of=parts_of, before_trace=make_variables, clear=model.reset_metrics
    )


class Prediction:
    """As `Loop`, over `model.predict_step`: one batch a call, on one device."""

    def __init__(self, model, finish=None):
        self._model = model
        self._finish = finish
        self._predict_step = _compile(model.predict_step, model.jit_compile)

    def clear(self):
        """Predictions add up nothing."""

    def trace(self, iterator):
        run = self._run.get_concrete_function(iterator)
        return _specs(run.structured_outputs), lambda iterator, count: run(iterator)

    @tf.function(autograph=False)
    def _run(self, iterator):
        features, *_ = _keras_data(iterator.get_next(), self._finish)
        return _by_output_name(self._model, self._predict_step((features,)))


def predict(model, features):
    """The predictions of `model` for a batch of features, a dict of output names to tensors.

    A dict of one feature serves a model of one input, whatever its name.
    """
    if isinstance(features, dict) and len(features) == len(model.inputs or ()) == 1:
        (features,) = features.values()
    return _by_output_name(model, model.predict_step((features,)))


def _compile(step, jit_compile):
    """A step of the model as Keras runs it: what the user wrote in it goes through AutoGraph."""
    if jit_compile:
        return tf.function(step, jit_compile=True, reduce_retracing=True)
    return private_names.with_autograph(step)


def _reduce(strategy, value, agreed):
    """One value of the replicas', as Keras makes it: metrics agree already, what a step returns by itself is summed.

    `agreed`: the ids of values that agree: where a process has one replica, the values themselves do not tell. A loss
    of Keras' own is divided by the number of replicas, so that its sum is the loss of the whole batch.
    """
    if isinstance(value, tf.distribute.DistributedValues) or (spans_workers(strategy) and id(value) not in agreed):
        return strategy.reduce(tf.distribute.ReduceOp.SUM, value, axis=None)
    return value


def _learning_rate(optimizer):
    """The rate of the last update, a float32 scalar; None of what has none, such as optimizers of v1."""
    rate = getattr(optimizer, "learning_rate", None)
    if isinstance(rate, keras.optimizers.schedules.LearningRateSchedule):  # a legacy optimizer's
        rate = rate(optimizer.iterations - 1)
    return None if rate is None else tf.cast(rate, tf.float32)


def _specs(values):
    return {name: tf.type_spec_from_value(value) for name, value in values.items()}


def _keras_data(batch, finish):
    """(features, labels[, sample weights]) as Keras takes it; tf.estimator put sample weights among the features."""
    features, *rest = batch if isinstance(batch, tuple) else (batch,)
    if finish is not None:
        features = finish(features)
    if isinstance(features, dict) and features.keys() == {"features", "sample_weights"} and len(rest) < 2:
        return features["features"], *rest, features["sample_weights"]
    return (features, *rest)


def _by_output_name(model, predictions):
    if isinstance(predictions, dict):
        return predictions
    predictions = list(predictions) if isinstance(predictions, (list, tuple)) else [predictions]
    names = model.output_names or [f"output_{index}" for index, _ in enumerate(predictions, 1)]
    return dict(zip(names, predictions, strict=True))
