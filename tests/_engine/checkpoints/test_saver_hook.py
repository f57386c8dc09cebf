"""KeyboardInterrupt anywhere in a training: the steps done are saved, and a second one stops that, too."""

import contextlib
import dataclasses
import os
import signal
import subprocess
import sys
import time

import nbformat
import pytest
import tensorflow as tf
from models import KINDS, growing, maker
from slow_cases import both_kinds

import estimator_train as et
from estimator_train._engine import checkpoints
from estimator_train._engine.checkpoints.object_based import ObjectSaver
from estimator_train._engine.cluster import synchronous
from estimator_train._engine.keras.loop import Loop
from estimator_train._engine.keras.model import KerasModel

v1 = tf.compat.v1


@pytest.fixture(params=KINDS)
def make_estimator(request, tmp_path):
    quiet = {"save_summary_steps": None, "checkpoint_save_graph_def": False}
    return maker(growing, request.param, tmp_path / "run", save_checkpoints_steps=1000, **quiet)


of_keras = pytest.mark.parametrize("make_estimator", ["keras"], indirect=True)


fast_keras = both_kinds("make_estimator", "keras")
fast_model_fn = both_kinds("make_estimator", "model_fn")


def ones():
    return tf.data.Dataset.from_tensors((tf.ones([1, 1]), tf.zeros([1, 1]))).repeat()


def three():
    return ones().take(3)


def interrupt(*_):
    """Ctrl-C: its handler runs at the next line of Python in this thread."""
    os.kill(os.getpid(), signal.SIGINT)


def raise_interrupt(*_):
    raise KeyboardInterrupt


class At(et.SessionRunHook):
    """Calls a function after the step `at`."""

    def __init__(self, at, function):
        self.at, self.function = at, function

    def begin(self):
        self.step = v1.train.get_global_step()

    def after_run(self, run_context, run_values):
        if run_context.session.run(self.step) == self.at:
            self.function()


def saved(estimator):
    """Returns the step and the weight of the newest checkpoint."""
    path = estimator.latest_checkpoint()
    (name,) = (name for name in estimator.get_variable_names() if name == "w" or "kernel" in name)
    return checkpoints.read_global_step(path), float(estimator.get_variable_value(name).squeeze())


@pytest.mark.parametrize(
    ("make_estimator", "function"),
    [pytest.param("keras", interrupt, marks=pytest.mark.slow), ("model_fn", raise_interrupt)],
    indirect=["make_estimator"],
)
def test_interrupted_training_saves_its_steps_and_resumes(function, make_estimator):
    estimator = make_estimator()
    with pytest.raises(KeyboardInterrupt):
        estimator.train(ones, hooks=[At(50, function)], max_steps=60)
    assert saved(estimator) == (50, 50)
    assert saved(make_estimator().train(ones, max_steps=60)) == (60, 60)


@of_keras
def test_a_loop_that_is_interrupted_is_saved_with_all_its_steps(make_estimator, monkeypatch):
    """The handler runs when the compiled call has returned, before the Estimator has counted its steps."""
    trace_loop = Loop.trace

    def trace(self, iterator):
        specs, run = trace_loop(self, iterator)
        return specs, lambda *arguments: (run(*arguments), interrupt())[0]

    monkeypatch.setattr(Loop, "trace", trace)
    estimator = make_estimator(steps_per_loop=4, accumulate_steps=2, log_step_count_steps=None)
    with pytest.raises(KeyboardInterrupt):
        estimator.train(ones, max_steps=20)
    assert saved(estimator) == (4, 4)


@fast_keras
def test_an_interrupted_checkpoint_is_saved_again(make_estimator, monkeypatch):
    estimator = make_estimator(save_checkpoints_steps=5)

    class Interrupt(et.CheckpointSaverListener):
        def before_save(self, session, global_step_value):
            if global_step_value == 5:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        estimator.train(ones, saving_listeners=[Interrupt()])
    assert saved(estimator) == (5, 5)


@fast_model_fn
def test_an_interrupted_evaluation_keeps_the_checkpoint_it_reads(make_estimator):
    estimator = make_estimator(save_checkpoints_steps=5)
    times = []

    class Interrupt(et.SessionRunHook):
        def before_run(self, run_context):
            times.append(os.stat(f"{estimator.latest_checkpoint()}.index").st_mtime_ns)
            raise KeyboardInterrupt

    specs = et.TrainSpec(ones, 20), et.EvalSpec(three, None, hooks=[Interrupt()], throttle_secs=0)
    with pytest.raises(KeyboardInterrupt):
        et.train_and_evaluate(estimator, *specs)
    assert saved(estimator) == (5, 5)
    assert times == [os.stat(f"{estimator.latest_checkpoint()}.index").st_mtime_ns], "it was written twice"


