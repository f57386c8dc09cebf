"""Folders of image files: their layouts, the split, and what is said of those laid out otherwise."""

import os

import numpy as np
import pytest
from PIL import Image

from estimator_train.app import datasets
from estimator_train.app.datasets.held_out import BY_RANK, holding_out_by
from estimator_train.app.datasets.images import SUFFIXES, counted_endings


@pytest.fixture
def fill(tmp_path):
    """Puts images into folders of tmp_path, given as {folder: number}, and returns tmp_path."""

    def fill_folders(numbers, suffix=".jpg"):
        for folder, number in numbers.items():
            (tmp_path / folder).mkdir(parents=True, exist_ok=True)
            for index in range(number):
                image = Image.fromarray(np.full((6, 8), index, np.uint8))
                image.save(tmp_path / folder / f"{index:03}{suffix}", "PNG" if "png" in suffix.lower() else "JPEG")
        return tmp_path

    return fill_folders


def names(paths):
    return ["/".join(path.split("/")[-2:]) for path in paths]


def test_train_and_test_folders_are_the_two_sides(fill):
    data = datasets.open_dataset("images", fill({"train/b": 2, "train/a": 1, "test/a": 1, "test/b": 1, "more/a": 9}))
    assert data.name == "images"
    assert data.class_names == ("a", "b")
    assert names(data.train.paths) == ["a/000.jpg", "b/000.jpg", "b/001.jpg"]
    assert names(data.eval.paths) == ["a/000.jpg", "b/000.jpg"]
    assert (data.train_examples, data.eval_examples) == (3, 2)
    assert data.left_out == ("more",)
    assert data.validation_examples == 0 and data.to_choose_on() is data


def test_a_validation_folder_beside_test_chooses(fill):
    sides = {"train/a": 4, "train/b": 4, "test/a": 1, "test/b": 1, "val/a": 2, "val/b": 3}
    data = datasets.open_dataset("images", fill(sides))
    assert (data.validation_examples, data.validation_name, data.left_out) == (5, "val", ())
    assert data.class_counts()["validation"] == {"a": 2, "b": 3}
    choosing = data.to_choose_on()
    assert choosing.eval.paths == data.validation.paths and choosing.validation_examples == 0
    assert data.limited(2).validation_examples == 2

    split = data.with_validation(0.3)  # instead of the folder
    assert split.validation_examples < 5 and split.left_out == ("val",)
    assert sorted(split.train.paths + split.validation.paths) == data.train.paths
    assert split.eval.paths == data.eval.paths
    assert data.with_validation(0).left_out == ("val",)
    with pytest.raises(ValueError, match=r"^all examples of class .* are held out for validation by their name"):
        data.with_validation(0.99)
    with holding_out_by(BY_RANK):
        assert data.with_validation(0.3).class_counts()["validation"] == {"a": 1, "b": 1}
        with pytest.raises(ValueError, match=r"class 'a' has too few training examples, 4, to hold out 0\.9"):
            data.with_validation(0.9)


def test_a_validation_folder_must_have_the_classes_of_train(fill):
    sides = {"train/a": 2, "train/b": 2, "test/a": 1, "test/b": 1, "val/a": 1, "val/c": 1}
    with pytest.raises(ValueError, match=r"train and .*val must hold the same classes, .* has 'b', 'c'"):
        datasets.open_dataset("images", fill(sides))


def test_other_images_of_the_same_classes_are_all_evaluated(fill):
    folder = fill({"train/a": 2, "train/b": 3, "test/a": 1, "test/b": 1})
    about = {"image_size": (8, 8)}
    whole = datasets.open_evaluation("oct2017", folder / "train", ("b", "a"), **about)
    assert (whole.train_examples, whole.eval_examples, whole.class_names) == (0, 5, ("b", "a"))
    assert datasets.open_evaluation("images", folder, ("a", "b"), **about).eval_examples == 2
    with pytest.raises(ValueError, match="train does not have the classes of the run: it lacks 'c'; the run does not"):
        datasets.open_evaluation("images", folder / "train", ("a", "c"), **about)
    with pytest.raises(ValueError, match="a folder of class folders is for classification"):
        datasets.open_evaluation("images", folder, ("a", "b"), task="multilabel", **about)
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        datasets.open_evaluation("images", folder / "none", ("a", "b"), **about)


