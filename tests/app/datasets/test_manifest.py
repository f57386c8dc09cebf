"""CSV manifests: what they may hold, how they are split, and how their bad rows are named."""

import csv
import dataclasses
import os
from types import SimpleNamespace

import numpy as np
import pytest

from estimator_train.app import datasets
from estimator_train.app.datasets.held_out import BY_RANK, holding_out_by
from estimator_train.app.running.plan import _files


@pytest.fixture
def manifest(tmp_path):
    """Writes rows, the columns first, and empty files for their paths; returns the path of the manifest."""

    def write(*rows, missing=()):
        for row in rows[1:]:
            if row[0] and row[0] not in missing:
                (tmp_path / row[0]).parent.mkdir(parents=True, exist_ok=True)
                (tmp_path / row[0]).touch()
        with open(tmp_path / "labels.csv", "w", newline="", encoding="utf-8-sig") as file:
            csv.writer(file).writerows(rows)
        return tmp_path / "labels.csv"

    return write


def open_manifest(path, task="classification"):
    return datasets.open_dataset("manifest", path, task=task)


def test_classes_are_sorted_and_paths_are_relative_to_the_manifest(manifest, tmp_path):
    data = open_manifest(
        manifest(("path", "label", "note", "split"), ("b/1.png", "NORMAL", "x", "train"), ("a.png", "CNV", "", "train"),
                 ("c.png", "CNV", "", "valid"), ("d.png", "NORMAL", "", "valid"))
    )  # fmt: skip
    assert (data.name, data.task, data.class_names) == ("manifest", "classification", ("CNV", "NORMAL"))
    assert data.train.paths == [str(tmp_path / "a.png"), str(tmp_path / "b/1.png")]
    assert data.train.labels.tolist() == [0, 1] and data.eval.labels.tolist() == [0, 1]
    assert data.class_counts() == {"train": {"CNV": 1, "NORMAL": 1}, "eval": {"CNV": 1, "NORMAL": 1}}
    assert data.train.weights is None and data.label_moments() is None


def test_several_labels_have_a_column_each_and_an_empty_cell_none(manifest):
    data = open_manifest(
        manifest(("path", "label", "split"), ("a", "cat| dog", "train"), ("b", "", "train"), ("c", "dog", "test"),
                 ("d", "cat", "val")), "multilabel"
    )  # fmt: skip
    assert data.class_names == ("cat", "dog")
    assert data.train.labels.tolist() == [[1, 1], [0, 0]] and data.eval.labels.tolist() == [[0, 1]]
    assert data.class_counts() == {
        "train": {"cat": 1, "dog": 1}, "eval": {"cat": 0, "dog": 1}, "validation": {"cat": 1, "dog": 0}
    }  # fmt: skip
    assert data.left_out == () and data.validation_name == "val"
    assert data.to_choose_on().eval.labels.tolist() == [[1, 0]]


def test_a_label_keeps_a_training_image(manifest):
    rows = manifest(("path", "label", "split"), ("a", "cat", "train"), ("b", "dog", "train"), ("c", "dog", "test"))
    with holding_out_by(BY_RANK), pytest.raises(ValueError, match="label '(cat|dog)' has too few training images"):
        open_manifest(rows, "multilabel").with_validation(0.5)


def test_a_label_of_a_single_image_may_be_held_out_with_it(manifest):
    rows = [(f"{index}.png", f"common|rare {index}") for index in range(30)]
    counts = open_manifest(manifest(("path", "label"), *rows), "multilabel").class_counts()
    assert len(counts["train"]) == 31 and 15 < [*counts["train"].values()].count(1) < 30


def test_a_share_of_each_class_is_held_out_with_its_labels(manifest):
    rows = [(f"{index}.png", "ab"[index % 2], "train" if index < 16 else "test", 1 + index) for index in range(20)]
    data = open_manifest(manifest(("path", "label", "split", "weight"), *rows))
    with holding_out_by(BY_RANK):
        before = data.with_validation(0.25)
    assert before.class_counts() == {side: {"a": number, "b": number} for side, number in
                                     {"train": 6, "eval": 2, "validation": 2}.items()}  # fmt: skip
    data = data.with_validation(0.25)
    assert len(data.train.weights) == data.train_examples == 16 - data.validation_examples
    for path, label in zip(data.validation.paths, data.validation.labels, strict=True):
        assert int(path.rpartition("/")[2].partition(".")[0]) % 2 == label


