"""npz files, Fashion-MNIST and TFRecord files."""

import struct
import zipfile

import numpy as np
import pytest

from estimator_train.app import datasets
from estimator_train.app.datasets.held_out import BY_RANK, holding_out_by


def arrays(train=12, test=6, shape=(8, 6), classes=3):
    """Images whose every pixel is 20 times the class."""
    both = {}
    for side, number in {"train": train, "test": test}.items():
        y = np.arange(number) % classes
        both |= {
            f"x_{side}": np.ones((number, *shape), np.uint8) * (20 * y).reshape(-1, *[1] * len(shape)),
            f"y_{side}": y,
        }
    return {name: value.astype("uint8") for name, value in both.items()}


def save(path, **values):
    np.savez(path, **values)
    return path


@pytest.mark.parametrize("shape", [(8, 6), (8, 6, 1), (8, 6, 3)])
def test_an_npz_file_gives_rgb_images_and_one_hot_labels(tmp_path, shape):
    data = datasets.open_dataset("npz", save(tmp_path / "a.npz", **arrays(shape=shape), class_names=["x", "y", "z"]))
    assert data.class_names == ("x", "y", "z")
    assert (data.train_examples, data.eval_examples, data.image_size) == (12, 6, (8, 6))
    batches = list(data.eval_input_fn(image_size=(4, 5), batch_size=4)())
    assert [images.shape for images, _ in batches] == [(4, 4, 5, 3), (2, 4, 5, 3)]
    images, labels = (np.concatenate(parts) for parts in zip(*batches, strict=True))
    np.testing.assert_allclose(images.mean((1, 2, 3)) * 255, [0, 20, 40] * 2, atol=1e-4)
    np.testing.assert_array_equal(labels, np.eye(3)[[0, 1, 2] * 2])


def test_training_on_an_npz_file_is_shuffled_and_static_in_shape(tmp_path):
    data = datasets.open_dataset("npz", save(tmp_path / "a.npz", **arrays()))
    dataset = data.train_input_fn(image_size=data.image_size, batch_size=12, num_epochs=2, seed=1)()
    assert dataset.element_spec[0].shape == (None, 8, 6, 3)
    first, second = (labels.numpy().argmax(1).tolist() for _, labels in dataset)
    assert sorted(first) == sorted(second) and first != second


def test_a_limit_of_an_npz_file_is_stratified(tmp_path):
    data = datasets.open_dataset("npz", save(tmp_path / "a.npz", **arrays(train=60)), limit=6)
    assert data.class_counts() == {"train": {"0": 2, "1": 2, "2": 2}, "eval": {"0": 2, "1": 2, "2": 2}}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"x_train": np.zeros((12, 5))}, r"x_train must be images of shape .*, got \(12, 5\)"),
        ({"x_test": np.zeros((5, 8, 6))}, "x_test and y_test must have the same length above 0, got 5 and 6"),
        ({"y_train": np.zeros(12)}, "y_train must be class indices of shape .*, got float64"),
        ({"class_names": ["a", "b"]}, "has class 2, but there are 2 class_names"),
        ({"y_test": np.array([None])}, "is not an npz file of arrays"),
        ({"y_train": np.arange(12) % 2 * 10**18}, f"y_train or y_test has class {10**18}; number the classes from 0"),
        ({"x_train": np.zeros((12, 8, 6), [("r", "u1")])}, "x_train must be images of integers or floats, got "),
        ({"x_train": np.zeros((12, 8, 6), complex)}, "must be images of integers or floats, got complex128"),
        ({"x_train": np.zeros((12, 8, 6), "longdouble")}, "must be images of integers or floats, got (float128|longd)"),
        ({"x_train": np.full((12, 8, 6), 255.0)}, "x_train has float64 from 255 to 255; store integers whose type's"),
        ({"x_test": np.full((6, 8, 6), np.nan)}, "x_test has float64 from nan to nan; store integers whose type's"),
        ({"x_train": np.full((12, 8, 6), 255)}, "x_train has int64 from 255 to 255; store integers whose type's"),
        ({"x_train": np.ones((12, 8, 6), bool)}, "x_train must be images of integers or floats, got bool"),
        ({"class_names": [["a", "b", "c"]]}, r"class_names must have shape \(n,\), got \(1, 3\)"),
    ],
)
def test_npz_files_of_something_else_are_refused(tmp_path, change, message):
    with pytest.raises(ValueError, match=message):
        datasets.open_dataset("npz", save(tmp_path / "a.npz", **{**arrays(), **change}))


