"""Starting TensorFlow: a line says so on a terminal, and its notes about the machine stay off the screen.

TF_CPP_MIN_LOG_LEVEL turns such notes off, but libraries of TensorFlow print some before they have read it, while they
are loaded, and some as errors, such as that a machine without a GPU has no driver for one. So what is written to
standard error while TensorFlow starts goes through a small process, this file run as a script, which leaves the notes
out. It is a process because it passes on, at once, what a crash writes last.
"""

import contextlib
import os
import re
import signal
import subprocess
import sys

# Lines of a level that TF_CPP_MIN_LOG_LEVEL=2 turns off, in absl's format and in TensorFlow's own. The one error among
# them says nothing of the machine: XLA's factories are linked in twice.
_NOTES = re.compile(
    rb"[IW]\d{4} \d\d:\d\d:|\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+: [IW] "
    rb"|WARNING: All log messages before absl::InitializeLog\(\) is called are written to STDERR"
    rb"|To enable the following instructions: .* rebuild TensorFlow "
    rb"|.* Unable to register cu(FFT|DNN|BLAS) factory: "
)
_NO_DRIVER = re.compile(rb".* failed call to cuInit: ")
_GPUS = ("/dev/nvidiactl", "/dev/nvidia0", "/dev/dxg")  # the last is that of Windows' Linux
_UNSEEN = (
    "estimator_train: there is an NVIDIA GPU, and TensorFlow sees none: training uses the CPU. --verbose shows what "
    'TensorFlow says of it; see "Installing for GPUs" in docs/distribution.md'
)


@contextlib.contextmanager
def starting_tensorflow(verbosity="normal"):
    """Imports of TensorFlow go inside; at the end, TensorFlow has looked for GPUs.

    Args:
      verbosity: "quiet" prints no line, and "verbose" shows all that TensorFlow prints.
    """
    if verbosity == "verbose":
        os.environ["TF_CPP_MIN_LOG_LEVEL"] = "0"
    if "tensorflow" in sys.modules:
        yield
        return
    if verbosity != "quiet" and sys.stderr and sys.stderr.isatty():
        print("loading TensorFlow", file=sys.stderr, flush=True)
    wants_notes = os.environ.get("TF_CPP_MIN_LOG_LEVEL") in ("0", "1")
    with contextlib.nullcontext() if wants_notes else without_notes():
        yield
        import tensorflow as tf

        gpus = tf.config.list_physical_devices("GPU")  # starts the driver
    if verbosity != "quiet" and has_gpu() and not gpus and os.environ.get("CUDA_VISIBLE_DEVICES") not in ("", "-1"):
        print(_UNSEEN, file=sys.stderr, flush=True)


@contextlib.contextmanager
def without_notes():
    """Leaves TensorFlow's notes out of what is written to file descriptor 2 inside."""
    try:
        stderr = os.dup(2)
    except OSError:  # it is closed
        yield
        return
    notes = subprocess.Popen([sys.executable, "-I", "-S", __file__], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
    os.dup2(notes.stdin.fileno(), 2)
    notes.stdin.close()
    try:
        yield
    finally:
        with contextlib.suppress(OSError, AttributeError):  # of a standard error that is closed, or None
            sys.stderr.flush()
        os.dup2(stderr, 2)
        os.close(stderr)
        with contextlib.suppress(subprocess.TimeoutExpired):  # a process that was started inside holds the pipe open
            notes.wait(timeout=5)


def has_gpu():
    """Whether the machine, or what a container sees of it, has an NVIDIA GPU, even if TensorFlow cannot use it."""
    return any(map(os.path.exists, _GPUS))


def is_note(line):
    """Whether a line, as bytes, tells nothing: a driver that cannot be started is an error where there is a GPU."""
    return bool(_NOTES.match(line) or (_NO_DRIVER.match(line) and not has_gpu()))


def _pass_on():
    """Copies the lines of standard input to standard error, but for the notes."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):  # meant for the process whose lines these are
        signal.signal(number, signal.SIG_IGN)
    for line in sys.stdin.buffer:
        if not is_note(line):
            os.write(2, line)


if __name__ == "__main__":
    _pass_on()
