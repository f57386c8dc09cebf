"""The compiled loop: how many steps a call makes, what it returns, and what happens at the end of the data."""

import contextlib
import math
import threading

import numpy as np
import pytest
import tensorflow as tf
import tf_keras as keras
import warm_python

import estimator_train as et
from estimator_train._engine.keras import dataset, loop, run
from estimator_train._engine.keras.loop import DevicesLoop, Loop, PredictionLoop, SingleSteps
from estimator_train._engine.keras.step_programs import StepProgram
from estimator_train._engine.session import step_outputs

LONG = 1e9  # seconds


class Adding(StepProgram):
    """Sums each batch; a step may take several."""

    trains = True

    def __init__(self, batches=1):
        self._batches = batches
        self.total, self.updates, self.examples = (tf.Variable(0, dtype=tf.int64) for _ in range(3))
        self.resets = 0

    @property
    def batches_per_step(self):
        return self._batches

    def step(self, batch):
        self.total.assign_add(tf.reduce_sum(batch))
        return {"sum": tf.reduce_sum(batch)}, {"batch": batch}

    def run_step(self, strategy, step, batch):
        return strategy.run(step, args=(batch,))

    def update(self, batches):
        self.updates.assign(self.updates * 10 + batches)

    def extra_outputs(self):
        return {"total": self.total.read_value()}

    def add_examples(self, examples):
        self.examples.assign_add(examples)

    def reset(self):
        self.resets += 1


@pytest.fixture
def traced():
    """Traces a loop over the numbers below `count` in batches of 2."""

    def make(program, count, strategy=None):
        strategy = strategy or tf.distribute.get_strategy()
        global_step = tf.Variable(0, dtype=tf.int64)
        loop = Loop(program, strategy, global_step)
        iterator = iter(tf.data.Dataset.range(count).batch(2))
        specs, call = loop.trace(iterator)
        return loop, specs, lambda steps, seconds=LONG: call(iterator, steps, seconds, ()), global_step

    return make


def test_a_call_runs_its_steps_and_returns_the_values_of_the_last(traced):
    program = Adding()
    loop, specs, call, global_step = traced(program, 12)
    assert {"sum", "total", f"{step_outputs.BATCH}0", step_outputs.STEPS} <= specs.keys()
    values = call(2)
    assert int(values["sum"]) == 2 + 3 and int(values["total"]) == 0 + 1 + 2 + 3
    assert np.array_equal(values[f"{step_outputs.BATCH}0"], [2, 3])
    assert (int(values[step_outputs.STEPS]), int(values[step_outputs.EXAMPLES])) == (2, 4)
    assert int(global_step) == 2 and int(program.examples) == 4
    assert list(loop.batch_structure) == ["batch"]
    assert loop.batches_if_idle() == 2  # a call reads no batch that it does not use


def test_a_call_at_the_end_of_the_data_runs_what_is_left(traced):
    program = Adding()
    _, _, call, global_step = traced(program, 6)
    assert int(call(5)[step_outputs.STEPS]) == 3
    with pytest.raises(tf.errors.OutOfRangeError, match="data has ended"):
        call(1)
    assert int(global_step) == 3 and int(program.total) == 15


@pytest.mark.parametrize("batches", [1, 2])
def test_a_call_without_time_for_another_step_makes_one(batches, traced):
    loop, _, call, global_step = traced(Adding(batches), 12)
    assert [int(call(5, seconds)[step_outputs.STEPS]) for seconds in (0, 0)] == [1, 1]
    assert int(global_step) == 2 and loop.batches_if_idle() == 2 * batches