@fast_model_fn
def test_an_interrupt_before_the_first_step_leaves_the_start(make_estimator):
    estimator = make_estimator()

    class Interrupt(et.SessionRunHook):
        def before_run(self, run_context):
            raise KeyboardInterrupt

    for expected in (0, 3):
        with pytest.raises(KeyboardInterrupt):
            estimator.train(ones, hooks=[Interrupt()])
        assert saved(estimator) == (expected, expected)
        estimator.train(ones, max_steps=3)


@fast_model_fn
def test_a_second_interrupt_ends_the_saving(make_estimator, monkeypatch):
    estimator = make_estimator()
    owner = ObjectSaver if isinstance(estimator._model, KerasModel) else v1.train.Saver
    save = owner.save

    def save_twice(self, session, path, global_step, **options):
        if global_step == 5:
            interrupt()
        return save(self, session, path, global_step=global_step, **options)

    monkeypatch.setattr(owner, "save", save_twice)
    with pytest.raises(KeyboardInterrupt):
        estimator.train(ones, hooks=[At(5, interrupt)])
    assert saved(estimator) == (0, 0)


@fast_keras
def test_a_users_own_saver_saves_the_interrupted_training(make_estimator):
    estimator = make_estimator()
    own = et.CheckpointSaverHook(estimator.model_dir, save_steps=1000)
    with pytest.raises(KeyboardInterrupt):
        estimator.train(ones, hooks=[own, At(5, interrupt)])
    assert saved(estimator) == (5, 5)


@of_keras
def test_workers_in_sync_save_nothing_alone(make_estimator):
    estimator = make_estimator()
    hooks = [et.CheckpointSaverHook(estimator.model_dir, save_steps=1000), At(2, interrupt)]
    with contextlib.closing(estimator._prepare(et.ModeKeys.TRAIN, three, None, None, hooks)) as run, run.as_default():
        in_sync = dataclasses.replace(run, agreement=synchronous.Agreement(estimator.config))
        with pytest.raises(KeyboardInterrupt):
            estimator._run_steps(in_sync, hooks)
    assert checkpoints.read_global_step(estimator.latest_checkpoint()) == 0


NOTEBOOK = [
    """
import os
import pathlib
import time
import estimator_train as et
import tensorflow as tf
import tf_keras as keras

class Wait(et.SessionRunHook):
    def begin(self):
        self.step = tf.compat.v1.train.get_global_step()

    def after_run(self, run_context, run_values):
        if run_context.session.run(self.step) == 50:
            pathlib.Path("kernel").write_text(str(os.getpid()))
            time.sleep(120)

def input_fn():
    return tf.data.Dataset.from_tensors((tf.ones([1, 1]), tf.zeros([1, 1]))).repeat()

model = keras.Sequential([keras.layers.Dense(1, input_shape=(1,))])
model.compile("sgd", "mse")
estimator = et.model_to_estimator(model, model_dir="run")
""",
    "estimator.train(input_fn, hooks=[Wait()])",
    "estimator.latest_checkpoint()",
    "estimator.train(input_fn, steps=10).latest_checkpoint()",
]


@pytest.mark.slow
def test_an_interrupted_notebook_cell_keeps_its_last_step_and_resumes(tmp_path):
    path = tmp_path / "notebook.ipynb"
    nbformat.write(nbformat.v4.new_notebook(cells=[*map(nbformat.v4.new_code_cell, NOTEBOOK)]), path)
    program = "import sys; from nbclient.cli import main; sys.exit(main())"
    arguments = ["--inplace", "--allow-errors", path]
    process = subprocess.Popen([sys.executable, "-c", program, *arguments], stderr=subprocess.DEVNULL)
    waits = tmp_path / "kernel"
    while not (waits.exists() and waits.read_text()):
        assert process.poll() is None
        time.sleep(0.05)
    os.kill(int(waits.read_text()), signal.SIGINT)  # as the button that interrupts the kernel does
    process.wait()
    cells = nbformat.read(path, as_version=4).cells
    outputs = [output for cell in cells for output in cell.outputs]
    errors = [output for output in outputs if output.output_type == "error"]
    results = [output.data["text/plain"] for output in outputs if output.output_type == "execute_result"]
    assert [error.ename for error in errors] == ["KeyboardInterrupt"]
    assert len("\n".join(errors[0].traceback).splitlines()) <= 20
    assert results == [repr(f"run/model.ckpt-{step}") for step in (50, 60)]
