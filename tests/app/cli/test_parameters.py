"""The types of flags: values that they accept, change and refuse, and what a shell completes."""

import click
import pytest

from estimator_train.app.cli import parameters


def convert(kind, value):
    return kind.convert(value, click.Option(["--flag"]), None)


@pytest.mark.parametrize(
    ("kind", "value", "converted"),
    [
        (parameters.ImageSize(), "24x32", (24, 32)),
        (parameters.ImageSize(), "96", (96, 96)),
        (parameters.ImageSize(), [24, 32], (24, 32)),  # from run.json
        (parameters.Loggers(), "csv,tensorboard,csv", ("csv",)),
        (parameters.Loggers(), ["csv"], ("csv",)),
        (parameters.Count(), "7", 7),
        (parameters.Number("RATE"), "0", 0.0),
        (parameters.Augmentations(), "flip, mixup", "flip, mixup"),
        (parameters.Model(tuple), "resnet50", "resnet50"),
        (parameters.PathOr("FILE", "imagenet", "none"), "imagenet", "imagenet"),
        (parameters.Cache(), "memory", "memory"),
        (parameters.Cache(), "features", "features"),
        (parameters.Directory(), "gs://bucket/run", "gs://bucket/run"),
    ],
)
def test_a_value_is_converted(kind, value, converted):
    assert convert(kind, value) == converted


@pytest.mark.parametrize(
    ("kind", "value", "message"),
    [
        (parameters.Text(), "", "it is empty"),
        (parameters.Text(), ["a"], "is not a text"),
        (parameters.ImageSize(), 5.5, "is not a size in pixels"),
        (parameters.ImageSize(), "70000", "is not a size in pixels"),
        (parameters.Count(), str(2**31), "is too large; 2147483647 is the most"),
        (parameters.Count(2), "1", "1 is not in the range x>=2"),
        (parameters.Number("RATE", positive=True), "inf", "not a finite number"),
        (parameters.Number("SHARE", below=1), "1", "not in the range"),
        (parameters.Augmentations(), "flop", "there is no 'flop'"),
        (parameters.Loggers(), "neptune", "there is no logger 'neptune'"),
        (parameters.Phases(), "freeze=all", "has no epochs="),
        (parameters.Model(tuple), "resnet", "there is no model 'resnet'"),
        (parameters.Cache(), "gs://bucket", "give a folder on this machine"),
        (parameters.Directory(), "\udcff", "is not UTF-8"),
        (parameters.Function(), "nowhere.py:f", "--flag nowhere.py:f: cannot read nowhere.py"),
    ],
)
def test_a_bad_value_is_refused(kind, value, message):
    with pytest.raises(click.ClickException, match=message):
        convert(kind, value)


def test_paths_that_a_run_names_become_absolute(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own.py").write_text("def build(): ...\n")
    (tmp_path / "a.h5").write_bytes(b"\x89HDF\r\n\x1a\n")
    assert convert(parameters.Function(), "own.py:build") == f"{tmp_path}/own.py:build"
    assert convert(parameters.Model(tuple), "own.py:build") == f"{tmp_path}/own.py:build"
    assert convert(parameters.PathOr("FILE", "none"), "a.h5") == f"{tmp_path}/a.h5"
    assert convert(parameters.Cache(), "cached") == f"{tmp_path}/cached"


@pytest.mark.parametrize("content", [b"# coding: latin-1\n# \xe4\ndef f(): ...\n", b"\xef\xbb\xbfdef f(): ...\n"])
def test_a_function_is_found_in_a_file_of_any_encoding(tmp_path, content):
    (tmp_path / "own.py").write_bytes(content)
    assert convert(parameters.Function(), f"{tmp_path}/own.py:f") == f"{tmp_path}/own.py:f"


def test_a_file_that_is_no_python_text_is_refused(tmp_path):
    (tmp_path / "own.py").write_bytes(b"\xff")
    with pytest.raises(click.ClickException, match=r"own.py line 1: .*can't decode byte 0xff"):
        convert(parameters.Function(), f"{tmp_path}/own.py:f")


def test_a_path_through_a_link_is_the_one_that_the_system_follows(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "elsewhere" / "deep").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere" / "deep")
    assert convert(parameters.Directory(), "link/../run") == f"{tmp_path}/elsewhere/run"
    assert convert(parameters.Directory(), "elsewhere/../run") == "elsewhere/../run"
    (tmp_path / "elsewhere" / "own.py").write_text("def f(): ...\n")
    assert convert(parameters.Function(), "link/../own.py:f") == f"{tmp_path}/elsewhere/own.py:f"


def test_only_a_file_is_replaced_by_a_file_to_write(tmp_path):
    file, link = tmp_path / "old.csv", tmp_path / "link.csv"
    convert(parameters.OutputFile(), str(file))
    file.touch()
    convert(parameters.OutputFile(), str(file))
    link.symlink_to(file)
    with pytest.raises(click.ClickException, match="--flag .*link.csv is a link or a device, which would be replaced"):
        convert(parameters.OutputFile(), str(link))


@pytest.mark.parametrize(
    ("kind", "typed", "completed"),
    [
        (parameters.OneOf(lambda: ["cats", "dogs"]), "c", [("cats", "plain")]),
        (parameters.Directory(), "run", [("run", "dir")]),
        (parameters.File("FILE"), "a", [("a", "file")]),
        (parameters.PathOr("FILE"), "a", [("a", "file")]),
        (parameters.Augmentations(), "flip,cut", [("flip,cutout", "plain"), ("flip,cutmix", "plain")]),
        (parameters.Metric(), "macro_r", [("macro_recall", "plain"), ("macro_roc_auc", "plain")]),
    ],
)
def test_a_shell_completes_names_files_and_directories(kind, typed, completed):
    assert [(item.value, item.type) for item in kind.shell_complete(None, None, typed)] == completed