@pytest.mark.parametrize("shape", ["(3000000000000000, 8, 6)", "(10000000000000000000000, 8, 6)"])
def test_a_header_that_claims_more_than_the_file_has_is_refused(shape, tmp_path):
    path = save(tmp_path / "a.npz", **{name: value for name, value in arrays().items() if name != "x_train"})
    header = f"{{'descr': '|u1', 'fortran_order': False, 'shape': {shape}, }}".encode()
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("x_train.npy", b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + bytes(100))
    with pytest.raises(ValueError, match=r"x_train claims the shape .* but has \d+ bytes"):
        datasets.open_dataset("npz", path)


def test_an_array_that_is_there_twice_is_refused(tmp_path):
    path = save(tmp_path / "a.npz", **arrays())
    with zipfile.ZipFile(path, "a") as archive:
        member = archive.read("x_train.npy")
        with pytest.warns(UserWarning, match="Duplicate name"):
            archive.writestr("x_train.npy", member)
    with pytest.raises(ValueError, match="it has 2 arrays x_train"):
        datasets.open_dataset("npz", path)


def test_what_is_no_npz_file_is_refused(tmp_path):
    with pytest.raises(ValueError, match="npz needs data_dir"):
        datasets.open_dataset("npz")
    with pytest.raises(FileNotFoundError, match="there is no file"):
        datasets.open_dataset("npz", tmp_path / "nowhere.npz")
    (tmp_path / "text.npz").write_text("text")
    with pytest.raises(ValueError, match="text.npz is not an npz file"):
        datasets.open_dataset("npz", tmp_path / "text.npz")
    with pytest.raises(ValueError, match="has no x_test, y_test"):
        datasets.open_dataset("npz", save(tmp_path / "a.npz", x_train=np.zeros(3), y_train=np.zeros(3)))


def test_a_share_of_each_class_is_held_out_to_choose_on(tmp_path):
    data = datasets.open_dataset("npz", save(tmp_path / "a.npz", **arrays(train=30)))
    with holding_out_by(BY_RANK):
        split = data.with_validation(0.2)
    assert split.class_counts()["validation"] == {"0": 2, "1": 2, "2": 2}
    assert (split.train_examples, split.validation_examples, split.eval_examples) == (24, 6, 6)
    choosing = split.to_choose_on()
    np.testing.assert_array_equal(choosing.eval.images[:, 0, 0], 20 * choosing.eval.labels)
    assert choosing.eval_examples == 6 and not choosing.validation_examples
    assert data.to_choose_on() is data and not data.with_validation(0).validation_examples
    assert split.limited(3).validation_examples == 3
    with holding_out_by(BY_RANK), pytest.raises(ValueError, match="class '0' has too few .* 10, to hold out 0.95"):
        data.with_validation(0.95)


def test_an_image_is_held_out_by_its_pixels_wherever_it_is(tmp_path):
    drawn, y = np.random.default_rng(0).integers(0, 256, (60, 4, 4), "uint8"), np.arange(60) % 2
    held = []
    for rows in (np.arange(60), np.arange(59, 10, -1)):
        path = save(tmp_path / "a.npz", x_train=drawn[rows], y_train=y[rows], x_test=drawn[:2], y_test=y[:2])
        held.append({image.tobytes() for image in datasets.open_dataset("npz", path).train.split(0.3)[1].images})
    assert held[1] == held[0] - {image.tobytes() for image in drawn[:11]} and len(held[1]) > 5


def test_other_data_must_have_the_classes_of_the_run(tmp_path):
    path = save(tmp_path / "a.npz", **arrays(), class_names=["x", "y", "z"])
    about = {"image_size": (8, 6)}
    assert datasets.open_evaluation("npz", path, ("x", "y", "z"), **about).eval_examples == 6
    with pytest.raises(ValueError, match="a.npz does not have the classes of the run: it lacks 'w'; .* know 'z'"):
        datasets.open_evaluation("npz", path, ("x", "y", "w"), **about)
    with pytest.raises(ValueError, match="a.npz has the classes of the run in another order: 'x', 'y', 'z'"):
        datasets.open_evaluation("npz", path, ("z", "y", "x"), **about)
