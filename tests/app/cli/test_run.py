"""estimator_train run: a script of tf.estimator's days as __main__, its flags, tracebacks and exit codes its own."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import warm_python

ROOT = Path(__file__).parents[3]

# Replaces TensorFlow in tests that do not need it. It has an estimator, so install does not change it.
TENSORFLOW = "import logging\n__version__, estimator, get_logger = '2.15', object(), logging.getLogger\n"


@pytest.fixture
def run(tmp_path):
    """Runs the command in a folder of files, given by their paths."""

    def run(files, *arguments):
        for name, text in files.items():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(text)
        environment = {name: value for name, value in os.environ.items() if name != "TF_USE_LEGACY_KERAS"}
        return subprocess.run(
            [sys.executable, "-m", "estimator_train", *arguments],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            env=environment | {"PYTHONPATH": str(ROOT)},
        )

    return run


@pytest.mark.slow
def test_a_script_finds_tf_estimator_its_flags_and_its_folder(run, tmp_path):
    files = {
        "scripts/helper.py": "value = 7",
        "scripts/old.py": """
import sys
import helper
import tensorflow.compat.v1 as tf
from absl import flags

flags.DEFINE_integer("steps", 1, "")
flags.DEFINE_bool("all", False, "")

def main(argv):
    flag_values = flags.FLAGS
    assert __name__ == "__main__" and sys.modules["__main__"].main is main
    assert tf.keras.__name__.startswith("tf_keras") and tf.layers.dense
    print(helper.value, argv, flag_values.steps, flag_values["all"].value, sys.path[0], sys.argv[0])
    print(tf.estimator.Estimator.__module__, tf.estimator.ModeKeys.TRAIN)
    return 3

tf.app.run(main)
""",
    }
    result = run(files, "run", "scripts/old.py", "--steps=5", "--all", "data")
    assert result.returncode == 3, result.stderr
    assert result.stdout.splitlines() == [
        f"7 ['{tmp_path}/scripts/old.py', 'data'] 5 True {tmp_path / 'scripts'} {tmp_path}/scripts/old.py",
        "estimator_train.estimator_v1 train",
    ]


ECHO = "import sys; print(__name__, sys.argv, sys.path[0]); "


def test_every_argument_after_the_script_is_its_own(run, tmp_path):
    files = {"tensorflow.py": TENSORFLOW, "echo.py": ECHO}
    arguments = ["--help", "-m", "--", "train", "--version"]
    result = run(files, "run", "echo.py", *arguments)
    assert result.returncode == 0, result.stderr
    assert result.stdout == f"__main__ {[str(tmp_path / 'echo.py'), *arguments]} {tmp_path}\n"


def test_a_module_runs_as_with_python_m(run, tmp_path):
    files = {"tensorflow.py": TENSORFLOW, "jobs/__init__.py": "", "jobs/echo.py": ECHO}
    result = run(files, "run", "-m", "jobs.echo", "--help")
    assert result.stdout == f"__main__ {[str(tmp_path / 'jobs' / 'echo.py'), '--help']} {tmp_path}\n"


@pytest.mark.parametrize("module", [[], ["-m"]])
def test_an_uncaught_error_shows_the_scripts_frames_alone(run, module):
    files = {"tensorflow.py": TENSORFLOW, "fails.py": "def fail():\n    raise EOFError('no more')\n\nfail()\n"}
    result = run(files, "run", *module, "fails" if module else "fails.py")
    assert result.returncode == 1
    traceback = result.stderr[result.stderr.index("Traceback") :]
    assert traceback.endswith("EOFError: no more\n") and traceback.count("File ") == 2
    assert "estimator_train" not in traceback and "runpy" not in traceback


@pytest.mark.parametrize(
    ("script", "code", "error"),
    [
        ("", 0, ""),
        ("raise SystemExit(3)", 3, ""),
        ("import sys; sys.exit('bad')", 1, "bad"),
        ("import click; raise click.ClickException('its own')", 1, "click.exceptions.ClickException: its own"),
        ("raise KeyboardInterrupt", -signal.SIGINT, "KeyboardInterrupt"),
        ("def (:", 1, "SyntaxError: invalid syntax"),
    ],
)
def test_the_exit_code_and_the_last_line_are_the_scripts(run, script, code, error):
    result = run({"tensorflow.py": TENSORFLOW, "script.py": script}, "run", "script.py")
    assert result.returncode == code
    *_, last = result.stderr.splitlines()
    assert last == error or (not error and "its own tf.estimator" in last)


@pytest.mark.parametrize(
    ("script", "name"),
    [
        ("import tensorflow as tf\ntf.train.AdamOptimizer()", "tf.train.AdamOptimizer"),
        ("from tensorflow.contrib import slim", "tf.contrib"),
        ("import tensorflow as tf\ntf.train.AdamOptimiser()", None),
    ],
)
def test_a_script_that_fails_at_a_tensorflow_1_name_is_pointed_to_tf1(tmp_path, script, name):
    (tmp_path / "script.py").write_text(script)
    done = warm_python.run(["-m", "estimator_train", "run", "script.py"], tmp_path, cwd=tmp_path)
    *_, error, last = done.stderr.splitlines()
    assert done.returncode == 1
    if name:
        assert "Error: " in error
        assert last == f"estimator_train: {name} belongs to TensorFlow 1; try: estimator_train run --tf1 script.py"
    else:
        assert "Error: " in last


TF1 = """
import sys
import tensorflow as tf
import estimator_train.install_tf1
import tensorflow