@pytest.mark.parametrize("batches", [1, 2])
def test_the_next_batch_is_read_while_a_step_runs(batches):
    were_read, seen = [threading.Event() for _ in range(4)], []

    def read(index):
        were_read[index].set()
        return index

    def wait_for_next(index):
        if index < 3:
            seen.append(were_read[index + 1].wait(5))

    class Waiting(Adding):
        def step(self, batch):
            tf.py_function(wait_for_next, [batch[0]], [])
            return {}, {}

    dataset = tf.data.Dataset.range(4).map(lambda index: tf.py_function(read, [index], tf.int64)).batch(1)
    _, call = Loop(Waiting(batches), tf.distribute.get_strategy(), None).trace(iterator := iter(dataset))
    call(iterator, 4 // batches, LONG, ())
    assert seen == [True] * 3


def test_a_call_gives_the_values_of_each_of_its_steps_if_asked(traced):
    class Means(Adding):
        keeps_each_step = True

        def step(self, batch):
            return {"mean": tf.reduce_mean(tf.cast(batch, tf.float32)), "batch": tf.cast(batch, tf.float32)}, {}

    _, specs, call, _ = traced(Means(), 12)
    name = f"{step_outputs.EACH_STEP}mean"
    assert specs[name].shape.as_list() == [None] and f"{step_outputs.EACH_STEP}batch" not in specs
    assert [call(count)[name].numpy().tolist() for count in (3, 2, 5)] == [[0.5, 2.5, 4.5], [6.5, 8.5], [10.5]]


def test_a_step_of_several_batches_is_updated_once_with_their_number(traced):
    program = Adding(batches=2)
    _, _, call, global_step = traced(program, 10)
    values = call(3)
    assert int(values[step_outputs.STEPS]) == 3 and int(global_step) == 3
    assert int(program.updates) == 221  # the last step has one batch
    assert int(values[step_outputs.EXAMPLES]) == 10


class Losing(Adding):
    """Its loss becomes NaN with the batch that begins with 4."""

    def step(self, batch):
        return {"count": tf.constant(1), "loss": tf.where(batch[0] < 4, 1.0, math.nan)}, {}

    def run_step(self, strategy, step, batch):
        logs, *others = strategy.run(step, args=(batch,))
        return {name: strategy.reduce("SUM", value, axis=None) for name, value in logs.items()}, *others

    def update(self, batches):
        pass


@pytest.mark.parametrize(
    ("kind", "replicas", "batches", "steps"),
    [
        (Loop, 1, 1, 3),
        pytest.param(Loop, 1, 2, 2, marks=pytest.mark.slow),
        pytest.param(DevicesLoop, 2, 1, 2, marks=pytest.mark.slow),
        (DevicesLoop, 2, 3, 1),
    ],
)
def test_a_call_ends_with_the_first_step_whose_loss_is_nan(kind, replicas, batches, steps, mirrored):
    strategy, global_step = mirrored(replicas), tf.Variable(0, dtype=tf.int64)
    loop = kind(Losing(batches), strategy, global_step)
    dataset = strategy.distribute_datasets_from_function(lambda _: tf.data.Dataset.range(60).batch(2))
    _, call = loop.trace(iterator := iter(dataset))
    values = call(iterator, 5, LONG, ())
    assert math.isnan(values["loss"]) and int(values[step_outputs.STEPS]) == int(global_step) == steps


def test_beside_gpus_a_call_ends_a_step_after_a_loss_that_is_nan(traced, monkeypatch):
    monkeypatch.setattr(tf.config, "list_logical_devices", lambda kind: [kind] * (kind == "GPU"))
    _, _, call, _ = traced(Losing(), 20)
    assert [int(call(5)[step_outputs.STEPS]) for _ in range(2)] == [4, 2]


@pytest.fixture
def on_devices(mirrored):
    """Traces a loop over the numbers below `count`, in batches of 2, on two devices or another number."""

    class Replicated(Adding):
        def __init__(self, batches, strategy):
            super().__init__(batches)
            with strategy.scope():
                self.total, self.updates = (
                    tf.Variable(
                        0,
                        dtype=tf.int64,
                        synchronization=tf.VariableSynchronization.ON_READ,
                        aggregation=tf.VariableAggregation.SUM,
                    )
                    for _ in range(2)
                )

        def run_step(self, strategy, step, batch):
            logs, *others = strategy.run(step, args=(batch,))
            return {name: strategy.reduce("SUM", value, axis=None) for name, value in logs.items()}, *others

        def extra_outputs(self):
            return {}

    def make(count, batches=1, replicas=2):
        strategy, global_step = mirrored(replicas), tf.Variable(0, dtype=tf.int64)
        program = Replicated(batches, strategy)
        loop = DevicesLoop(program, strategy, global_step)
        dataset = strategy.distribute_datasets_from_function(lambda _: tf.data.Dataset.range(count).batch(2))
        _, call = loop.trace(iterator := iter(dataset))
        return loop, program, lambda steps, seconds=LONG: call(iterator, steps, seconds, ()), global_step

    return make


def test_batches_of_replicas_are_counted_together_and_concatenated(on_devices):
    loop, program, call, global_step = on_devices(24)
    values = call(1)
    assert int(values["sum"]) == 0 + 1 + 2 + 3 and int(values[step_outputs.EXAMPLES]) == 4
    assert np.array_equal(values[f"{step_outputs.BATCH}0"], [0, 1, 2, 3])
    assert float(values[step_outputs.INPUT_SECONDS]) > 0
    values = call(3)
    assert (int(values["sum"]), int(values[step_outputs.STEPS])) == (12 + 13 + 14 + 15, 3)
    assert int(call(5, 0)[step_outputs.STEPS]) == 1  # no time for another
    assert loop.batches_if_idle() == int(global_step) == 5
    assert int(call(5)[step_outputs.STEPS]) == 1  # the rest
    with pytest.raises(tf.errors.OutOfRangeError, match="data has ended"):
        call(1)
    assert int(global_step) == 6 and int(program.total.read_value()) == sum(range(24))


def test_a_step_of_several_batches_of_replicas_may_end_with_fewer(on_devices):
    loop, program, call, global_step = on_devices(20, batches=2)
    assert int(call(2)[step_outputs.STEPS]) == 2 and int(program.updates.read_value()) == 2 * 22
    assert int(call(2)[step_outputs.EXAMPLES]) == 4  # a step of one batch on each device
    assert (int(global_step), int(program.updates.read_value()), loop.batches_if_idle()) == (3, 2 * 221, 5)
    with pytest.raises(tf.errors.OutOfRangeError, match="data has ended"):
        call(1)
    assert int(global_step) == 3 and int(program.updates.read_value()) == 2 * 221


def test_one_device_runs_all_steps_too(on_devices):
    loop, program, call, global_step = on_devices(10, replicas=1)
    assert [int(call(count)[step_outputs.STEPS]) for count in (1, 3, 3)] == [1, 3, 1]
    with pytest.raises(tf.errors.OutOfRangeError, match="data has ended"):
        call(1)
    assert int(global_step) == loop.batches_if_idle() == 5 and int(program.total.read_value()) == sum(range(10))


@pytest.fixture
def strategy_of(mirrored):
    """Gives a strategy of one replica by its name."""
    makers = {"none": tf.distribute.get_strategy, "one device": lambda: tf.distribute.OneDeviceStrategy("CPU:0")}
    return lambda name: makers.get(name, lambda: mirrored(1))()


@pytest.mark.parametrize(
    ("strategy", "kind"),
    [
        ("none", Loop),
        ("one device", SingleSteps),
        pytest.param("mirrored", Loop, marks=pytest.mark.slow),
        pytest.param("mirrored", SingleSteps, marks=pytest.mark.slow),
    ],
)
def test_one_trace_takes_data_of_any_length(strategy, kind, strategy_of):
    strategy = strategy_of(strategy)
    with strategy.scope():
        loop = kind(Adding(), strategy, None)

    def steps_in(dataset):
        iterator = iter(strategy.distribute_datasets_from_function(lambda _: dataset.batch(2)))
        _, call = loop.trace(iterator)
        count = 0
        with contextlib.suppress(tf.errors.OutOfRangeError):
            while count < 5:
                count += int(call(iterator, 5 - count if kind is Loop else 1, LONG, ())[step_outputs.STEPS])
        return count

    numbers = tf.data.Dataset.range(5)
    assert [steps_in(data) for data in (numbers.take(0), numbers.repeat(), numbers, numbers.take(0))] == [0, 5, 3, 0]
    assert len(loop._traced) == 1


@pytest.mark.parametrize("strategy", ["none", "one device", "mirrored"])
def test_single_steps_end_with_the_data_and_change_nothing_then(strategy, strategy_of):
    class Keeping(Adding):
        keeps_each_step = True

        def step(self, batch):
            self.total.assign_add(1)  # needs no data
            return {"mean": tf.reduce_mean(tf.cast(batch, tf.float32))}, {"batch": batch}

    strategy = strategy_of(strategy)
    with strategy.scope():
        program, global_step = Keeping(), tf.Variable(0, dtype=tf.int64)
    loop = SingleSteps(program, strategy, global_step)
    iterator = iter(strategy.distribute_datasets_from_function(lambda _: tf.data.Dataset.range(5).batch(2)))
    specs, call = loop.trace(iterator)
    values = [call(iterator, 1, LONG, ()) for _ in range(3)]
    assert values[0].keys() == specs.keys()
    assert [value["mean"].numpy() for value in values] == [0.5, 2.5, 4]
    assert [value[f"{step_outputs.EACH_STEP}mean"].numpy().tolist() for value in values] == [[0.5], [2.5], [4]]
    assert [value[f"{step_outputs.BATCH}0"].numpy().tolist() for value in values] == [[0, 1], [2, 3], [4]]
    assert [int(value[step_outputs.EXAMPLES]) for value in values] == [2, 2, 1]
    assert {int(value[step_outputs.STEPS]) for value in values} == {1}
    for _ in range(2):
        with pytest.raises(tf.errors.OutOfRangeError, match="data has ended"):
            call(iterator, 1, LONG, ())
    counts = [int(variable.numpy()) for variable in (global_step, program.total, program.examples)]
    assert counts == [3, 3, 5] and loop.batches_if_idle() == 3


def test_a_single_step_that_fails_leaves_its_batch_counted_as_read():
    class Failing(Adding):
        def step(self, batch):
            tf.debugging.assert_less(batch, tf.constant(2, tf.int64))
            return super().step(batch)

    loop = SingleSteps(Failing(), tf.distribute.get_strategy(), None)
    _, call = loop.trace(iterator := iter(tf.data.Dataset.range(4).batch(2)))
    call(iterator, 1, LONG, ())
    with pytest.raises(tf.errors.InvalidArgumentError):
        call(iterator, 1, LONG, ())
    assert loop.batches_if_idle() is None


@pytest.fixture
def gpu(monkeypatch):
    """The device CPU:1 stands for the GPU on which models without a strategy run."""
    for module in (dataset, loop):
        monkeypatch.setattr(module, "is_gpu", lambda device: device.endswith("CPU:1"))
    with tf.device("CPU:1"):
        yield


@pytest.mark.slow
def test_a_run_without_a_strategy_takes_its_batches_on_the_gpu(gpu, classifier, batches, data, monkeypatch, tmp_path):
    kinds, losses, devices = [], [], []
    kind_of_loop = run.kind_of_loop
    monkeypatch.setattr(run, "kind_of_loop", lambda *arguments: kinds.append(kind_of_loop(*arguments)) or kinds[-1])
    model = classifier()

    def loss(labels, predictions):
        devices.append(tf.identity(predictions).device[-5:])
        return keras.losses.categorical_crossentropy(labels, predictions)

    model.compile("adam", loss)
    for device in ("CPU:0", "CPU:1"):
        estimator = et.model_to_estimator(model, model_dir=tmp_path / device)
        with tf.device(device):
            estimator.train(batches(data, 16, epochs=2), max_steps=12)
            losses.append(estimator.evaluate(batches(data, 10))["loss"])
    assert kinds == [Loop, SingleSteps, DevicesLoop, DevicesLoop]
    assert losses[0] == losses[1]
    assert set(devices) == {"", "CPU:1"}  # not on CPU:0, the host, where the loop counts


# In a process of its own, because another test's functions and devices would be counted, too.
SENDS = """
import sys
import numpy as np
import estimator_train as et
import tensorflow as tf
import tf_keras as keras
from estimator_train import distribution
from tensorflow.python.eager import context

def sends(train):
    context.enable_run_metadata()
    train()
    graphs = context.export_run_metadata().function_graphs
    context.disable_run_metadata()
    nodes = [node for graph in graphs for partition in graph.partition_graphs for node in partition.node]
    return [node for node in nodes if node.op in ("_Send", "_HostSend")]

def model():
    model = keras.Sequential([keras.layers.Dense(3, input_shape=(4,))])
    model.compile("sgd", "mse", steps_per_execution=2)
    return model

def input_fn():
    return tf.data.Dataset.from_tensor_slices((np.ones([64, 4]), np.ones([64, 3]))).batch(8).repeat()
"""

BETWEEN_REPLICAS = (
    SENDS
    + """
def count(nodes):
    types = [tf.dtypes.as_dtype(node.attr["T"].type) for node in nodes]
    print(types.count(tf.float32), types.count(tf.variant))

strategy = distribution.cpu_replicas(int(sys.argv[1]))
estimator = et.model_to_estimator(model(), config=et.RunConfig(sys.argv[2], train_distribute=strategy))
with strategy.scope():
    fitted = model()
count(sends(lambda: estimator.train(input_fn, max_steps=2)))
count(sends(lambda: fitted.fit(input_fn(), steps_per_epoch=2, verbose=0)))
"""
)

# CPU:1 stands for a GPU: what nobody places runs there, and variables and models are there. CPU:0 is the host.
TO_THE_HOST = (
    SENDS
    + """
from estimator_train._engine.keras import dataset, loop

def timestamp(timestamp=tf.timestamp):
    with tf.device("CPU:0"):  # GPUs have no kernel for it
        return timestamp()

def count(nodes):
    print(sum("CPU:1" in node.attr["send_device"].s.decode() and "/body/" in node.name for node in nodes))

distribution.cpu_replicas(2)
tf.timestamp = timestamp
dataset.is_gpu = loop.is_gpu = lambda device: device.endswith("CPU:1")
strategy = tf.distribute.OneDeviceStrategy("CPU:1") if "strategy" in sys.argv else None
estimator = et.model_to_estimator(model(), config=et.RunConfig(sys.argv[-1], train_distribute=strategy))
with tf.device("CPU:1"):
    count(sends(lambda: estimator.train(input_fn, max_steps=4)))
"""
)


def run_script(code, *arguments, folder):
    (folder / "program.py").write_text(code)
    done = warm_python.run([folder / "program.py", *arguments, folder / "run"], folder)
    assert done.returncode == 0, done.stderr[-2000:]
    return [[int(number) for number in line.split()] for line in done.stdout.splitlines()]


@pytest.mark.slow
@pytest.mark.parametrize("devices", [2, 4])
def test_a_step_sends_no_more_between_devices_than_fit(devices, tmp_path):
    ours, fits = run_script(BETWEEN_REPLICAS, devices, folder=tmp_path)
    assert 0 < ours[0] <= fits[0] and ours[1] == 0  # batches are float32, an Optional that holds them is a variant


# Each value that the host waits for empties a GPU's queue of kernels: the batch's size, the loss, the step's end.
@pytest.mark.slow
@pytest.mark.parametrize("arguments", [[], ["strategy"]])
def test_the_host_waits_for_few_values_of_a_step_on_a_gpu(arguments, tmp_path):
    ((waits,),) = run_script(TO_THE_HOST, *arguments, folder=tmp_path)
    assert 0 < waits <= 7


def test_reset_resets_the_program_and_forgets_a_batch_that_failed(traced):
    program = Adding()
    loop, _, call, _ = traced(program, 4)
    call(1)
    loop._read.assign_add(1)  # as after an error in a step
    assert loop.batches_if_idle() is None
    loop.reset()
    assert program.resets == 1 and loop.batches_if_idle() == 1


def test_equal_datasets_share_one_trace():
    program = Adding()
    loop = Loop(program, tf.distribute.get_strategy(), None)
    calls = []
    for size in (2, 2):
        iterator = iter(tf.data.Dataset.range(4).batch(size))
        _, call = loop.trace(iterator)
        calls.append(int(call(iterator, 2, LONG, ())["sum"]))
    assert calls == [5, 5] and len(loop._traced) == 1


def test_the_prediction_loop_runs_one_batch_a_call_or_batches_in_memory():
    class Doubling(StepProgram):
        def step(self, batch):
            features = batch[0] if isinstance(batch, tuple) else batch
            return {"doubled": features * 2}, {}

        def reset(self):
            pass

    loop = PredictionLoop(Doubling(None, None, None))
    iterator = iter(tf.data.Dataset.range(4).batch(2))
    specs, call = loop.trace(iterator)
    assert list(specs) == ["doubled"]
    assert np.array_equal(call(iterator, 7, LONG, ())["doubled"], [0, 2])
    assert np.array_equal(call(iterator, 7, LONG, ())["doubled"], [4, 6])
    with pytest.raises(tf.errors.OutOfRangeError):
        call(iterator, 1, LONG, ())
    run = loop.trace_features(tf.TensorSpec([None], tf.int64))
    assert np.array_equal(run(tf.constant([3], tf.int64))["doubled"], [6])


@pytest.mark.slow
def test_replicas_train_an_embedding_on_batches_of_any_length(mirrored, tmp_path):
    model = keras.Sequential([keras.layers.Embedding(9, 2), keras.layers.GlobalAveragePooling1D()])
    model.compile("sgd", "mse")

    def input_fn():
        return tf.data.Dataset.range(2, 8).map(lambda size: (tf.ones([2, size], tf.int64), tf.ones([2, 2])))

    config = et.RunConfig(tmp_path, train_distribute=mirrored(2), steps_per_loop=3)
    assert et.model_to_estimator(model, config=config).train(input_fn).get_variable_value("global_step") == 3
