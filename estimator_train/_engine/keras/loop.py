"""The compiled loop of steps over the replicas of a strategy."""

import concurrent.futures
import functools
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

import tensorflow as tf

from estimator_train._engine.cluster.synchronous import spans_workers
from estimator_train._engine.distribution.replica_input import batch_size
from estimator_train._engine.keras import private_tensorflow
from estimator_train._engine.keras.dataset import is_gpu
from estimator_train._engine.keras.protocols import BatchIterator
from estimator_train._engine.keras.step_programs import StepProgram
from estimator_train._engine.model_fn import ModeKeys
from estimator_train._engine.session import step_outputs
from estimator_train._engine.session.private_tensorflow import eager_mode
from estimator_train._engine.types import Nest, Strategy


class _Totals(NamedTuple):
    """Scalars that a call adds up."""

    examples: tf.Tensor  # int64
    seconds: tf.Tensor  # float64, of waiting for batches
    now: tf.Tensor  # float64, when the last step ended
    has_loss: tf.Tensor  # bool, whether the last step's loss is no NaN
    saves: tf.Tensor  # int64, how many replicas wish to save

    @classmethod
    def at(cls, begun: tf.Tensor) -> "_Totals":
        none = tf.constant(0, tf.int64)
        return cls(none, tf.constant(0, tf.float64), begun, tf.constant(True), none)

    def plus(self, examples: tf.Tensor, seconds: tf.Tensor, now: tf.Tensor) -> "_Totals":
        return self._replace(examples=self.examples + examples, seconds=self.seconds + seconds, now=now)


# Whether another step may start, given the number of steps done in the call and the time.
MayStart: TypeAlias = Callable[[tf.Tensor, tf.Tensor], tf.Tensor]
# The loops of `Loop._steps` carry whether to go on, the number of steps or batches done, and the totals.
Carried: TypeAlias = tuple[tf.Tensor, tf.Tensor, _Totals]
StepsDone: TypeAlias = tuple[tf.Tensor, _Totals]  # their number, and the totals


