"""TimingHook counts every step and example, separates warm-up, and shows where the time went."""

import contextlib
import json
import time

import numpy as np
import pytest
import tensorflow as tf
from models import events

import estimator_train as et
from estimator_train._engine.distribution.replica_input import log_batch
from estimator_train._engine.host import time_spent
from estimator_train._engine.session import step_outputs
from estimator_train._engine.session.function_session import FunctionSessionCreator, HookGraph

v1 = tf.compat.v1


class FakeSteps:
    """Each call gives the next of the given dicts of step values."""

    def __init__(self, calls, first_step, at_call):
        self.calls = iter(calls)
        self.global_step = first_step
        self.at_call = at_call

    def start(self):
        pass

    def __call__(self):
        values = next(self.calls, None)
        if values is None:
            raise tf.errors.OutOfRangeError(None, None, "end")
        self.at_call()
        self.global_step += values.get(step_outputs.STEPS, 1)
        return {name: np.asarray(value) for name, value in values.items()}


def call(steps=1, examples=8, input_seconds=0.0):
    numbers = [np.int64(steps), np.int64(examples), np.float64(input_seconds)]
    return dict(zip(step_outputs.ABOUT_STEPS, numbers, strict=True))


def run(hook, calls, *, first_step=0, at_call=lambda: None, before=(), after=()):
    """Drives the hook, between other hooks, with calls whose step values are given."""
    graph = HookGraph({name: tf.TensorSpec([], value.dtype) for name, value in calls[0].items()})
    with graph.graph.as_default():
        creator = FunctionSessionCreator(
            v1.train.Scaffold(), graph, FakeSteps(calls, first_step, at_call), [graph.step_op]
        )
        with v1.train.MonitoredSession(creator, [*before, hook, *after]) as session:
            while not session.should_stop():
                session.run(graph.step_op)
    return hook


def test_every_step_of_a_call_has_its_time():
    hook = run(et.TimingHook(), [call(steps=4), call(steps=4), call(steps=3)])
    assert len(hook.times) == 11
    assert hook.times[0] == hook.times[3]
    assert all(seconds > 0 for seconds in hook.times)


def test_warm_up_is_the_first_call_of_a_session():
    hook = run(et.TimingHook(), [call(steps=2), call(steps=2), call(steps=4)])
    summary = hook.summary()
    assert (summary["warmup_steps"], summary["steps"]) == (2, 6)
    assert summary["warmup_seconds"] + summary["seconds"] == pytest.approx(sum(hook.times))
    assert summary["mean_seconds"] == pytest.approx(summary["seconds"] / 6)


def test_percentiles_are_those_of_the_steps_however_many_there_are():
    hook = run(et.TimingHook(), [call(steps=steps) for steps in (3, 1, 7, 2, 2, 5, 1)])
    summary, times = hook.summary(), hook.times[3:]
    for share in (50, 95):
        assert summary[f"p{share}_seconds"] == pytest.approx(np.percentile(times, share), rel=1e-9)
    run(hook, [call(), call(steps=10**12)])  # of which no list has room in memory
    assert hook.summary()["steps"] == 10**12 + 18


def test_a_second_session_warms_up_again():
    hook = run(et.TimingHook(), [call(), call()])
    run(hook, [call(), call()])
    assert (hook.summary()["warmup_steps"], hook.summary()["steps"]) == (2, 2)


def test_examples_and_input_wait_are_those_of_all_calls_after_warm_up():
    warm_up, rest = call(examples=100, input_seconds=9), [call(examples=5, input_seconds=0.5)] * 3
    summary = run(et.TimingHook(), [warm_up, *rest]).summary()
    assert summary["examples_per_second"] == pytest.approx(15 / summary["seconds"])
    assert summary["input_wait_share"] == pytest.approx(1.5 / summary["seconds"])


class Passes(et.SessionRunHook):
    """Advances a fake clock after each step, counted as `kind`."""

    def __init__(self, clock, seconds, kind=None):
        self.clock, self.seconds, self.kind = clock, seconds, kind

    def after_run(self, run_context, run_values):
        with contextlib.nullcontext() if self.kind is None else time_spent.counted_as(self.kind):
            self.clock[0] += self.seconds


@pytest.fixture
def clock(monkeypatch):
    """The value of time.perf_counter(), in a list."""
    clock = [100.0]
    monkeypatch.setattr(time, "perf_counter", lambda: clock[0])
    return clock