def test_other_files_are_counted_by_their_ending(fill):
    folder = fill({"train/a": 2, "train/b": 2, "test/a": 1, "test/b": 1})
    for name in ("train/a/1.HEIC", "train/b/2.heic", "test/a/notes.txt", "test/a/README", "test/a/.hidden"):
        (folder / name).touch()
    for ending in SUFFIXES:
        (folder / "train" / "a" / f"photo{ending.upper()}").touch()
    data = datasets.open_dataset("images", folder)
    assert data.train_examples == 4 + len(SUFFIXES)
    counted = counted_endings(data.other_files)
    assert counted.partition(" (convert .heic")[0] == "4 files of other formats: .heic 2, without an ending 1, .txt 1"
    assert counted_endings({}) is None


def test_images_below_a_class_directory_belong_to_its_class(fill):
    folder = fill(
        {"a": 2, "a/left": 9, "a/left/b": 9, "b/left": 6, "b/right": 4, "a/.hidden": 1, "b/__MACOSX": 1}, ".png"
    )
    (folder / "a" / "left" / "1.heic").touch()
    (folder / "b" / "right" / "b").symlink_to(folder / "b")  # a circle
    data = datasets.open_dataset("images", folder)
    assert data.class_names == ("a", "b") and data.other_files == {".heic": 1}
    sides = data.class_counts()
    assert {name: sides["train"][name] + sides["eval"][name] for name in "ab"} == {"a": 20, "b": 10}
    labels = dict(zip(data.train.paths, data.train.labels, strict=True))
    assert {label for path, label in labels.items() if "/a/left/b/" in path} == {0}
    assert sum(data.limited(6).class_counts()["train"].values()) == 6
    ((images, labels),) = data.train_input_fn(image_size=(4, 4), batch_size=99, num_epochs=1)()
    assert images.shape[0] == data.train_examples and labels.numpy().sum(axis=0).tolist() == [*sides["train"].values()]
    assert datasets.open_evaluation("images", folder, ("b", "a"), image_size=(4, 4)).class_counts()["eval"] == {
        "b": 10,
        "a": 20,
    }


@pytest.mark.parametrize("validation", ["val", "valid", "validation"])
def test_validation_stands_in_for_a_missing_test_folder(fill, validation):
    folder = fill({"train/a": 3, "train/b": 3, f"{validation}/a": 1, f"{validation}/b": 1})
    assert datasets.open_dataset("images", folder).eval.paths == [
        str(folder / validation / "a/000.jpg"),
        str(folder / validation / "b/000.jpg"),
    ]


@pytest.mark.parametrize("below", ["", "train/"])
def test_a_fifth_is_held_out_without_evaluation_images(fill, below):
    folder = fill({f"{below}a": 200, f"{below}b": 50, f"{below}c": 2})
    data = datasets.open_dataset("images", folder)
    classes = [path.split("/")[-2] for path in data.eval.paths]
    for name, number, deviations in (("a", 200, 3), ("b", 50, 3)):
        assert abs(classes.count(name) - number / 5) < deviations * (number * 0.16) ** 0.5
    assert data.train_examples + data.eval_examples == 252
    assert not set(data.train.paths) & set(data.eval.paths)
    with holding_out_by(BY_RANK):
        before = datasets.open_dataset("images", folder)
    classes = [path.split("/")[-2] for path in before.eval.paths]
    assert [classes.count(name) for name in "abc"] == [40, 10, 1]


