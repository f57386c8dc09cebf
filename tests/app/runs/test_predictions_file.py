"""Predictions are written with evaluations, and read if the file is complete."""

import csv
import types

import numpy as np
import pytest

from estimator_train.app.runs import predictions_file

LABELS, PROBABILITIES = np.array([0, 1]), np.array([[0.25, 0.75], [0.1, 0.9]])


def test_they_are_read_by_the_names_of_the_images(tmp_path):
    data = types.SimpleNamespace(image_paths=lambda: {"eval": ["/data/B, C/2.png", "/data/A/1.jpeg"]})
    predictions_file.write(tmp_path, data, ("A", "B, C"), LABELS, PROBABILITIES)
    read = predictions_file.read(tmp_path)
    assert read == {"A/1.jpeg": ("A", "B, C", "0.7500"), "B, C/2.png": ("B, C", "B, C", "0.9000")}
    assert [prediction.is_right for prediction in read.values()] == [False, True]


def test_no_name_is_a_formula_to_a_spreadsheet_and_all_are_read_back(tmp_path):
    names = ("=1+1", "+a", "-b", "@c", "'=d", "e", "'f")
    data = types.SimpleNamespace(image_paths=lambda: {"eval": sorted(f"{name}/0.png" for name in names)})
    labels, outputs = np.arange(7), np.eye(7)
    predictions_file.write(tmp_path, data, names, labels, outputs)
    read = predictions_file.read(tmp_path)
    assert {each.predicted_class for each in read.values()} == set(names)
    assert read.keys() == {f"{name}/0.png" for name in names}
    predictions_file.write_all(tmp_path / "all.csv", "classification", names, data, labels, outputs - 1)
    for file in ("predictions.csv", "all.csv"):
        cells = [cell for row in csv.reader((tmp_path / file).read_text().splitlines()) for cell in row]
        assert not [cell for cell in cells if cell[:1] in set("=+-@") and cell != "-1.0"]


def test_images_in_directories_of_one_name_have_more_of_their_paths():
    paths = ["/d/site1/scans/1.png", "/d/site2/scans/1.png", "/d/site2/scans/2.png", "/site2/scans/1.png", "1.png"]
    data = types.SimpleNamespace(image_paths=lambda: {"eval": [*paths, paths[0]]})  # a manifest may repeat an image
    names = dict(zip(predictions_file.image_paths(data), predictions_file.image_names(data), strict=True))
    ends = ["site1/scans/1.png", "d/site2/scans/1.png", "scans/2.png", "/site2/scans/1.png", "1.png"]
    assert names == dict(zip(paths, ends, strict=True))


def test_examples_that_are_no_files_are_called_by_their_number(tmp_path):
    predictions_file.write(tmp_path, None, ("A", "B"), LABELS, PROBABILITIES)
    assert list(predictions_file.read(tmp_path)) == ["0", "1"]


def test_all_probabilities_are_written_whole_and_names_escaped(tmp_path):
    paths = ["/data/A/\udce9.png", "/data/A/1.png"]
    data, file = types.SimpleNamespace(image_paths=lambda: {"eval": paths}), tmp_path / "all.csv"
    predictions_file.write_all(file, "classification", ("A", "B"), data, LABELS, PROBABILITIES)
    written = file.read_text()
    assert [row.split(",")[0] for row in written.splitlines()] == ["file", "/data/A/1.png", r"/data/A/\udce9.png"]
    with pytest.raises(ValueError, match="shorter"):
        predictions_file.write_all(file, "classification", ("A", "B"), data, LABELS[:1], PROBABILITIES)
    assert file.read_text() == written


HEADER = b"example,true_class,predicted_class,probability\n"


@pytest.mark.parametrize("content", [None, b"", b"a,b\n", HEADER + b"x,A\n", HEADER + b"\xff,A,A,1\n"])
def test_damaged_ones_are_none(content, tmp_path):
    if content is not None:
        (tmp_path / "predictions.csv").write_bytes(content)
    assert predictions_file.read(tmp_path) is None
