"""Every line that a newcomer sees of `estimator_train` on a terminal with 80 columns, without a GPU."""

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios

import pytest

from estimator_train.app.datasets import synthetic_oct

COLUMNS = 80
NUMBER = r"[\d.e+-]+"


def on_terminal(command, columns, **settings):
    """Runs a command on a terminal with so many columns; returns its exit code and output."""
    ours, its = pty.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    with subprocess.Popen(command, stdin=its, stdout=its, stderr=its, **settings) as process:
        os.close(its)
        printed = b""
        with os.fdopen(ours, "rb", buffering=0) as terminal:
            while chunk := _read(terminal):
                printed += chunk
    return process.returncode, printed.decode()


def _read(terminal):
    try:
        return terminal.read(4096)
    except OSError:  # Linux's end of a terminal that nobody has open
        return b""


def shown(printed):
    """Returns the lines on the screen, and all states of lines that were overwritten."""
    lines = printed.replace("\r\n", "\n").split("\n")
    states = [[state for state in line.split("\r") if state.strip()] for line in lines]
    return [each[-1].rstrip() if each else "" for each in states], [state for each in states for state in each]


SCREEN = """\
data         synthetic_oct: 16 images to train on and 8 to evaluate on, in 4
             classes
devices      the CPU: {device}
classes      CNV 4 + 2, DME 4 + 2, DRUSEN 4 + 2, NORMAL 4 + 2
files        oct
model        small_cnn for images of 32x32
steps        6: 3 epochs of 2 steps
batch        8 images
optimizer    adam
rate         0.002, constant
cache        decoded images in memory, at most 0.2 MB; --cache none keeps none
checkpoints  every 10 minutes and at the end
evaluation   at the end
folder       runs/synthetic_oct
loading TensorFlow
building small_cnn
training 97,956 weights
decoding images: 100%|{bar}| 16/16 [{number}:{number}<{number}:{number}, {number}/s]
100%|{bar}| 6/6, 00:00 to go, loss {number}, accuracy {number}, {number} examples/s
evaluating runs/synthetic_oct/model.ckpt-6
trained 6 steps, {number} examples/s, {number}% of the time spent waiting for input
step 6 is too early to judge this model: its accuracy of {number} is nearer to the
{number} of always answering one class than to 1; give --epochs 150, some 300
steps
the report is runs/synthetic_oct/report/report.html
evaluated runs/synthetic_oct/model.ckpt-6: loss {number}, accuracy {number}
"""


@pytest.mark.slow
def test_the_first_screen_has_no_line_of_tensorflow_and_none_is_cut_off(tmp_path, monkeypatch):
    monkeypatch.delenv("TF_CPP_MIN_LOG_LEVEL")  # which this process has set
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")
    monkeypatch.setenv("NO_COLOR", "1")
    synthetic_oct.draw_dataset(tmp_path / "oct", images_per_class={"train": 4, "test": 2})
    data = ["--dataset", "synthetic_oct", "--data-dir", "oct"]
    sizes = ["--image-size", "32", "--epochs", "3", "--batch-size", "8"]
    command = [sys.executable, "-m", "estimator_train", *data, *sizes]
    code, printed = on_terminal(command, COLUMNS, cwd=tmp_path)
    lines, states = shown(printed)
    lines = [line for line in lines if not line.startswith("checkpoints took ")]  # where it is a tenth of a second
    patterns = [
        re.escape(line).replace(r"\{number\}", NUMBER).replace(r"\{bar\}", "█+").replace(r"\{device\}", ".+ cores?")
        for line in SCREEN.split("\n")
    ]
    assert code == 0 and len(lines) == len(patterns), printed
    assert [line for line, pattern in zip(lines, patterns, strict=True) if not re.fullmatch(pattern, line)] == []
    assert max(map(len, states)) <= COLUMNS
