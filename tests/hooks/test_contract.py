"""Hooks and listeners are called in tf.estimator's order with its values, and TensorFlow's own hooks all work."""

import gc
import json
import weakref

import numpy as np
import pytest
import tensorflow as tf
from models import KINDS, Fetched, growing, maker, scalars
from slow_cases import both_kinds

import estimator_train as et

v1 = tf.compat.v1


@pytest.fixture(params=KINDS)
def make_estimator(request, tmp_path):
    quiet = {"save_summary_steps": None, "checkpoint_save_graph_def": False}
    return maker(growing, request.param, tmp_path / "run", save_checkpoints_steps=1000, **quiet)


# In a model_fn's graph, a hook's fetches may be computed before or after the step's updates, and a separate session run
# computes them again. These tests define the behavior for Keras models.
of_keras = pytest.mark.parametrize("make_estimator", ["keras"], indirect=True)
of_model_fn = pytest.mark.parametrize("make_estimator", ["model_fn"], indirect=True)  # the faster one


fast_keras = both_kinds("make_estimator", "keras")
fast_model_fn = both_kinds("make_estimator", "model_fn")


def ones(steps=None):
    """An input_fn of so many batches of one example."""
    return lambda: tf.data.Dataset.from_tensors((tf.ones([1, 1]), tf.zeros([1, 1]))).repeat(steps)


@pytest.fixture
def calls(log_lines):
    """Events in order: the logger's lines, and entries of hooks and listeners."""
    return log_lines


class RecordingHook(et.SessionRunHook):
    def __init__(self, calls, name="hook"):
        self.calls, self.name = calls, name

    def begin(self):
        self.graph = v1.get_default_graph()
        assert not self.graph.finalized
        self.calls.append(f"{self.name} begin")

    def after_create_session(self, session, coord):
        assert self.graph.finalized
        self.calls.append(f"{self.name} after_create_session")

    def before_run(self, run_context):
        self.calls.append(f"{self.name} before_run")

    def after_run(self, run_context, run_values):
        assert run_values.results is None
        self.calls.append(f"{self.name} after_run")

    def end(self, session):
        self.calls.append(f"{self.name} end")


class RecordingListener(et.CheckpointSaverListener):
    def __init__(self, calls, stop_at=None):
        self.calls, self.stop_at = calls, stop_at

    def begin(self):
        self.calls.append("listener begin")

    def before_save(self, session, global_step_value):
        self.calls.append(f"listener before_save {global_step_value}")

    def after_save(self, session, global_step_value):
        self.calls.append(f"listener after_save {global_step_value}")
        return global_step_value == self.stop_at

    def end(self, session, global_step_value):
        self.calls.append(f"listener end {global_step_value}")


class AfterRun(et.SessionRunHook):
    """Calls a function of the run context after every step."""

    def __init__(self, function):
        self._function = function

    def after_run(self, run_context, run_values):
        self._function(run_context)


def raise_(error):
    raise error


def only(calls, *starts):
    return [line for line in calls if line.startswith(starts)]


# order


@pytest.mark.smoke
def test_hooks_and_listeners_are_called_in_the_order_of_tf_estimator(make_estimator, calls):
    estimator = make_estimator(save_checkpoints_steps=2)
    hooks = [RecordingHook(calls, "first"), RecordingHook(calls, "second")]
    estimator.train(ones(), hooks=hooks, steps=2, saving_listeners=[RecordingListener(calls)])
    assert only(calls, "first", "second", "listener") == [
        "listener begin",
        "first begin",
        "second begin",
        "listener before_save 0",
        "listener after_save 0",
        "first after_create_session",
        "second after_create_session",
        "first before_run",
        "second before_run",
        "first after_run",
        "second after_run",
        "first before_run",
        "second before_run",
        "listener before_save 2",
        "listener after_save 2",
        "first after_run",
        "second after_run",
        "listener end 2",
        "first end",
        "second end",
    ]