assert tensorflow is tf and "estimator_train.compat.tf1.contrib.rnn" not in sys.modules  # only once used
assert not tf.executing_eagerly() and tf.train.AdamOptimizer and tf.contrib.rnn.LSTMCell
assert tf.estimator.Estimator.__module__ == "estimator_train.estimator_v1" and tf.keras.estimator.model_to_estimator
assert tf.function and tf.random.set_seed and tf.data.AUTOTUNE == tf.contrib.data.AUTOTUNE  # TensorFlow 2's
from tensorflow import estimator, io
from tensorflow.estimator import Estimator
from tensorflow.keras.optimizers import SGD
import tensorflow.keras.layers
from tensorflow.app import flags  # a second module of tf.app would have none
assert flags is tf.app.flags
import tensorflow.compat.v1 as v1
import tensorflow.compat.v2 as v2
assert Estimator is estimator.Estimator is v1.estimator.Estimator and SGD is tf.keras.optimizers.SGD and io is tf.io
assert v2.estimator.Estimator is not Estimator and v2.losses is not tf.losses and v1.where is tf.where
from estimator_train.app.models import small_cnn  # this package has TensorFlow 2
ours = {name: module for name, module in sys.modules.items() if name.startswith("estimator_train.")}
assert small_cnn.__name__ in ours and not [name for name, module in ours.items() if getattr(module, "tf", None) is tf]
strategies = [tf.distribute.MirroredStrategy(["GPU:0", "GPU:1"]), tf.contrib.distribute.MirroredStrategy(num_gpus=2)]
print([strategy.num_replicas_in_sync for strategy in strategies])
tf.train.AdamOptimiser
"""


TRAINS = """
import tensorflow as tf

def model_fn(features, labels, mode):
    weight = tf.compat.v1.get_variable("weight", [])
    step = tf.compat.v1.train.get_global_step()
    return tf.estimator.EstimatorSpec(mode, loss=weight**2, train_op=step.assign_add(1))