class Loop:
    """Runs a `StepProgram` on the replicas of `strategy`, compiled for an iterator; `global_step` counts its steps."""

    _counts_on_host = False  # whether a call counts and decides on the host, wherever the model is

    def __init__(self, program: StepProgram, strategy: Strategy, global_step: tf.Variable | None) -> None:
        self._program = program
        self._strategy = strategy
        self._global_step = global_step
        self._trains_with_others = global_step is not None and spans_workers(strategy)
        self.variables = ()  # those that the last traced function uses
        self.batch_structure = {}  # the structure of the program's batch outputs in the last `trace`
        self._outputs = {}  # output variables of the function being traced, by the names of their values
        self._traced = {}  # the outputs and the batch structure of every traced function
        self.takes_one_step = False  # whether a call must make a single step
        self._device = ""  # where the model's ops are without a strategy, if its loop is elsewhere, on the host
        with eager_mode(), tf.device("CPU:0"):
            self._read, self._done = (tf.Variable(0, trainable=False, dtype=tf.int64) for _ in range(2))  # batches
            self._host = tf.zeros([]).device if self._counts_on_host else None

    def trace(self, iterator: BatchIterator) -> tuple[dict[str, tf.TypeSpec], Callable]:
        """Returns a dict of value names to `tf.TypeSpec`, and a function (iterator, count, seconds, wishes).

        The function runs up to `count` steps, of which none begins after `seconds`, and returns a dict of the last
        step's values: those that the program's step returned and those of `step_outputs`, which include the number of
        steps. It raises `tf.errors.OutOfRangeError` if there was no data for a step or a worker wanted to stop.
        `wishes` are those of `synchronous.Agreement`, or () in a single process.
        """
        if not self._traced:
            self._program.build_variables(self._strategy, iterator.element_spec)
        reader = strategy_of(iterator)
        if self._counts_on_host and reader is not self._strategy:
            (self._device,) = reader.extended.worker_devices
        self._outputs, self.batch_structure = {}, {}
        # A concrete function avoids a lookup in each call.
        run = self._run.get_concrete_function(iterator, tf.zeros([4 if self._trains_with_others else 2], tf.int64))
        self._outputs, self.batch_structure = self._traced.setdefault(run, (self._outputs, self.batch_structure))
        self.variables = run.variables
        run_unchecked = private_tensorflow.unchecked(run)

        def call(iterator: BatchIterator, count: int, seconds: float, wishes: Sequence[int]) -> dict[str, tf.Tensor]:
            with tf.device(self._host):
                limits_and_wishes = tf.constant([count, round(seconds * 1e6), *wishes], tf.int64)
            values = run_unchecked(iterator, limits_and_wishes)
            if not values[step_outputs.STEPS]:
                raise tf.errors.OutOfRangeError(None, None, "The input_fn's data has ended.")
            return values

        return _specs(run.structured_outputs), call

    def reset(self) -> None:
        self._program.reset()
        self._read.assign(self._done)  # they differ after an error

    def batches_if_idle(self) -> int | None:
        """Returns the number of batches read so far, or None if the step of one of them may be running.

        Another thread that gets the same number twice knows that no variable has changed in between.
        """
        done = int(self._done.numpy())  # first, because it follows the other
        return done if done == int(self._read.numpy()) else None

    # Loops use tf.while_loop, because converting them by AutoGraph would take longer than the rest of a trace.
    @tf.function(autograph=False)
    def _run(self, iterator: BatchIterator, limits_and_wishes: tf.Tensor) -> dict[str, Nest]:
        with tf.device(self._host):
            count, microseconds = limits_and_wishes[0], limits_and_wishes[1]
            with tf.control_dependencies([count]):
                begun = private_tensorflow.timestamp()
            last_start = begun + tf.cast(microseconds, tf.float64) / 1e6

            def may_start(done: tf.Tensor, now: tf.Tensor) -> tf.Tensor:
                return (done < count) & (now <= last_start)

            done, totals = self._steps(iterator, may_start, begun, limits_and_wishes[2:])
        values = {name: output.read_value() for name, output in self._outputs.items()}
        values |= self._program.extra_outputs()
        values |= {step_outputs.STEPS: done, step_outputs.EXAMPLES: totals.examples}
        values |= {step_outputs.INPUT_SECONDS: totals.seconds}
        return values | {step_outputs.SAVES: totals.saves} if self._trains_with_others else values

    def _steps(self, iterator: BatchIterator, may_start: MayStart, begun: tf.Tensor, wishes: tf.Tensor) -> StepsDone:
        none, per_step = tf.constant(0, tf.int64), self._program.batches_per_step
        take = functools.partial(self._take, iterator, wishes)

        def step(_: tf.Tensor, done: tf.Tensor, totals: _Totals) -> Carried:
            if per_step == 1:
                more, batches, totals = take(done, none, totals)
            else:
                more, batches, totals = tf.while_loop(
                    lambda more, batches, _: more & (batches < per_step),
                    lambda _, batches, totals: take(done, batches, totals),
                    (tf.constant(True), none, totals),
                )
                tf.cond(batches > 0, lambda: self._end_step(batches), lambda: None)
            done = self._add_to_global_step(done, tf.cast(batches > 0, tf.int64))
            goes_on, totals = self._goes_on(totals)
            return more & may_start(done, totals.now) & goes_on, done, totals

        first = may_start(none, begun), none, _Totals.at(begun)
        _, done, totals = tf.while_loop(lambda more, *_: more, step, first)
        return done, totals

    def _take(
        self, iterator: BatchIterator, wishes: tf.Tensor, done: tf.Tensor, batches: tf.Tensor, totals: _Totals
    ) -> Carried:
        """Takes a batch and runs it, if there is one; returns whether there was, and the counts with it."""
        # Not a loop that carries the batch: it would take it to the host and back, because what a function returns is
        # on one device.
        with tf.control_dependencies([totals.now]):
            more, batch = next_batch(iterator)
        with tf.control_dependencies([more]):
            arrived = private_tensorflow.timestamp()
        agreed = []
        if self._trains_with_others:
            is_first = tf.cast((done < 1) & (batches < 1), tf.int64)  # wishes count once in a call
            more, examples, wished = self._agree(more, batch, wishes * is_first)
            totals = totals._replace(saves=totals.saves + wished)
            agreed = [examples]
        count = tf.cast(more, tf.int64)
        # A step changes variables only once its batch is counted. While a worker waits for the others, no step runs.
        with tf.control_dependencies([self._read.assign_add(count)]):
            more = tf.identity(more)
        none = tf.constant(0, tf.int64)
        # Without data, ops that need none, such as counting the optimizer's iterations, would run anyway.
        taken, ended = tf.cond(more, lambda: self._run_batch(done, batch(), *agreed), lambda: (none, arrived))
        return more, batches + count, totals.plus(taken, arrived - totals.now, ended)

    def _goes_on(self, totals: _Totals) -> tuple[tf.Tensor, _Totals]:
        """Returns whether a step may follow the one that has run, as far as its loss is concerned, and new totals."""
        loss = self._outputs.get("loss", next(iter(self._outputs.values()), None))  # as in `StepProgram.spec`
        if loss is None or not loss.dtype.is_floating:
            return tf.constant(True), totals
        # A call ends after a step whose loss is NaN, which NanTensorHook then finds, and nothing is saved after it. On
        # GPUs, which are behind the host, it ends a step later rather than wait for each loss.
        has_loss = ~tf.reduce_any(tf.math.is_nan(loss))
        goes_on = totals.has_loss if tf.config.list_logical_devices("GPU") else has_loss
        return goes_on, totals._replace(has_loss=has_loss)

    def _end_step(self, batches: tf.Tensor) -> None:
        with tf.device(self._device):
            self._strategy.run(self._program.update, args=(batches,))
        self._program.end_step()

    def _agree(self, has_batch: tf.Tensor, batch: Callable[[], Nest], wishes: tf.Tensor) -> tuple[tf.Tensor, ...]:
        """Returns (whether all workers run a step, its number of examples over all, how many replicas wish to save)."""
        # A process without a batch takes part, too, or the others would wait for it forever.
        local_replicas = len(self._strategy.extended.worker_devices)  # TensorFlow wants as many in each process
        sizes = tf.cond(
            has_batch,
            lambda: tf.stack(self._strategy.experimental_local_results(self._strategy.run(_sizes, args=(batch(),)))),
            lambda: tf.constant([[1, 0]] * local_replicas, tf.int64),
        )

        def sizes_and_wishes() -> tf.Tensor:
            replica = tf.distribute.get_replica_context().replica_id_in_sync_group % local_replicas
            return tf.concat([sizes[replica], wishes], axis=0)

        sums = self._strategy.reduce(tf.distribute.ReduceOp.SUM, self._strategy.run(sizes_and_wishes), axis=None)
        empty, examples, stops, saves = tf.unstack(sums)
        return (empty < 1) & (stops < 1), examples, saves

    def _run_batch(self, done: tf.Tensor, batch: Nest, examples: tf.Tensor | None = None) -> tuple[tf.Tensor, ...]:
        """Runs step number `done` of a call on every replica; returns (the number of examples, the time when it ended).

        `examples` is the number over all workers, None if there are no others.
        """
        graph = tf.compat.v1.get_default_graph()
        before = len(graph.get_operations())
        with tf.device(self._device):
            logs, batch_outputs, count = self._program.run_step(self._strategy, self._on_replica, batch)
        for name, value in logs.items():
            self._store_output(name, value)
            if self._program.keeps_each_step and value.shape.rank == 0 and value.dtype.is_floating:
                self._store_output(step_outputs.EACH_STEP + name, value, at=done)
        joined = [_joined(self._strategy.experimental_local_results(output)) for output in batch_outputs]
        self.batch_structure = tf.nest.pack_sequence_as(self.batch_structure, joined)
        tensors = [part for part in tf.nest.flatten(joined, expand_composites=True) if part is not None]
        for index, tensor in enumerate(tensors):
            self._store_output(f"{step_outputs.BATCH}{index}", tensor)
        ops = graph.get_operations()[before:]
        self.takes_one_step |= any(map(_gathers_any_length, ops))
        with tf.control_dependencies([op for op in ops if op.op_def.is_stateful]):
            ended = private_tensorflow.timestamp()
            self._done.assign_add(1)
        if examples is None:
            examples = self._strategy.reduce(tf.distribute.ReduceOp.SUM, count, axis=None)
        self._program.add_examples(examples)
        return examples, ended

    def _on_replica(self, batch: Nest) -> tuple[dict[str, tf.Tensor], list[tf.Tensor], tf.Tensor]:
        logs, self.batch_structure = self._program.step(batch)
        logs = tf.nest.map_structure(tf.convert_to_tensor, logs)  # a user's step may return Python numbers
        return logs, tf.nest.flatten(self.batch_structure), batch_size(batch)

    def _add_to_global_step(self, done: tf.Tensor, steps: tf.Tensor | int = 1) -> tf.Tensor:
        if self._global_step is not None:
            self._global_step.assign_add(steps)
        return done + steps

    def _store_output(self, name: str, value: tf.Tensor, at: tf.Tensor | None = None) -> None:
        """Assigns a value to a variable, because a loop returns no others; with `at`, to that element of a vector."""
        shape = value.shape if at is None else tf.TensorShape([None])
        # The host puts together what grows and the parts of a batch. Anything else is where the step computes it.
        device = None if at is None and not name.startswith(step_outputs.BATCH) else self._host

        def make() -> tf.Variable:
            # A new thread is not in eager mode if the program has turned it off.
            with eager_mode(), tf.device(device):
                initial = tf.zeros([size or 0 for size in shape], value.dtype)
                return tf.Variable(initial, trainable=False, shape=shape, dtype=value.dtype)

        # tf.function traces a function that creates variables twice, unless another thread creates them.
        with concurrent.futures.ThreadPoolExecutor(1) as thread:
            self._outputs[name] = output = thread.submit(make).result()
        output.assign(value if at is None else tf.concat([output[:at], [value]], axis=0))


