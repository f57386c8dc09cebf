"""OCT2017 in the layouts that unpacking the Kaggle archive gives."""

from pathlib import Path

import pytest

from estimator_train import datasets
from estimator_train.datasets import oct2017

REAL = Path(__file__).parents[3] / "shared" / "data" / "OCT2017"


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
    assert {path.rsplit("/", 3)[1] for path in data.eval_paths} == {"test"}
    assert "__MACOSX" not in data.train_paths[0]


def test_the_blank_at_the_end_of_the_folder_may_be_left_out(tmp_path):
    unpack(tmp_path / "OCT2017 ")
    assert datasets.open_dataset("oct2017", tmp_path / "OCT2017").train_examples == 12


def test_the_dataset_says_what_to_train_with(tmp_path):
    unpack(tmp_path)
    data = datasets.open_dataset("oct2017", str(tmp_path))
    assert data.class_names == ("CNV", "DME", "DRUSEN", "NORMAL")
    assert (data.name, data.default_model, data.image_size) == ("oct2017", "vgg16", (224, 224))
    assert data.default_epochs == 5


def test_other_folders_are_refused(tmp_path):
    with pytest.raises(ValueError, match="oct2017 needs --data-dir.*paultimothymooney/kermany2018"):
        datasets.open_dataset("oct2017")
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        datasets.open_dataset("oct2017", tmp_path / "nowhere")
    with pytest.raises(ValueError, match="has no folder train/CNV"):
        datasets.open_dataset("oct2017", tmp_path)
    unpack(tmp_path)
    (tmp_path / "train" / "AMD").mkdir()
    (tmp_path / "train" / "AMD" / "AMD-1-1.jpeg").touch()
    with pytest.raises(ValueError, match="must hold the classes CNV, DME, DRUSEN, NORMAL, but holds AMD, CNV"):
        datasets.open_dataset("oct2017", tmp_path)


@pytest.mark.skipif(not REAL.exists(), reason="needs the real images")
@pytest.mark.parametrize("folder", [REAL, REAL.parent])
def test_real_images_are_read(folder):
    data = datasets.open_dataset("oct2017", folder)
    assert (data.train_examples, data.eval_examples) == (20, 8)
    (images, labels), *rest = data.eval_input_fn(image_size=(48, 64), batch_size=8)()
    assert not rest
    assert images.shape == (8, 48, 64, 3)
    assert labels.numpy().argmax(1).tolist() == [0, 0, 1, 1, 2, 2, 3, 3]