@fast_model_fn
def test_the_order_of_last_save_step_rate_loss_and_hook_calls(make_estimator, calls):
    estimator = make_estimator(log_step_count_steps=1)
    estimator.train(ones(3), hooks=[RecordingHook(calls)], saving_listeners=[RecordingListener(calls)])
    order = [line.split(":")[0].split(" = ")[0] for line in only(calls, "global_step/sec", "loss", "hook", "listener")]
    assert order == [
        "listener begin",
        "hook begin",
        "listener before_save 0",
        "listener after_save 0",
        "hook after_create_session",
        *["hook before_run", "hook after_run", "loss"],
        *["hook before_run", "global_step/sec", "hook after_run", "loss"] * 2,
        "hook before_run",  # the data has ended: no after_run
        "listener before_save 3",
        "listener after_save 3",
        "listener end 3",
        "hook end",
    ]


@fast_model_fn
def test_the_checkpoint_of_a_step_is_on_disk_when_a_hook_sees_the_step(make_estimator):
    estimator = make_estimator(save_checkpoints_steps=1)
    found = []
    estimator.train(ones(), hooks=[AfterRun(lambda _: found.append(estimator.latest_checkpoint()))], steps=3)
    assert [path.rsplit("-", 1)[1] for path in found] == ["1", "2", "3"]


@fast_keras
def test_hooks_of_evaluate_and_predict_are_called_for_every_batch(make_estimator, calls):
    estimator = make_estimator()
    estimator.evaluate(ones(2), hooks=[RecordingHook(calls)])
    list(estimator.predict(ones(2), hooks=[RecordingHook(calls)]))
    batch = ["hook before_run", "hook after_run"]
    once = ["hook begin", "hook after_create_session", *batch * 2, "hook before_run", "hook end"]
    assert only(calls, "hook") == once * 2


# values


class LastValues(et.FinalOpsHook):
    def __init__(self):
        super().__init__(None)

    def begin(self):
        step = v1.train.get_global_step()
        self._final_ops = {"step": step, "loss": v1.get_default_graph().get_tensor_by_name("loss:0")}


@of_keras
def test_hooks_find_log_and_fetch_values_and_add_ops_and_variables(make_estimator, calls):
    def begin():
        loss = v1.get_default_graph().get_tensor_by_name("loss:0")
        step = v1.train.get_global_step()
        total = v1.get_variable("total", [], initializer=v1.zeros_initializer())
        add = v1.assign_add(total, loss)
        return {"loss": loss, "step": step, "nested": (10 * loss, [tf.cast(step, tf.float32) / 2]), "total": add}

    def look(run_context):
        fetches = [v1.train.get_global_step(run_context.session.graph), "loss:0"]
        seen.append([run_context.session.run(fetches) for _ in range(2)])

    by_name = et.LoggingTensorHook(["loss", "mae"], every_n_iter=1, at_end=False)
    with_outputs = et.LoggingTensorHook({"the loss": "loss:0"}, every_n_iter=2)
    fetched, last, seen = Fetched(begin), LastValues(), []
    make_estimator().train(ones(), hooks=[by_name, with_outputs, fetched, AfterRun(look), last], steps=3)
    assert [line.split(" (")[0] for line in only(calls, "loss = ") if "mae" in line] == [
        "loss = 0.0, mae = 0.0",
        "loss = -1.0, mae = 1.0",
        "loss = -2.0, mae = 2.0",
    ]
    assert [line.split(" (")[0] for line in only(calls, "the loss")] == ["the loss = 0.0", "the loss = -2.0"]
    assert fetched.values == [
        {"loss": 0, "step": 0, "nested": (0, [0]), "total": 0},
        {"loss": -1, "step": 1, "nested": (-10, [0.5]), "total": -1},
        {"loss": -2, "step": 2, "nested": (-20, [1]), "total": -3},
    ]
    assert seen == [[[1, 0]] * 2, [[2, -1]] * 2, [[3, -2]] * 2]  # the new global step, and no step of their own
    assert last.final_ops_values == {"step": 3, "loss": -2}


@fast_model_fn
def test_feed_fn_hook_feeds_what_a_hook_added(make_estimator):
    def begin():
        fed = v1.placeholder(tf.float32, [], name="fed")
        feed.feed_fn = lambda: {fed: 7.0}
        return v1.get_default_graph().get_tensor_by_name("loss:0") + fed

    hook, feed = Fetched(begin), et.FeedFnHook(None)
    make_estimator().train(ones(), hooks=[hook, feed], steps=2)
    assert hook.values == [7, 6]


# stopping


