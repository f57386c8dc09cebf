"""OCT2017 in the layouts that unpacking the Kaggle archive gives."""

from pathlib import Path

import pytest

from estimator_train.app import datasets
from estimator_train.app.datasets import oct2017
from estimator_train.app.datasets.held_out import BY_RANK, holding_out_by
from estimator_train.app.datasets.patients import patient_of, with_patients_for_validation

REAL = Path(__file__).parents[4] / "shared" / "data" / "OCT2017"


def unpack(folder, splits=("train", "test", "val")):
    for split in splits:
        for class_name in oct2017.CLASS_NAMES:
            (folder / split / class_name).mkdir(parents=True)
            for number in (1, 2, 3) if split == "train" else (4,):
                (folder / split / class_name / f"{class_name}-77-{number}.jpeg").touch()


@pytest.mark.parametrize(
    "trees",
    [
        [""],
        ["OCT2017 "],
        ["OCT2017"],
        ["OCT2017 ", "oct2017"],
        ["oct2017/OCT2017 "],
        ["OCT2017 ", "oct2017/OCT2017 "],
    ],
)
def test_the_tree_is_found_and_read_once(tmp_path, trees):
    for tree in trees:
        unpack(tmp_path / tree)
    unpack(tmp_path / "__MACOSX" / "OCT2017 ")
    data = datasets.open_dataset("oct2017", tmp_path)
    assert (data.train_examples, data.eval_examples) == (12, 4)
    assert {path.rsplit("/", 3)[1] for path in data.eval.paths} == {"test"}
    assert "__MACOSX" not in data.train.paths[0]


def test_the_blank_at_the_end_of_the_folder_may_be_left_out(tmp_path):
    unpack(tmp_path / "OCT2017 ")
    assert datasets.open_dataset("oct2017", tmp_path / "OCT2017").train_examples == 12


def test_the_dataset_says_what_to_train_with(tmp_path):
    unpack(tmp_path)
    data = datasets.open_dataset("oct2017", str(tmp_path))
    assert data.class_names == ("CNV", "DME", "DRUSEN", "NORMAL")
    assert (data.name, data.default_model, data.image_size) == ("oct2017", "vgg16", (224, 224))
    assert (data.train_examples, data.epochs_for(32)) == (12, 300)


def test_other_folders_are_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        datasets.open_dataset("oct2017", tmp_path / "nowhere")
    with pytest.raises(ValueError, match="has no folder train/CNV"):
        datasets.open_dataset("oct2017", tmp_path)
    unpack(tmp_path)
    (tmp_path / "train" / "AMD").mkdir()
    (tmp_path / "train" / "AMD" / "AMD-1-1.jpeg").touch()
    with pytest.raises(ValueError, match="the classes 'CNV', 'DME', 'DRUSEN', 'NORMAL', but holds 'AMD', 'CNV'"):
        datasets.open_dataset("oct2017", tmp_path)


def fill(folder, names):
    """Makes files train/CNV/CNV-1-1.jpeg of "train CNV 1 1", with more after commas."""
    for split, class_name, patient, number in (name.split() for name in names.split(", ")):
        (folder / split / class_name).mkdir(parents=True, exist_ok=True)
        (folder / split / class_name / f"{class_name}-{patient}-{number}.jpeg").touch()


def test_counts_that_are_not_the_published_ones_are_one_warning(tmp_path, caplog, monkeypatch):
    unpack(tmp_path)
    with caplog.at_level("WARNING"):
        data = datasets.open_dataset("oct2017", tmp_path)
    assert data.class_counts()["train"] == dict.fromkeys(oct2017.CLASS_NAMES, 3)
    counts, leak = caplog.messages
    assert "not the complete published dataset: train CNV 3 of 37205" in counts and "test NORMAL 1 of 242" in counts
    assert sum(oct2017._PUBLISHED["train"].values()) + sum(oct2017._PUBLISHED["eval"].values()) == 84452
    monkeypatch.setattr(oct2017, "_PUBLISHED", data.class_counts())
    caplog.clear()
    datasets.open_dataset("oct2017", tmp_path)
    assert caplog.messages == [leak]