def test_rows_held_out_by_number_count_alike_in_evaluations(manifest):
    rows = [(f"{index}.png", "ab"[index % 2], "train", 1 + index) for index in range(4)]
    data = open_manifest(manifest(("path", "label", "split", "weight"), *rows, ("4.png", "a", "test", 1)))
    data = data.holding_out([0, 3])
    assert data.train.weights.tolist() == [2, 3] and data.validation.weights is None


def test_other_rows_are_all_evaluated_or_those_of_their_split(manifest):
    about = {"task": "classification", "image_size": (8, 8)}
    file = manifest(("path", "label"), ("1", "a"), ("2", "a"))
    data = datasets.open_evaluation("manifest", file, ("b", "a"), **about)
    assert (data.eval_examples, data.eval.labels.tolist(), data.train_examples) == (2, [1, 1], 0)
    file = manifest(("path", "label", "split"), ("1", "a", "train"), ("2", "b", "test"))
    assert datasets.open_evaluation("manifest", file, ("a", "b"), **about).eval.labels.tolist() == [1]
    with pytest.raises(ValueError, match="the run does not know 'b'"):
        datasets.open_evaluation("manifest", file, ("a", "c"), **about)


def test_numbers_have_mean_and_deviation_and_weights_of_training_rows(manifest):
    rows = [("1", "3.5", "train", "2"), ("2", "-1", "train", "0"), ("3", "2e1", "test", "9")]
    data = open_manifest(manifest(("path", "label", "split", "weight"), *rows), "regression")
    assert data.class_names == () and data.train.labels.dtype == np.float32
    assert data.train.labels.tolist() == [[3.5], [-1]] and data.eval.labels.tolist() == [[20]]
    assert data.label_moments() == (3.5, 1.0)  # weighed; a deviation of 0 would divide by 0
    assert dataclasses.replace(data.train, weights=None).moments() == (1.25, 2.25)
    assert data.train.weights.tolist() == [2, 0]


def test_a_run_of_before_holds_out_a_fifth_of_each_class_but_one_image(manifest):
    rows = [(f"{index}.png", label) for index, label in enumerate(["a"] * 10 + ["b"] * 5 + ["rare"])]
    with holding_out_by(BY_RANK):
        data = open_manifest(manifest(("path", "label"), *rows))
        again = open_manifest(manifest(("path", "label"), *reversed(rows)))
    assert data.class_counts()["eval"] == {"a": 2, "b": 1, "rare": 0}
    assert data.class_counts()["train"]["rare"] == 1
    assert again.eval.paths == data.eval.paths


def test_without_a_split_the_paths_of_images_hold_out_a_fifth(manifest, tmp_path):
    rows = [(f"scans/{index}.png", "ab"[index % 2]) for index in range(100)]
    data = open_manifest(manifest(("path", "label"), *rows))
    assert abs(data.eval_examples - 20) < 12
    changed = [*rows[40:], *((f"more/{index}.png", "ab"[index % 2]) for index in range(40))]
    written = [(tmp_path / path, label) for path, label in changed]  # absolute: the same images
    for again in (changed, written, [(f"./{path}", label) for path, label in changed[::-1]]):
        after = open_manifest(manifest(("path", "label"), *again))
        assert not set(map(os.path.normpath, after.eval.paths)) & set(data.train.paths)
        assert not set(map(os.path.normpath, after.train.paths)) & set(data.eval.paths)


def test_a_class_whose_images_are_all_held_out_is_named(manifest):
    rows = [(f"{index}.png", f"{index // 2}") for index in range(60)]
    with pytest.raises(ValueError, match="no training rows for .*, as the names of its images hold them out: add rows"):
        open_manifest(manifest(("path", "label"), *rows))