config = tf.estimator.RunConfig("run", save_checkpoints_steps=10**6)
input_fn = lambda: tf.data.Dataset.range(1).batch(1).repeat()
tf.estimator.Estimator(model_fn, config=config).train(input_fn)
"""
# The process is then the first one of a new namespace, as in a container, where signals without a handler do nothing.
AS_FIRST = ["unshare", "--user", "--map-root-user", "--pid", "--fork", "--kill-child"]


@pytest.mark.slow
def test_sigterm_to_a_script_as_first_process_saves_the_steps_done(tmp_path):
    if subprocess.run([*AS_FIRST, "true"], capture_output=True).returncode:
        pytest.skip("this machine allows no new namespaces")
    (tmp_path / "script.py").write_text(TRAINS)
    command = [*AS_FIRST, sys.executable, "-m", "estimator_train", "run", "script.py"]
    process = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    try:
        end = time.monotonic() + 120
        while not (tmp_path / "run" / "model.ckpt-0.index").exists() and time.monotonic() < end:
            time.sleep(0.1)
        time.sleep(1)  # the first steps
        (first,) = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        os.kill(int(first), signal.SIGTERM)
        _, errors = process.communicate(timeout=60)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 143, errors
    last = "estimator_train: stopped by SIGTERM; a training that was saved continues in a new run"
    assert errors.splitlines()[-1] == last and "Traceback" not in errors
    saved = sorted(int(path.suffixes[0][6:]) for path in (tmp_path / "run").glob("model.ckpt-*.index"))
    assert saved[0] == 0 and saved[-1] > 0 and len(saved) == 2


def test_a_handler_of_the_script_for_sigterm_is_kept(run):
    script = "import os, signal\nsignal.signal(signal.SIGTERM, lambda *_: print('its own'))\n"
    result = run({"tensorflow.py": TENSORFLOW, "script.py": f"{script}os.kill(os.getpid(), 15)\n"}, "run", "script.py")
    assert (result.returncode, result.stdout) == (0, "its own\n")


def test_sigterm_ends_a_script_that_trains_nothing_with_143(run):
    script = "import os\nos.kill(os.getpid(), 15)\nprint('not reached')\n"
    result = run({"tensorflow.py": TENSORFLOW, "script.py": script}, "run", "script.py")
    assert (result.returncode, result.stdout) == (143, "")


@pytest.mark.slow
def test_tf1_gives_tensorflow_1_to_scripts_and_2_to_this_package(run):
    """In a fresh process: it matters what is imported, and when."""
    result = run({"tf1.py": TF1}, "run", "--tf1", "--replicas", "3", "tf1.py")
    assert "module 'tensorflow.train' has no attribute 'AdamOptimiser'" in result.stderr.splitlines()[-1], result.stderr
    assert result.stdout == "[3, 3]\n" and "disable_resource_variables" not in result.stderr


LOGS = """
import logging
import tensorflow as tf

def main(_):
    tf.logging.set_verbosity(tf.logging.INFO)
    tf.logging.info("with absl")
    tf.layers.flatten(tf.ones([1, 1]))
    tf.layers.flatten(tf.ones([1, 1]))
    tf.to_float(1)
    logging.root.handlers.clear()
    logging.basicConfig()
    tf.logging.info("with a handler of the root")

tf.app.run()
"""


@pytest.mark.slow
def test_tf1_prints_each_log_line_and_each_deprecation_once(tmp_path):
    (tmp_path / "logs.py").write_text(LOGS)
    command = ["-m", "estimator_train", "run", "--tf1", "logs.py"]
    printed = warm_python.run(command, tmp_path, cwd=tmp_path).stderr
    lines = ["with absl", "with a handler of the root", "`tf.layers.flatten` is deprecated", "to_float (from"]
    assert [printed.count(line) for line in lines] == [1, 1, 1, 1], printed
    assert "INFO:tensorflow:with absl\n" in printed


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--gpus", "99"], r"--gpus 99: TensorFlow sees \d+"),
        (["--gpus", "1", "--replicas", "2"], "--gpus and --replicas exclude each other; give one"),
    ],
)
def test_wrong_devices_end_with_one_line(tmp_path, flags, message):
    (tmp_path / "script.py").write_text("")
    done = warm_python.run(["-m", "estimator_train", "run", *flags, "script.py"], tmp_path, cwd=tmp_path)
    assert done.returncode == 2
    assert re.match(f"estimator_train: {message}", done.stderr.splitlines()[-1])


def test_help_names_the_script(run):
    result = run({}, "run", "--help")
    assert result.returncode == 0 and "SCRIPT [ARGUMENTS]" in result.stdout