@pytest.mark.parametrize(
    ("make_estimator", "arguments"),
    [pytest.param("keras", {"num_steps": 2}, marks=pytest.mark.slow), ("model_fn", {"last_step": 3})],
    indirect=["make_estimator"],
)
def test_stop_at_step_hook_stops(arguments, make_estimator):
    estimator = make_estimator()
    estimator.train(ones(), steps=1)
    hooks = [et.GlobalStepWaiterHook(1), et.StopAtStepHook(**arguments)]  # the former waits for nothing
    estimator.train(ones(), hooks=hooks, max_steps=10)
    assert estimator.latest_checkpoint().endswith("-3")


@fast_keras
def test_request_stop_ends_after_the_step(make_estimator, calls):
    estimator = make_estimator()
    hooks = [AfterRun(lambda run_context: run_context.request_stop()), RecordingHook(calls)]
    estimator.train(ones(), hooks=hooks)
    assert only(calls, "hook")[-2:] == ["hook after_run", "hook end"]
    assert estimator.latest_checkpoint().endswith("-1")


@fast_model_fn
def test_stop_iteration_skips_the_later_hooks_and_ends_all(make_estimator, calls):
    estimator = make_estimator()
    hooks = [RecordingHook(calls, "early"), AfterRun(lambda _: raise_(StopIteration())), RecordingHook(calls, "late")]
    estimator.train(ones(), hooks=hooks)
    assert only(calls, "early", "late")[4:] == [
        "early before_run",
        "late before_run",
        "early after_run",
        "early end",
        "late end",
    ]
    assert estimator.latest_checkpoint().endswith("-1")


@fast_model_fn
def test_an_error_of_a_hook_goes_to_the_caller_and_nothing_is_ended(make_estimator, calls):
    estimator = make_estimator()
    hooks = [RecordingHook(calls), AfterRun(lambda _: raise_(RuntimeError("from the hook")))]
    with pytest.raises(RuntimeError, match="from the hook"):
        estimator.train(ones(), hooks=hooks)
    assert only(calls, "hook")[-1] == "hook after_run"
    assert tf.executing_eagerly()
    estimator.train(ones(), steps=1)
    assert estimator.latest_checkpoint().endswith("-1")


@fast_model_fn
def test_a_listener_that_returns_true_stops_training(make_estimator, calls):
    estimator = make_estimator(save_checkpoints_steps=2)
    estimator.train(ones(), max_steps=9, saving_listeners=[RecordingListener(calls, stop_at=4)])
    assert estimator.latest_checkpoint().endswith("-4")
    assert only(calls, "A CheckpointSaverListener requested that training be stopped. listener: ")


@of_keras
def test_nan_tensor_hook_of_the_user_can_stop_training(make_estimator, calls):
    class Log(et.NanTensorHook):
        def __init__(self):
            super().__init__(None, fail_on_nan_loss=False)

        def begin(self):
            loss = v1.get_default_graph().get_tensor_by_name("loss:0")
            self._loss_tensor = tf.where(v1.train.get_global_step() < 2, loss, np.nan)

    estimator = make_estimator()
    estimator.train(ones(), hooks=[Log()], max_steps=9)
    assert only(calls, "Model diverged with loss = NaN.")
    assert estimator.latest_checkpoint().endswith("-3")


# checkpoints and summaries


@pytest.mark.parametrize(
    ("make_estimator", "with_listeners"),
    [("model_fn", False), pytest.param("keras", True, marks=pytest.mark.slow)],
    indirect=["make_estimator"],
)
def test_the_users_checkpoint_saver_hook_replaces_ours_and_takes_listeners(with_listeners, make_estimator, calls):
    estimator = make_estimator()
    own = RecordingListener(calls)
    hook = et.CheckpointSaverHook(estimator.model_dir, save_steps=3, listeners=[own])
    listeners = [RecordingListener(calls)] if with_listeners else []
    estimator.train(ones(), hooks=[hook], steps=4, saving_listeners=listeners)
    saves = only(calls, "listener after_save")
    expected = ["listener after_save 0", "listener after_save 3", "listener after_save 4"]
    assert saves == [line for line in expected for _ in range(2 if with_listeners else 1)]
    assert calls.count("Create CheckpointSaverHook.") == 1