@pytest.mark.parametrize("task", ["classification", "multilabel", "regression"])
def test_the_rows_of_an_image_stay_on_one_side(manifest, task):
    rows = [(f"{index}.png", str(index % 2)) for index in range(20)]
    again = [(f"./{path}", label) for path, label in rows[:12]]
    data = open_manifest(manifest(("path", "label"), *rows, *again, *rows[:8]), task)
    split = data.with_validation(0.25)
    sides = [{path.rpartition("/")[2] for path in paths} for paths in split.image_paths().values()]
    assert all(sides) and sum(map(len, sides)) == len(set.union(*sides)) == 20
    assert sum(map(len, split.image_paths().values())) == 40


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_a_limited_one_keeps_labels_and_weights_with_their_paths(manifest, task):
    rows = [(f"{i}", f"{i % 2}", "train" if i < 20 else "test", f"{i + 1}") for i in range(40)]
    data = open_manifest(manifest(("path", "label", "split", "weight"), *rows), task).limited(6)
    assert (data.train_examples, data.eval_examples) == (6, 6)
    numbers = [int(path.rpartition("/")[2]) for path in data.train.paths]
    assert data.train.labels.ravel().tolist() == [number % 2 for number in numbers]
    assert data.train.weights.tolist() == [number + 1 for number in numbers]
    if task == "classification":
        assert data.class_counts()["train"] == {"0": 3, "1": 3}


def test_all_bad_rows_are_named_with_their_lines_at_once(manifest):
    rows = [
        ("1", "1.5", "train", "1"), ("gone", "2", "train", "1"), ("2", "two", "train", "1"), ("3", "2", "trian", "1"),
        ("4", "2", "train", "-1"), ("", "2", "train", "1"), ("5", "2"), ("6", "nan", "train", "1"),
        ("7", "-1e39", "train", "1"),
    ]  # fmt: skip
    path = manifest(("path", "label", "split", "weight"), *rows, missing=["gone"])
    with pytest.raises(ValueError) as caught:
        open_manifest(path, "regression")
    assert str(caught.value) == f"{path} has bad rows: " + "; ".join(
        [
            "line 3 has the path gone, but there is no such file",
            "line 4 has the label 'two', which is not a number",
            "line 5 has the split 'trian', not train, test, val, valid or validation",
            "line 6 has the weight -1, which is less than 0",
            "line 7 has no path",
            "line 8 has 2 values for 4 columns",
            "line 9 has the label 'nan', which is not a number",
            "line 10 has the label -1e39, which float32 cannot hold",
        ]
    )


def test_addresses_beside_relative_paths_are_planned(manifest, tmp_path):
    path = manifest(("path", "label"), *((f"{number}", "ab"[number % 2]) for number in range(6)))
    with path.open("a") as file:
        file.write(f"file://{tmp_path}/0,a\n")
    data = open_manifest(path)
    assert _files(SimpleNamespace(data_dir=str(path)), data) == str(path)


@pytest.mark.parametrize(
    ("names", "others"),
    [
        (("image_id", "diagnosis"), []),
        (("filename", "class"), [("age", "{}"), ("sex", "f")]),
        (("Path", "Label"), []),
        (("Bild", "Befund"), [("Alter", "{}")]),  # none is usual: the only one whose values repeat
        (("path", "grade"), []),
    ],
)
def test_columns_of_other_names_are_taken_if_no_second_can_be_meant(manifest, names, others):
    header, cells = (*names, *(name for name, _ in others)), [value for _, value in others]
    rows = [(f"{i}.png", "ab"[i % 2], *(value.format(i) for value in cells)) for i in range(20)]
    data = open_manifest(manifest(header, *rows))
    assert data.class_names == ("a", "b") and data.train_examples + data.eval_examples == 20
    meant = zip(names, ("path", "label"), strict=True)
    assert data.columns == {name: meaning for name, meaning in meant if name != meaning}


