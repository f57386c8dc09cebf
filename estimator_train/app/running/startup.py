"""Starts TensorFlow: prints a line on a terminal, and keeps TensorFlow's notes about the machine off the screen.

TF_CPP_MIN_LOG_LEVEL turns such notes off. But TensorFlow's libraries print some while they are loaded, before they read
it, and some as errors, such as a missing GPU driver on a machine without a GPU. So standard error is piped through a
small process while TensorFlow starts: this file, run as a script, which filters out the notes. A process rather than a
thread also passes on the last lines of a crash.
"""

import contextlib
import os
import re
import signal
import subprocess
import sys

# Lines at the levels that TF_CPP_MIN_LOG_LEVEL=2 turns off, in absl's format and in TensorFlow's own. The one error
# among them is harmless: XLA's factories are linked in twice.
_NOTES = re.compile(
    rb"[IW]\d{4} \d\d:\d\d:|\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+: [IW] "
    rb"|WARNING: All log messages before absl::InitializeLog\(\) is called are written to STDERR"
    rb"|To enable the following instructions: .* rebuild TensorFlow "
    rb"|.* Unable to register cu(FFT|DNN|BLAS) factory: "
    rb"|INFO: Created TensorFlow Lite |fully_quantize: "  # what TFLite's interpreter and its quantizer print
)
_NO_DRIVER = re.compile(rb".* failed call to cuInit: ")
_UNSEEN = (
    "estimator_train: there is an NVIDIA GPU, but TensorFlow does not see it: the CPU is used. TF_CPP_MIN_LOG_LEVEL=0 "
    'shows what TensorFlow says about it; see "Installing for GPUs" in docs/distribution.md'
)


def verbosity_of(flags):
    """Returns the verbosity that --quiet and --verbose ask for: "quiet", "normal" or "verbose"."""
    if flags.quiet:
        return "quiet"
    if flags.verbose:
        return "verbose"
    return "normal"


@contextlib.contextmanager
def starting_tensorflow(verbosity="normal"):
    """Keeps the screen clean while the block imports TensorFlow. On exit, TensorFlow has looked for GPUs.

    The verbosity "quiet" prints nothing; "verbose" shows everything that TensorFlow prints.
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
    if verbosity != "quiet" and not gpus and _gpu_devices().is_gpu_there():
        print(_UNSEEN, file=sys.stderr, flush=True)


@contextlib.contextmanager
def without_notes():
    """Filters TensorFlow's notes out of everything written to file descriptor 2 in the block."""
    try:
        stderr = os.dup(2)
    except OSError:  # it is closed
        yield
        return
    command = [sys.executable, "-I", "-S", __file__, *["gpu"] * _gpu_devices().is_gpu_there()]
    notes = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
    os.dup2(notes.stdin.fileno(), 2)
    notes.stdin.close()
    try:
        yield
    finally:
        with contextlib.suppress(OSError, AttributeError):  # standard error may be closed, or None
            sys.stderr.flush()
        os.dup2(stderr, 2)
        os.close(stderr)
        with contextlib.suppress(subprocess.TimeoutExpired):  # a process started in the block holds the pipe open
            notes.wait(timeout=5)


def _gpu_devices():
    from estimator_train._engine.host import gpu_devices  # which this file cannot find when it runs as a filter

    return gpu_devices


def is_note(line, has_gpu):
    """Returns whether a line (bytes) can be dropped. A driver that cannot be started matters only if there is a GPU."""
    return bool(_NOTES.match(line) or (_NO_DRIVER.match(line) and not has_gpu))


def _pass_on():
    """Copies standard input to standard error, without the notes."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):  # meant for the process that writes the lines
        signal.signal(number, signal.SIG_IGN)
    for line in sys.stdin.buffer:
        if not is_note(line, has_gpu=sys.argv[1:] == ["gpu"]):
            os.write(2, line)


if __name__ == "__main__":
    _pass_on()
