"""The processor and the GPUs have names before TensorFlow is imported."""

import os

import pytest

from estimator_train._engine.host import device_names


@pytest.mark.parametrize(
    ("cpuinfo", "cores", "name"),
    [
        ("model name\t: AMD EPYC\nflags\t: fpu\n\nmodel name\t: AMD EPYC\n", {0, 1}, "AMD EPYC, 2 cores"),
        ("processor\t: 0\nCPU part\t: 0xd0c\n", {3}, "1 core"),  # as on ARM
    ],
)
def test_the_processor_is_named_with_the_cores_of_this_process(tmp_path, monkeypatch, cpuinfo, cores, name):
    (tmp_path / "cpuinfo").write_text(cpuinfo)
    monkeypatch.setattr(device_names, "_PROCESSORS", tmp_path / "cpuinfo")
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: cores)
    assert device_names.processor() == name


@pytest.mark.parametrize(
    ("models", "name"),
    [([], None), (["NVIDIA H200", "NVIDIA H200"], "NVIDIA H200"), (["NVIDIA A100", "Tesla T4"], None)],
)
def test_gpus_of_one_kind_have_a_name(tmp_path, monkeypatch, models, name):
    for index, model in enumerate(models):
        (tmp_path / f"0000:0{index}:00.0").mkdir()
        (tmp_path / f"0000:0{index}:00.0" / "information").write_text(f"Model: \t\t {model}\nIRQ:   \t\t 16\n")
    monkeypatch.setattr(device_names, "_GPUS", tmp_path)
    assert device_names.gpu() == name