@of_keras
def test_listeners_of_an_earlier_training_are_not_called_again(make_estimator, calls):
    estimator = make_estimator()
    hook = et.CheckpointSaverHook(estimator.model_dir, save_steps=9, listeners=[RecordingListener(calls)])
    for _ in range(2):
        estimator.train(ones(), hooks=[hook], steps=1, saving_listeners=[RecordingListener(calls)])
    expected = ["listener after_save 0", "listener after_save 1", "listener after_save 1", "listener after_save 2"]
    assert only(calls, "listener after_save") == [line for line in expected for _ in range(2)]


@of_model_fn
def test_a_hooks_own_listener_remains_if_a_training_passes_it_as_well(make_estimator, calls):
    estimator, own = make_estimator(), RecordingListener(calls)
    hook = et.CheckpointSaverHook(estimator.model_dir, save_steps=9, listeners=[own])
    estimator.train(ones(), hooks=[hook], steps=1, saving_listeners=[own])
    estimator.train(ones(), hooks=[hook], steps=1)
    expected = ["listener after_save 0", "listener after_save 1", "listener after_save 1", "listener after_save 2"]
    assert only(calls, "listener after_save") == expected


@pytest.mark.slow
@of_keras
def test_a_saver_hook_of_train_and_evaluate_is_freed(make_estimator):
    estimator = make_estimator()
    hook = et.CheckpointSaverHook(estimator.model_dir, save_steps=9)
    et.train_and_evaluate(estimator, et.TrainSpec(ones(), 1, [hook]), et.EvalSpec(ones(1)))
    kept = weakref.ref(hook)
    del estimator, hook
    gc.collect()
    assert kept() is None


@of_keras
def test_loss_and_step_rate_are_in_the_events(make_estimator):
    estimator = make_estimator(save_summary_steps=2, log_step_count_steps=2)
    estimator.train(ones(), steps=5)
    assert scalars(estimator.model_dir, "loss") == [(1, 0), (3, -2), (5, -4)]
    assert [step for step, _ in scalars(estimator.model_dir, "global_step/sec")] == [3, 5]


@fast_model_fn
def test_loss_is_written_at_the_steps_of_tf_estimator_by_default(make_estimator):
    estimator = make_estimator(save_summary_steps=et.RunConfig().save_summary_steps)
    estimator.train(ones(), steps=101)
    tags = ("loss", "loss_1")  # the model_fn has taken the first name
    assert [written for tag in tags if (written := scalars(estimator.model_dir, tag))] == [[(1, 0), (101, -100)]]


@fast_keras
def test_a_summary_that_a_hook_adds_is_written(make_estimator, tmp_path):
    class Doubled(et.SummarySaverHook):
        def begin(self):
            loss = v1.get_default_graph().get_tensor_by_name("loss:0")
            self._summary_op = v1.summary.scalar("doubled", 2 * loss)
            super().begin()

    class Added(et.SessionRunHook):
        def begin(self):
            v1.summary.scalar("tripled", 3 * v1.get_default_graph().get_tensor_by_name("loss:0"))

    estimator = make_estimator(save_summary_steps=1)
    own = Doubled(save_steps=1, output_dir=str(tmp_path / "own"), summary_op="made in begin")
    estimator.train(ones(), hooks=[own, Added()], steps=3)
    assert scalars(tmp_path / "own", "doubled") == [(1, 0), (2, -2), (3, -4)]
    assert scalars(estimator.model_dir, "tripled") == [(1, 0), (2, -3), (3, -6)]


@pytest.mark.slow
@of_keras
def test_step_counter_hook_writes_the_step_rate(make_estimator, tmp_path, calls):
    hook = et.StepCounterHook(every_n_steps=2, output_dir=str(tmp_path / "own"))
    make_estimator(log_step_count_steps=None).train(ones(), hooks=[hook], steps=5)
    assert [step for step, _ in scalars(tmp_path / "own", "global_step/sec")] == [3, 5]
    assert len(only(calls, "global_step/sec: ")) == 2
    assert not only(calls, "loss = ")


@fast_model_fn
def test_profiler_hook_made_in_eager_mode_writes_timelines(make_estimator, tmp_path):
    hook = et.ProfilerHook(save_steps=2, output_dir=str(tmp_path))
    make_estimator().train(ones(), hooks=[hook], steps=5)
    timelines = sorted(tmp_path.glob("timeline-*.json"))
    assert timelines
    assert all("traceEvents" in json.loads(path.read_text()) for path in timelines)