def test_the_side_of_an_image_depends_on_its_name_alone(fill, tmp_path):
    fill({"here/a": 20, "here/b": 20, "there/b": 20, "there/a": 20})
    here, there = (datasets.open_dataset("images", tmp_path / name) for name in ("here", "there"))
    assert names(here.eval.paths) == names(there.eval.paths)
    chosen = [int(name[2:5]) for name in names(here.eval.paths)[:4]]
    assert chosen not in ([0, 1, 2, 3], [16, 17, 18, 19])

    for path in here.eval.paths[::2]:  # damaged ones are deleted, and others are added
        os.remove(path)
    fill({"here/a": 60})
    after = datasets.open_dataset("images", tmp_path / "here")
    assert not set(after.eval.paths) & set(here.train.paths) and not set(after.train.paths) & set(here.eval.paths)
    for limit in (8, 30):
        few = after.limited(limit)
        assert set(few.eval.paths) <= set(after.eval.paths) and set(few.train.paths) <= set(after.train.paths)
    validated = [set(each.with_validation(0.3).validation.paths) for each in (here, after)]
    assert validated[0] == validated[1] & set(here.train.paths)


def test_sides_of_a_run_of_before_are_ranks_among_the_images(fill):
    with holding_out_by(BY_RANK):
        data = datasets.open_dataset("images", fill({"a": 8, "b": 8}, ".jpeg"))
    assert names(data.eval.paths) == ["a/004.jpeg", "a/005.jpeg", "b/004.jpeg", "b/005.jpeg"]
    with pytest.raises(ValueError, match="there is no rule 'date' to hold out examples"), holding_out_by("date"):
        pass


def test_a_class_may_be_named_train(fill):
    assert datasets.open_dataset("images", fill({"bus": 5, "train": 5})).class_names == ("bus", "train")


def test_suffixes_of_any_case_count_and_hidden_files_do_not(fill):
    for suffix in (".jpg", ".JPEG", ".Png"):
        folder = fill({"a": 2, "b": 2}, suffix)
    (folder / "a" / "._000.jpg").write_bytes(b"resource fork")
    (folder / "a" / "notes.txt").write_text("no image")
    (folder / ".cache").mkdir()
    (folder / "__MACOSX" / "a").mkdir(parents=True)
    data = datasets.open_dataset("images", folder)
    assert data.class_names == ("a", "b")
    assert data.train_examples + data.eval_examples == 12


@pytest.mark.parametrize(
    ("numbers", "message"),
    [
        ({}, "has no class folders"),
        ({"a": 0, "b": 0}, "none of the class folders in .* has image files: 'a', 'b'"),
        ({"a": 3}, "has only one class, 'a': at least two"),
        ({"a": 3, "b": 0}, "class folder .*b has no image files"),
        ({"a": 3, "b": 1}, "class 'b' has one image, .*000.jpg: at least two"),
        ({"train/a": 1, "train/b": 1, "test/a": 1, "test/c": 1}, "same classes, but only one of them has 'b', 'c'"),
        (
            {"Train/a": 1, "Test/a": 1},
            "has Train, but no folder train .*: rename it to train, and .* to test, val, valid",
        ),
        ({"training/a": 2, "test/a": 1}, "has training, but no folder train with class folders: rename it to train"),
    ],
)
def test_another_layout_is_refused_in_one_line(fill, numbers, message):
    folder = fill(numbers)
    with pytest.raises(ValueError, match=message) as caught:
        datasets.open_dataset("images", folder)
    assert str(folder) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_heic_files_alone_are_refused_with_how_to_convert_them(fill):
    with pytest.raises(ValueError, match=r"formats: \.heic 4 \(convert \.heic to JPEG, for example by magick"):
        datasets.open_dataset("images", fill({"a": 2, "b": 2}, ".heic"))


def test_what_is_no_folder_is_refused(tmp_path):
    file = tmp_path / "file"
    file.write_text("")
    with pytest.raises(FileNotFoundError, match=f"there is no folder {file}s"):
        datasets.open_dataset("images", f"{file}s")
    with pytest.raises(NotADirectoryError, match=f"{file} is a file"):
        datasets.open_dataset("images", file)
    with pytest.raises(ValueError, match="images needs data_dir"):
        datasets.open_dataset("images")


