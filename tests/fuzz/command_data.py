"""The smallest data of each dataset that the command knows."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import itertools
import json
from pathlib import Path
from unittest import mock

import numpy as np
from PIL import Image

_PATIENTS = 3  # of each class, with two images each
_LABELS = {
    "manifest": ("labels", ["dark", "bright"]),
    "multilabel": ("findings", ["fluid|drusen", "drusen"]),
    "one_label": ("finding", ["fluid", ""]),
    "regression": ("ages", [41.5, 67]),
}


def write(dataset: str, folder: Path) -> None:
    """Writes the files of a dataset in `folder`, and in its folder "scans" some images to predict."""
    rng = np.random.default_rng(3)
    for name, index in itertools.product(("dark", "bright"), range(50, 56)):  # each class has an image held out
        _draw(rng, folder / "scans" / name / f"{index}.{'png' if index % 2 else 'jpeg'}")
    (folder / "torn.png").write_bytes((folder / "scans" / "dark" / "51.png").read_bytes()[:60])
    for mode in ("L", "RGBA", "P", "I;16"):
        _draw(rng, folder / f"{mode.replace(';', '')}.png", mode)
    if dataset == "oct2017":
        from estimator_train.app.datasets.oct2017 import CLASS_NAMES

        for name, patient, image in itertools.product(CLASS_NAMES, range(1, _PATIENTS + 1), (1, 2)):
            number = patient + 10 * CLASS_NAMES.index(name)
            _draw(rng, folder / "OCT2017" / "train" / name / f"{name}-{number}-{image}.jpeg")
            _draw(rng, folder / "OCT2017" / "test" / name / f"{name}-{number + 100}-{image}.jpeg")
    elif dataset in ("split_images", "cats_vs_dogs"):
        for side, name, index in itertools.product(("train", "test"), ("cats", "dogs"), range(3)):
            _draw(rng, folder / "pets" / side / name / f"{index}.png")
    elif dataset in _LABELS:
        file, labels = _LABELS[dataset]
        paths = sorted(path.relative_to(folder) for path in (folder / "scans").rglob("*.*"))
        rows = [f"{path},{labels['bright' in path.parts]},{1 + n % 2}" for n, path in enumerate(paths)]
        (folder / f"{file}.csv").write_text("\n".join(["path,label,weight", *rows]))
    elif dataset == "npz":
        x = rng.integers(0, 255, (8, 16, 16), np.uint8)
        y = (np.arange(8) % 3).astype(np.uint64)
        np.savez(folder / "arrays.npz", x_train=x, y_train=y, x_test=x[:5], y_test=y[:5])
    elif dataset == "npz_floats":
        x, y = rng.uniform(size=(8, 12, 16, 3)).astype("float32"), np.arange(8) % 2
        names = np.array(["dark", "bright"])
        np.savez(folder / "arrays.npz", x_train=x, y_train=y, x_test=x[:5], y_test=y[:5], class_names=names)
    elif dataset == "tfrecord":
        _write_records(rng, folder / "records")
    elif dataset == "hf" and importlib.util.find_spec("datasets"):
        _save_hugging_face(rng, folder / "saved")
    for names, file in ((("dark", "bright"), "weights.json"), (("0", "1"), "numbers.json")):
        (folder / file).write_text(json.dumps(dict(zip(names, (1, 2.5), strict=True))))


def _draw(rng, path, mode="RGB"):
    path.parent.mkdir(parents=True, exist_ok=True)
    if mode == "I;16":
        Image.fromarray(rng.integers(0, 2**16, (20, 24), np.uint16)).save(path)
    else:
        Image.fromarray(rng.integers(0, 255, (20, 24, 3), np.uint8)).convert(mode).save(path)


def _write_records(rng, folder):
    import tensorflow as tf

    folder.mkdir()
    (folder / "labels.txt").write_text("healthy\nill\n")
    for name in ("train", "test"):
        with tf.io.TFRecordWriter(str(folder / f"{name}.tfrecord")) as writer:
            for index in range(6):
                file = io.BytesIO()
                Image.fromarray(rng.integers(0, 255, (16, 16), np.uint8)).save(file, "png")
                image = tf.train.Feature(bytes_list=tf.train.BytesList(value=[file.getvalue()]))
                label = tf.train.Feature(int64_list=tf.train.Int64List(value=[index % 2]))
                features = tf.train.Features(feature={"image/encoded": image, "image/class/label": label})
                writer.write(tf.train.Example(features=features).SerializeToString())


def _save_hugging_face(rng, folder):
    import datasets

    columns = datasets.Features({"image": datasets.Image(), "label": datasets.ClassLabel(names=["a", "b"])})
    images = [Image.fromarray(rng.integers(0, 255, (16, 16), np.uint8)) for _ in range(8)]
    rows = datasets.Dataset.from_dict({"image": images, "label": [0, 1] * 4}, features=columns)
    datasets.DatasetDict({"train": rows, "test": rows}).save_to_disk(str(folder))


@contextlib.contextmanager
def without_downloads(dataset: str):
    """Replaces downloads by a few images, and draws few."""
    import tf_keras as keras

    from estimator_train.app.datasets import synthetic_oct
    from estimator_train.app.datasets.fashion_mnist import LoadedImages

    clothes = np.arange(20 * 28 * 28).reshape(20, 28, 28).astype(np.uint8), np.arange(20) % 10
    with contextlib.ExitStack() as stack:
        stack.enter_context(mock.patch.object(synthetic_oct, "IMAGES_PER_CLASS", {"train": 3, "test": 2}))
        stack.enter_context(mock.patch.object(keras.datasets.fashion_mnist, "load_data", lambda: (clothes, clothes)))
        examples = property(lambda part: min(20, part.number))
        stack.enter_context(mock.patch.object(LoadedImages, "count", examples))
        if dataset == "tfds":
            import tensorflow_datasets

            from estimator_train.app.datasets.tfds import TfdsSplit

            stack.enter_context(tensorflow_datasets.testing.mock_data(num_examples=8))
            stack.enter_context(mock.patch.object(TfdsSplit, "count", 8))  # the pretended dataset has no splits
        yield