def test_the_parts_of_the_time_add_up_to_the_whole(clock):
    def step():
        clock[0] += 2

    before = [Passes(clock, 10, time_spent.EVALUATION)]
    after = [Passes(clock, 3, time_spent.CHECKPOINT), Passes(clock, 0.5)]
    hook, start = et.TimingHook(), clock[0]
    run(hook, [call(input_seconds=0.25)] * 5, at_call=step, before=before, after=after)
    summary = hook.summary()
    assert summary["whole_seconds"] == clock[0] - start == 5 * (2 + 10 + 3 + 0.5)
    names = ("warmup", "features", "checkpoint", "evaluation", "other")
    parts = {name: summary[f"{name}_seconds"] for name in names}
    assert parts == {"warmup": 2, "features": 0, "checkpoint": 15, "evaluation": 50, "other": 2.5}
    assert summary["seconds"] + sum(parts.values()) == summary["whole_seconds"]
    assert (summary["seconds"], summary["input_wait_seconds"], summary["examples_per_second"]) == (8, 1, 4)


def test_the_pass_through_frozen_layers_belongs_to_its_training_alone(clock):
    hook = et.TimingHook()
    for seconds in (20, 0):
        with time_spent.training():
            clock[0] += 5  # which is no session yet
            with time_spent.counted_as(time_spent.FEATURES):
                clock[0] += seconds
            run(hook, [call()] * 2, at_call=lambda: clock.__setitem__(0, clock[0] + 1))
        assert (hook.summary()["features_seconds"], hook.summary()["other_seconds"]) == (20, 0)
    assert hook.summary()["whole_seconds"] == 20 + 4
    run(later := et.TimingHook(), [call()])
    assert later.summary()["features_seconds"] == 0


def test_a_training_that_failed_counts_up_to_its_last_step(clock):
    hook = et.TimingHook()

    def fail_after_two():
        clock[0] += 1
        if len(hook.times) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(hook, [call()] * 5, at_call=fail_after_two)
    clock[0] += 1000  # until somebody continues
    run(hook, [call()] * 3, at_call=lambda: clock.__setitem__(0, clock[0] + 1))
    assert (hook.summary()["whole_seconds"], hook.summary()["other_seconds"]) == (5, 0)


def test_what_was_not_measured_is_none():
    empty = run(et.TimingHook(), [call()]).summary()
    assert (empty["steps"], empty["warmup_steps"]) == (0, 1)
    for name in ("mean_seconds", "p50_seconds", "p95_seconds", "steps_per_second", "examples_per_second"):
        assert empty[name] is None
    of_another_graph = run(et.TimingHook(), [{"loss": np.float32(1)}] * 3).summary()
    assert (of_another_graph["steps"], of_another_graph["warmup_steps"]) == (2, 1)
    assert of_another_graph["examples_per_second"] is None
    assert of_another_graph["input_wait_share"] is None
    assert of_another_graph["steps_per_second"] > 0


def test_the_end_writes_timing_json_and_the_steps_write_events(tmp_path):
    hook = run(et.TimingHook(str(tmp_path), every_n_steps=4), [call(steps=2)] * 6)
    timing = json.loads((tmp_path / "timing.json").read_text())
    (session,) = timing.pop("sessions")
    assert timing == hook.summary()
    assert timing.items() <= session.items() and (session["first_step"], session["last_step"]) == (0, 12)
    v1.summary.FileWriterCache.get(str(tmp_path)).flush()
    tags = [(step, tag) for step, tag, _ in events(tmp_path)]
    assert tags == [(step, tag) for step in (6, 10) for tag in ("examples/sec", "input_wait_share")]


@pytest.mark.parametrize(("replicas", "steps_per_loop"), [(None, 1), pytest.param(2, 3, marks=pytest.mark.slow)])
def test_training_is_counted_to_the_step_and_the_example(
    replicas, steps_per_loop, classifier, data, batches, mirrored, log_lines, tmp_path
):
    class Examples(et.SessionRunHook):
        count = 0

        def before_run(self, run_context):
            return et.SessionRunArgs(step_outputs.find(run_context.session.graph, step_outputs.EXAMPLES))

        def after_run(self, run_context, run_values):
            self.count += run_values.results

    log_batch.cache_clear()  # another test may have logged the same line
    config = et.RunConfig(train_distribute=mirrored(replicas), steps_per_loop=steps_per_loop)
    estimator = et.model_to_estimator(classifier("sgd", metrics=()), model_dir=tmp_path, config=config)
    timing, examples = et.TimingHook(), Examples()
    estimator.train(batches(tuple(array[:95] for array in data), 10), hooks=[timing, examples])
    steps = 10 if replicas is None else 5
    assert len(timing.times) == steps
    assert timing.summary()["warmup_steps"] == 1  # the first call ends where the first line is logged
    assert timing.summary()["steps"] == steps - 1
    assert examples.count == 95
    told = [line for line in log_lines if "Each step takes" in line]
    what = "Each step takes 20 examples over 2 replicas: the batch size of an input_fn is per replica; see "
    assert told == ([] if replicas is None else [f"{what}docs/distribution.md."])


