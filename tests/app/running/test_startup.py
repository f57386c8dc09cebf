"""TensorFlow's notes at startup are left out; all other output comes through, including that of a crash."""

import os
import subprocess
import sys
from types import SimpleNamespace

import pytest

from estimator_train._engine.host import gpu_devices
from estimator_train.app.running import startup
from estimator_train.app.running.startup import without_notes

NOTES = [
    "WARNING: All log messages before absl::InitializeLog() is called are written to STDERR",
    "I0000 00:00:1795363493.111081   11775 port.cc:153] oneDNN custom operations are on. You may see slightly",
    "I0000 00:00:1795363493.111690   11775 cudart_stub.cc:31] Could not find cuda drivers on your machine",
    "W0000 00:00:1795363493.111690   11775 computation_placer.cc:177] computation placer already registered.",
    "2026-11-22 17:04:34.108452: I tensorflow/core/platform/cpu_feature_guard.cc:210] This TensorFlow binary is",
    "To enable the following instructions: AVX2 FMA, in other operations, rebuild TensorFlow with the appropriate",
    "E0000 00:00:1795363500.580285   11775 cuda_dnn.cc:8579] Unable to register cuDNN factory: Attempting to",
]
ERRORS = [
    "E0000 00:00:1795363500.580285   11775 cuda_dnn.cc:9261] Could not create cudnn handle: INTERNAL_ERROR",
    "2026-11-22 17:04:34.108452: E tensorflow/core/util/util.cc:131] oneDNN supports DT_INT64 only on platforms with",
    "F0000 00:00:1795363500.580285   11775 tensor.cc:1] Check failed: dtype() == expected_dtype (1 vs. 2)",
    "ImportError: libtensorflow_framework.so.2: cannot open shared object file",
]
NO_DRIVER = "E0000 00:00:1795363500.580285   11775 cuda_platform.cc:52] failed call to cuInit: INTERNAL: CUDA error"


def test_errors_come_through_in_order_and_notes_do_not(capfd):
    with without_notes():
        for line in [*NOTES, *ERRORS, *NOTES]:
            os.write(2, f"{line}\n".encode())
    os.write(2, f"{NOTES[1]}\n".encode())
    assert capfd.readouterr().err.splitlines() == [*ERRORS, NOTES[1]]


@pytest.mark.parametrize("has_gpu", [False, True])
def test_a_driver_that_does_not_start_is_an_error_only_with_a_gpu(has_gpu):
    assert startup.is_note(NO_DRIVER.encode(), has_gpu) is not has_gpu


@pytest.mark.parametrize(("hidden_by", "lines"), [("0,1", 1), ("-1", 0), ("", 0)])
def test_a_gpu_that_tensorflow_does_not_see_is_reported_unless_hidden(hidden_by, lines, monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(gpu_devices, "_DEVICES", [str(tmp_path)])
    config = SimpleNamespace(list_physical_devices=lambda kind: [])
    monkeypatch.delitem(sys.modules, "tensorflow", raising=False)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", hidden_by)
    with startup.starting_tensorflow():
        monkeypatch.setitem(sys.modules, "tensorflow", SimpleNamespace(config=config))
    assert capsys.readouterr().err.count("there is an NVIDIA GPU, but TensorFlow does not see it") == lines


CRASH = """
import faulthandler, os, sys
from estimator_train.app.running.startup import without_notes

faulthandler.enable()
with without_notes():
    os.write(2, b"I0000 00:00:1 2 port.cc:1] a note\\n")
    os.write(2, b"F0000 00:00:1 2 tensor.cc:1] Check failed: the last words")
    {end}
"""


@pytest.mark.parametrize(
    ("end", "told", "code"),
    [
        ("os.abort()", "Aborted", -6),
        ("faulthandler._sigsegv()", "Segmentation fault", -11),
        ("raise OSError", "OSError", 1),
    ],
)
def test_a_crash_still_shows_its_message(end, told, code):
    process = subprocess.run([sys.executable, "-c", CRASH.format(end=end)], stderr=subprocess.PIPE, text=True)
    assert process.returncode == code
    assert "the last words" in process.stderr and told in process.stderr
    assert "a note" not in process.stderr


def test_a_closed_standard_error_is_no_error():
    program = "from estimator_train.app.running.startup import without_notes\nwith without_notes(): pass"
    assert subprocess.run(["bash", "-c", '"$0" -c "$1" 2>&-', sys.executable, program]).returncode == 0