class SingleSteps(Loop):
    """A `Loop` in one process whose calls run one step of one batch each; without a loop, a call has far fewer ops."""

    def _steps(self, iterator: BatchIterator, may_start: MayStart, begun: tf.Tensor, wishes: tf.Tensor) -> StepsDone:
        none = tf.constant(0, tf.int64)
        _, batches, totals = self._take(iterator, wishes, none, none, _Totals.at(begun))
        return self._add_to_global_step(none, batches), totals


class DevicesLoop(Loop):
    """A `Loop` over devices onto which batches are read ahead; it counts on the host, or would wait for the GPU."""

    _counts_on_host = True


class PredictionLoop:
    """The loop of a `PredictionProgram`, with the interface of `Loop`; runs one batch per call, on one device."""

    def __init__(self, program: StepProgram, *_: object) -> None:  # it needs no strategy and counts no steps
        self._program = program
        self.variables = ()

    def reset(self) -> None:
        self._program.reset()

    def trace(self, iterator: BatchIterator) -> tuple[dict[str, tf.TypeSpec], Callable]:
        run = self._run.get_concrete_function(iterator)
        self.variables = run.variables
        return _specs(run.structured_outputs), lambda iterator, *_: run(iterator)

    def trace_features(self, spec: Nest) -> tf.types.experimental.ConcreteFunction:
        """Returns the concrete function for batches of features with the `tf.TypeSpec` `spec`, without an iterator."""
        return self._predict.get_concrete_function(spec)

    @tf.function(autograph=False)
    def _run(self, iterator: BatchIterator) -> dict[str, Nest]:
        predictions, _ = self._program.step(iterator.get_next())
        return predictions

    @tf.function(autograph=False)
    def _predict(self, features: Nest) -> dict[str, Nest]:
        predictions, _ = self._program.step((features,))
        return predictions