def test_evaluation_goes_once_through_the_images_in_order(fill):
    data = datasets.open_dataset("images", fill({"train/a": 1, "train/b": 1, "test/a": 2, "test/b": 3}, ".png"))
    batches = list(data.eval_input_fn(image_size=(4, 5), batch_size=4)())
    assert [images.shape for images, _ in batches] == [(4, 4, 5, 3), (1, 4, 5, 3)]
    images = np.concatenate([images for images, _ in batches])
    labels = np.concatenate([labels for _, labels in batches])
    np.testing.assert_allclose(images[:, 0, 0, 0] * 255, [0, 1, 0, 1, 2], atol=1e-4)
    np.testing.assert_array_equal(labels, np.eye(2)[[0, 0, 1, 1, 1]])


@pytest.mark.slow
def test_training_is_shuffled_by_the_seed_and_repeats(fill):
    data = datasets.open_dataset("images", fill({"train/a": 20, "train/b": 20, "test/a": 1, "test/b": 1}, ".png"))

    def order(seed):
        input_fn = data.train_input_fn(image_size=(6, 8), batch_size=40, num_epochs=2, seed=seed)
        return [tuple(np.round(images[:, 0, 0, 0] * 255).astype(int)) for images, _ in input_fn()]

    first, second = order(1)
    assert sorted(first) == sorted(second) == sorted([*range(20)] * 2)
    assert order(1) == [first, second]
    assert first != second
    assert order(2)[0] != first


def test_a_limit_keeps_the_shares_of_the_classes(fill):
    folder = fill({"train/a": 80, "train/b": 40, "train/c": 1, "test/a": 8, "test/b": 4, "test/c": 1})
    data = datasets.open_dataset("images", folder, limit=13)
    assert data.class_counts() == {"train": {"a": 8, "b": 4, "c": 1}, "eval": {"a": 8, "b": 4, "c": 1}}
    whole = datasets.open_dataset("images", folder)
    assert data.train.paths == [path for path in whole.train.paths if path in data.train.paths]
    assert set(data.train.paths) < set(datasets.open_dataset("images", folder, limit=20).train.paths)
    assert datasets.open_dataset("images", folder, limit=1000).image_paths() == whole.image_paths()


def test_a_limit_chooses_by_its_seed(fill):
    folder = fill({"a": 30, "b": 30})
    chosen = [datasets.open_dataset("images", folder, limit=8, limit_seed=seed).train.paths for seed in (1, 1, 2)]
    assert chosen[0] == chosen[1] != chosen[2]


def test_a_limit_below_the_number_of_classes_is_refused(fill):
    with pytest.raises(ValueError, match="limit 1 is less than one example for each of the 2 classes"):
        datasets.open_dataset("images", fill({"a": 3, "b": 3}), limit=1)


@pytest.mark.parametrize("kind", ["folder", "pipe", "broken link"])
def test_what_is_named_like_an_image_but_is_no_file_is_named(fill, kind):
    folder = fill({"a": 2, "b": 2})
    path = folder / "a" / "x.jpeg"
    {"folder": path.mkdir, "pipe": lambda: os.mkfifo(path), "broken link": lambda: path.symlink_to("nowhere")}[kind]()
    with pytest.raises(ValueError, match="a/x.jpeg is a directory, pipe, device or broken link.*remove it"):
        datasets.open_dataset("images", folder)


@pytest.mark.slow
def test_names_that_are_not_utf8_and_brackets_are_taken_as_they_are(fill, tmp_path):
    fill({"data[1]/a": 3, "data[1]/b": 3})
    (tmp_path / "data[1]/a/000.jpg").rename(os.fsdecode(os.fsencode(tmp_path) + b"/data[1]/a/[\xff].jpg"))
    data = datasets.open_dataset("images", tmp_path / "data[1]", limit=4)
    assert (data.train_examples, data.eval_examples) == (4, 2)
    whole = datasets.open_dataset("images", tmp_path / "data[1]")
    read = sum(len(images) for images, _ in whole.train_input_fn(image_size=(4, 4), batch_size=2, num_epochs=1)())
    assert read == whole.train_examples == 4
