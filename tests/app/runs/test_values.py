"""The types of flags: values that they accept, change and refuse, and what a shell completes."""

import click
import pytest

from estimator_train.app.cli.parameters import Value
from estimator_train.app.errors import SettingError
from estimator_train.app.runs import values


def convert(kind, value):
    return Value(kind).convert(value, click.Option(["--flag"]), None)


@pytest.mark.parametrize(
    ("kind", "value", "converted"),
    [
        (values.ImageSize(), "24x32", (24, 32)),
        (values.ImageSize(), "96", (96, 96)),
        (values.ImageSize(), [24, 32], (24, 32)),  # from run.json
        (values.Loggers(), "csv,tensorboard,csv", ("csv",)),
        (values.Loggers(), ["csv"], ("csv",)),
        (values.Count(), "7", 7),
        (values.Number("RATE"), "0", 0.0),
        (values.Augmentations(), "flip, mixup", "flip, mixup"),
        (values.Model(tuple), "resnet50", "resnet50"),
        (values.PathOr("FILE", "imagenet", "none"), "imagenet", "imagenet"),
        (values.Cache(), "memory", "memory"),
        (values.Cache(), "features", "features"),
        (values.Directory(), "gs://bucket/run", "gs://bucket/run"),
    ],
)
def test_a_value_is_converted(kind, value, converted):
    assert convert(kind, value) == converted


@pytest.mark.parametrize(
    ("kind", "value", "message"),
    [
        (values.Text(), "", "it is empty"),
        (values.Text(), ["a"], "is not a text"),
        (values.ImageSize(), 5.5, "is not a size in pixels"),
        (values.ImageSize(), "70000", "is not a size in pixels"),
        (values.Count(), str(2**31), "is too large; 2147483647 is the most"),
        (values.Count(2), "1", "1 is not in the range x>=2"),
        (values.CountOrAuto(), "often", "'often' is not a valid integer"),
        (values.Number("RATE", positive=True), "inf", "not a finite number"),
        (values.Number("SHARE", below=1), "1", "not in the range"),
        (values.Augmentations(), "flop", "there is no 'flop'"),
        (values.Loggers(), "neptune", "there is no logger 'neptune'"),
        (values.Phases(), "freeze=all", "has no epochs="),
        (values.Model(tuple), "resnet", "there is no model 'resnet'"),
        (values.Cache(), "gs://bucket", "give a folder on this machine"),
        (values.Directory(), "\udcff", "is not UTF-8"),
        (values.Function(), "nowhere.py:f", "flag nowhere.py:f: cannot read nowhere.py"),
    ],
)
def test_a_bad_value_is_refused(kind, value, message):
    with pytest.raises((click.BadParameter, SettingError), match=message):
        convert(kind, value)


def test_paths_that_a_run_names_become_absolute(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own.py").write_text("def build(): ...\n")
    (tmp_path / "a.h5").write_bytes(b"\x89HDF\r\n\x1a\n")
    assert convert(values.Function(), "own.py:build") == f"{tmp_path}/own.py:build"
    assert convert(values.Model(tuple), "own.py:build") == f"{tmp_path}/own.py:build"
    assert convert(values.PathOr("FILE", "none"), "a.h5") == f"{tmp_path}/a.h5"
    assert convert(values.Cache(), "cached") == f"{tmp_path}/cached"


@pytest.mark.parametrize("content", [b"# coding: latin-1\n# \xe4\ndef f(): ...\n", b"\xef\xbb\xbfdef f(): ...\n"])
def test_a_function_is_found_in_a_file_of_any_encoding(tmp_path, content):
    (tmp_path / "own.py").write_bytes(content)
    assert convert(values.Function(), f"{tmp_path}/own.py:f") == f"{tmp_path}/own.py:f"


def test_a_file_that_is_no_python_text_is_refused(tmp_path):
    (tmp_path / "own.py").write_bytes(b"\xff")
    with pytest.raises(SettingError, match=r"own.py line 1: .*can't decode byte 0xff"):
        convert(values.Function(), f"{tmp_path}/own.py:f")


def test_a_path_through_a_link_is_the_one_that_the_system_follows(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "elsewhere" / "deep").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere" / "deep")
    assert convert(values.Directory(), "link/../run") == f"{tmp_path}/elsewhere/run"
    assert convert(values.Directory(), "elsewhere/../run") == "elsewhere/../run"
    (tmp_path / "elsewhere" / "own.py").write_text("def f(): ...\n")
    assert convert(values.Function(), "link/../own.py:f") == f"{tmp_path}/elsewhere/own.py:f"


def test_only_a_file_is_replaced_by_a_file_to_write(tmp_path):
    file, link = tmp_path / "old.csv", tmp_path / "link.csv"
    convert(values.OutputFile(), str(file))
    file.touch()
    convert(values.OutputFile(), str(file))
    link.symlink_to(file)
    with pytest.raises(SettingError, match="flag .*link.csv is a link or a device, which would be replaced"):
        convert(values.OutputFile(), str(link))


@pytest.mark.parametrize(
    ("kind", "typed", "completed"),
    [
        (values.OneOf(lambda: ["cats", "dogs"]), "c", [("cats", "plain")]),
        (values.Directory(), "run", [("run", "dir")]),
        (values.File("FILE"), "a", [("a", "file")]),
        (values.PathOr("FILE"), "a", [("a", "file")]),
        (values.Augmentations(), "flip,cut", [("flip,cutout", "plain"), ("flip,cutmix", "plain")]),
        (values.Metric(), "macro_r", [("macro_recall", "plain"), ("macro_roc_auc", "plain")]),
    ],
)
def test_a_shell_completes_names_files_and_directories(kind, typed, completed):
    assert [(item.value, item.type) for item in Value(kind).shell_complete(None, None, typed)] == completed