def _joined(parts: Sequence[Nest]) -> Nest:
    """Returns a part of the batches of all replicas as one: a tensor of any kind, a number for the batch, or None."""
    first = parts[0]
    if first is None or first.shape.rank == 0:
        return first
    if isinstance(first, tf.SparseTensor):
        return tf.sparse.concat(0, list(parts), expand_nonconcat_dims=True)
    return tf.concat(parts, axis=0)


def _gathers_any_length(op: tf.Operation) -> bool:
    """Returns whether replicas gather tensors in `op`, such as gradients of an Embedding, whose lengths are unknown."""
    # TensorFlow takes the shapes of a collective op of its first run in a call, and fails where a later one has others.
    return op.type.startswith("CollectiveGather") and tf.get_static_value(op.inputs[0]) is None


def _sizes(batch: Nest) -> tf.Tensor:
    """Returns (1 if a part of a replica's batch has no examples or else 0, the number of examples), int64."""
    parts = [part for part in tf.nest.flatten(batch) if part is not None and part.shape.rank != 0]
    is_empty = tf.reduce_any([batch_size(part) < 1 for part in parts])
    return tf.stack([tf.cast(is_empty, tf.int64), batch_size(batch)])


def strategy_of(iterator: BatchIterator) -> Strategy:
    """Returns the strategy that has distributed the dataset of `iterator`, TensorFlow's default one if none has."""
    if isinstance(iterator, tf.distribute.DistributedIterator):
        return private_tensorflow.strategy_of(iterator)
    return tf.distribute.get_strategy()


def next_batch(iterator: BatchIterator) -> tuple[tf.Tensor, Callable[[], Nest]]:
    """Takes the next batch of each local replica; returns whether there is one, and a function that gives them."""
    if isinstance(iterator, tf.distribute.DistributedIterator):
        return private_tensorflow.next_on_devices(iterator)
    optional = iterator.get_next_as_optional()
    return optional.has_value(), optional.get_value


def _specs(values: dict[str, Nest]) -> dict[str, tf.TypeSpec]:
    return {name: tf.type_spec_from_value(value) for name, value in values.items()}


def kind_of_loop(program: StepProgram, iterator: BatchIterator, in_single_steps: bool) -> type[Loop | PredictionLoop]:
    """Returns the class that runs the steps; `in_single_steps`: each call will run one, agreed with no others."""
    if program.mode == ModeKeys.PREDICT:
        return PredictionLoop
    if _reads_onto_devices(strategy_of(iterator)):
        return DevicesLoop
    return SingleSteps if in_single_steps and program.batches_per_step == 1 else Loop


def _reads_onto_devices(strategy: Strategy) -> bool:
    mirrored = tf.distribute.MirroredStrategy, tf.distribute.MultiWorkerMirroredStrategy
    if not isinstance(strategy, (*mirrored, tf.distribute.OneDeviceStrategy)):
        return strategy.num_replicas_in_sync > 1
    devices = strategy.extended.worker_devices
    return len(devices) > 1 or is_gpu(devices[0])