def test_patients_on_both_sides_are_counted_across_the_classes(tmp_path, caplog):
    unpack(tmp_path)  # all of patient 77
    fill(tmp_path, "train CNV 5 1, test CNV 6 1, train DME 8 1, test DRUSEN 8 1")
    (tmp_path / "train" / "CNV" / "CNV.jpeg").touch()
    with caplog.at_level("WARNING"):
        datasets.open_dataset("oct2017", tmp_path)
    assert caplog.messages[-1] == "oct2017: 2 patients have images in both train and test; split=patient has none"


def test_a_split_by_patient_shares_none_and_leaves_the_test_images_out(tmp_path, caplog):
    unpack(tmp_path)
    fill(
        tmp_path, ", ".join(f"train {name} {p} {n}" for name in ("CNV", "DME") for p in range(20) for n in range(p % 3))
    )
    fill(tmp_path, ", ".join(f"train {name} {p} 1" for name in ("DRUSEN", "NORMAL") for p in range(40, 60)))
    data = datasets.open_dataset("oct2017", tmp_path, split="patient")
    sides = [{patient_of(path) for path in paths} for paths in (data.train.paths, data.eval.paths)]
    assert not sides[0] & sides[1]
    assert all("/train/" in path for path in data.eval.paths)
    whole = datasets.open_dataset("oct2017", tmp_path)
    assert sorted(data.train.paths + data.eval.paths) == sorted(whole.train.paths)
    for class_name, number in whole.class_counts()["train"].items():
        assert 0 < data.class_counts()["eval"][class_name] < 0.5 * number
    assert datasets.open_dataset("oct2017", tmp_path, split="patient").image_paths() == data.image_paths()

    held_out = with_patients_for_validation(data, 0.2)
    sides = [{patient_of(path) for path in paths} for paths in held_out.image_paths().values()]
    assert all(sides) and sum(map(len, sides)) == len(set.union(*sides)) and len(sides) == 3

    for path in data.eval.paths[::2]:
        Path(path).unlink()
    fill(tmp_path, ", ".join(f"train {name} {p} 1" for name in ("CNV", "NORMAL") for p in range(100, 140)))
    after = datasets.open_dataset("oct2017", tmp_path, split="patient")
    assert not set(after.eval.paths) & set(data.train.paths) and not set(after.train.paths) & set(data.eval.paths)
    after = with_patients_for_validation(after, 0.2)
    assert not set(after.validation.paths) & set(held_out.train.paths)
    with holding_out_by(BY_RANK):
        assert datasets.open_dataset("oct2017", tmp_path, split="patient").eval_examples > 10


def test_a_split_that_cannot_be_is_refused(tmp_path):
    unpack(tmp_path)
    with pytest.raises(ValueError, match="none of the 12 examples is held out for evaluation by its patient; add some"):
        datasets.open_dataset("oct2017", tmp_path, split="patient")
    with pytest.raises(ValueError, match="split must be \"patient\" or None, got 'eye'"):
        datasets.open_dataset("oct2017", tmp_path, split="eye")
    with pytest.raises(ValueError, match="images takes no option split"):
        datasets.open_dataset("images", tmp_path, split="patient")


@pytest.mark.skipif(not REAL.exists(), reason="needs the real images")
@pytest.mark.parametrize("folder", [REAL, REAL.parent])
def test_real_images_are_read(folder):
    data = datasets.open_dataset("oct2017", folder)
    assert (data.train_examples, data.eval_examples) == (20, 8)
    (images, labels), *rest = data.eval_input_fn(image_size=(48, 64), batch_size=8)()
    assert not rest
    assert images.shape == (8, 48, 64, 3)
    assert labels.numpy().argmax(1).tolist() == [0, 0, 1, 1, 2, 2, 3, 3]