def test_of_many_bad_rows_ten_are_named(manifest):
    with pytest.raises(ValueError, match=r"line 11 has the path 9.*such file; and 5 more$"):
        open_manifest(
            manifest(("path", "label"), *((f"{i}", "a") for i in range(15)), missing=[f"{i}" for i in range(15)])
        )


@pytest.mark.parametrize(
    "rows, task, refusal",
    [
        (
            [("file", "mask", "label"), ("a", "a", "b")],
            "classification",
            "has 'file', 'mask', 'label': rename 'file' to path; a path is",
        ),
        ([("path", "label", "split", "split")], "classification", "one column split; .* has 'path', .*'split'$"),
        (
            [("Image ID", "diagnosis", "target"), ("a", "b", "c")],
            "classification",
            "one column path and one column label; .*: rename 'Image ID' to path and 'diagnosis' to label; a path is",
        ),
        (
            [("sex", "Image ID", "diagnosis"), ("", "a", "b")],
            "classification",
            "one column path and one column label; its first line has 'sex', 'Image ID', 'diagnosis': rename",
        ),
        ([("a/1.JPG", "cat"), ("b", "dog")], "classification", "begin the file with a line .* such as path,label$"),
        ([("path;label",), ("a;b",)], "classification", "its first line has 'path;label', and ';' instead of commas$"),
        (
            [("path", "label", "split"), ("a", "1.5", "train"), ("b", "2.5", "test")],
            "classification",
            "no training rows for '2.5'; for labels that are numbers, choose the task regression$",
        ),
        ([("path", "label"), ("a", "x|y")], "classification", r"line 2 has several labels, 'x\|y', which need the"),
        ([("path", "label"), *((f"{i}", "x") for i in range(20))], "classification", "has 1 classes .*at least 2"),
        ([("path", "label", "split"), ("a", "x", "train")], "multilabel", "1 training rows and 0 evaluation rows"),
        (
            [("path", "label", "split"), ("a", "x", "train"), ("b", "y", "test")],
            "classification",
            "has no training rows for 'y'$",
        ),
        ([("path", "label"), ("a", "")], "classification", "bad rows: line 2 has no label$"),
        ([("path", "label")], "kinds", "task must be one of classification, multilabel, regression, got 'kinds'$"),
    ],
)  # fmt: skip
def test_what_cannot_be_trained_on_is_refused_in_a_line(manifest, rows, task, refusal):
    with pytest.raises(ValueError, match=refusal) as caught:
        open_manifest(manifest(*rows), task)
    assert "\n" not in str(caught.value)


def test_other_files_are_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="there is no file .*/nowhere.csv"):
        open_manifest(tmp_path / "nowhere.csv")
    with pytest.raises(ValueError, match="is a folder; give the CSV file in it"):
        open_manifest(tmp_path)
    (tmp_path / "latin.csv").write_bytes(b"path,label\n\xe9,1\n")
    with pytest.raises(ValueError, match="is not UTF-8 text"):
        open_manifest(tmp_path / "latin.csv")


def test_quoted_values_may_follow_a_blank(manifest):
    path = manifest(("path", "label"), *((f"{number}.png", "a b"[:: number % 2 * 2 - 1]) for number in range(4)))
    path.write_text(path.read_text().replace(",", ', "').replace("\n", '"\n'))
    assert open_manifest(path).class_names == ("a b", "b a")


def test_rows_in_absolute_and_relative_paths_are_trained_on_together(manifest, tmp_path, monkeypatch):
    rows = [(f"{number}.png", "ab"[number % 2]) for number in range(10)]
    manifest(("path", "label"), *rows, (str(tmp_path / "9.png"), "b"), (str(tmp_path / "8.png"), "a"))
    monkeypatch.chdir(tmp_path)
    data = open_manifest("labels.csv")
    assert _files(SimpleNamespace(data_dir="labels.csv"), data) == str(tmp_path)
    sides = [{os.path.abspath(path) for path in part.paths} for part in (data.train, data.eval)]
    assert len(sides[0]) + len(sides[1]) == 10 and not sides[0] & sides[1]