@pytest.mark.slow
def test_a_slow_input_shows_as_input_wait(classifier, data, tmp_path):
    def wait(*example):
        time.sleep(0.05)
        return example

    def input_fn(slow):
        dataset = tf.data.Dataset.from_tensor_slices(data).batch(4)
        if not slow:
            return dataset.cache().repeat(2)
        types, specs = [tf.float32, tf.float32], dataset.element_spec
        dataset = dataset.map(lambda *example: tf.numpy_function(wait, example, types))
        return dataset.map(lambda *example: tuple(map(tf.ensure_shape, example, [spec.shape for spec in specs])))

    estimator = et.model_to_estimator(classifier(), model_dir=tmp_path)
    shares = {}
    for slow in (False, True):
        hook = et.TimingHook()
        estimator.train(lambda slow=slow: input_fn(slow), hooks=[hook])
        shares[slow] = hook.summary()["input_wait_share"]
    assert 0 <= shares[False] < shares[True] <= 1


@pytest.mark.slow
def test_evaluations_and_checkpoints_of_a_training_are_no_steps(classifier, data, batches, tmp_path):
    class Sleep(et.SessionRunHook):
        def after_run(self, run_context, run_values):
            time.sleep(0.02)

    class Around(et.SessionRunHook):
        def begin(self):
            self.start = time.perf_counter()

        def end(self, session):
            self.seconds = time.perf_counter() - self.start

    def train(max_steps):
        timing, around = et.TimingHook(tmp_path), Around()
        train_spec = et.TrainSpec(batches(data, 16, epochs=None), max_steps, hooks=[around, timing])
        et.train_and_evaluate(
            estimator, train_spec, et.EvalSpec(batches(data, 16), None, hooks=[Sleep()], every_steps=2)
        )
        return timing.summary(), around.seconds

    estimator = et.model_to_estimator(classifier("sgd", metrics=()), model_dir=tmp_path)
    for max_steps, evaluations in [(5, 2), (8, 2)]:  # resumed, it evaluates at step 5 and 7
        summary, seconds = train(max_steps)
        assert summary["whole_seconds"] == pytest.approx(seconds, rel=0.02, abs=0.01)
        assert summary["evaluation_seconds"] >= evaluations * 6 * 0.02
        assert summary["checkpoint_seconds"] > 0
        assert summary["seconds"] + summary["warmup_seconds"] < seconds - summary["evaluation_seconds"]
        assert summary["other_seconds"] >= 0
    timing = json.loads((tmp_path / "timing.json").read_text())
    assert [(each["first_step"], each["last_step"]) for each in timing["sessions"]] == [(0, 5), (5, 8)]
    assert [each["steps"] + each["warmup_steps"] for each in timing["sessions"]] == [5, 3]


@pytest.mark.parametrize("sessions", ["", "[1]", '{"sessions": 5}', '{"sessions": [5]}'])
def test_a_damaged_timing_json_is_begun_anew(sessions, tmp_path, log_lines):
    (tmp_path / "timing.json").write_text(sessions)
    run(et.TimingHook(tmp_path), [call()], first_step=3)
    (session,) = json.loads((tmp_path / "timing.json").read_text())["sessions"]
    assert (session["first_step"], session["last_step"]) == (3, 4)
    assert any("timing.json, so earlier sessions are left out" in line for line in log_lines)


def test_a_training_from_the_start_drops_the_sessions_of_another(tmp_path):
    for first_step in (0, 2, 0):
        run(et.TimingHook(tmp_path), [call()] * 2, first_step=first_step)
    (session,) = json.loads((tmp_path / "timing.json").read_text())["sessions"]
    assert session["first_step"] == 0


def test_what_a_killed_training_has_measured_is_kept(clock, tmp_path):
    def step():
        clock[0] += 40
        if clock[0] > 300:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(et.TimingHook(tmp_path, every_n_steps=1), [call()] * 9, at_call=step)
    (session,) = json.loads((tmp_path / "timing.json").read_text())["sessions"]
    assert (session["last_step"], session["steps"]) == (4, 3)
