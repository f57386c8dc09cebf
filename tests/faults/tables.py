"""Odd manifests, npz files, TFRecords and weights: a training of three steps has a result, or says in one line why not.

They may come from anybody. Run it with limited memory (`ulimit -v`): a file that claims terabytes must not get them.
"""

from __future__ import annotations

import io
import os
import random
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path

import estimator_train  # noqa: F401, before TensorFlow

# isort: split
import h5py
import numpy as np
import tensorflow as tf
from PIL import Image

from estimator_train.app import models
from tests.faults.folders import _chdir, _fault_of_any, _plots_of_one_dot
from tests.faults.runs import Row, call

_FLAGS = ["--model", "small_cnn", "--image-size", "16", "--batch-size", "2", "--max-steps", "3", "--quiet"]


def run(count: int, seed: int, folder: str | os.PathLike[str]) -> list[Row]:
    """Trains on files of `count` kinds, or of all if there are fewer."""
    kinds = random.Random(seed).sample(sorted(KINDS), min(count, len(KINDS)))
    with _chdir(folder), _plots_of_one_dot():
        _draw_images(Path("images"))
        return [_train(kind, Path(f"{number}")) for number, kind in enumerate(kinds)]


def _draw_images(folder):
    for number in range(8):
        path = folder / "ab"[number % 2] / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("L", (8, 8), 30 * number).save(path)


def _train(kind, place):
    place.mkdir()
    flags = KINDS[kind](place)
    code, output, error = call([*flags, *_FLAGS, "--model-dir", place / "run"])
    fault = _fault_of_any(code, error)
    if "\x1b" in output + error:
        fault = fault or "an escape sequence on the terminal"
    last = (error if code else output).strip().splitlines() or [""]
    return Row(kind, "trained" if code == 0 else last[-1].removeprefix("estimator_train: "), fault)


# Manifests: bytes of the CSV file.

_IMAGES = [f"../images/{'ab'[number % 2]}/{number}.png" for number in range(8)]


def _csv(*rows, first="path,label", tail=""):
    return "\n".join([first, *rows, tail]).encode()


def _labelled(label=lambda number: "ab"[number % 2], tail=""):
    return _csv(*(f"{path},{label(number)}{tail}" for number, path in enumerate(_IMAGES)))


_MANIFESTS: dict[str, bytes] = {
    "plain": _labelled(),
    "empty": b"",
    "only a header": _csv(),
    "only newlines": b"\n\n\n",
    "NUL bytes": _labelled(lambda number: "\0ab"[: 1 + number % 2]),
    "UTF-16": _labelled().decode().encode("utf-16"),
    "Latin-1": _labelled(lambda number: "äö"[number % 2]).decode().encode("latin-1"),
    "a byte order mark": b"\xef\xbb\xbf" + _labelled(),
    "carriage returns": _labelled().replace(b"\n", b"\r"),
    "Windows' newlines": _labelled().replace(b"\n", b"\r\n"),
    "an open quote": _csv('"' + _IMAGES[0] + ",a", *(f"{path},b" for path in _IMAGES[1:])),
    "a field of megabytes": _csv(f"{_IMAGES[0]},{'a' * 3_000_000}", f"{_IMAGES[1]},b"),
    "a class of its own for each": _labelled(lambda number: f"class {number}"),
    "escape sequences": _labelled(lambda number: f"\x1b[3{number % 2}mred"),
    "escape sequences in a path": _csv("\x1b[2J/nowhere.png,a"),
    "a bell in the header": _csv("a,b", first="path,\x07\x1b[1mlabel"),
    "columns twice": _csv(*(f"{path},a,b" for path in _IMAGES), first="path,label,label"),
    "no label column": _csv(*_IMAGES, first="path"),
    "file: beside relative paths": _csv(
        *(f"file:///nowhere/{number}.png,a" for number in range(3)), *(f"{path},b" for path in _IMAGES)
    ),
    "only file: addresses": _csv(*(f"file:///nowhere/{number}.png,{'ab'[number % 2]}" for number in range(8))),
    "an unknown address": _csv(*(f"evil://host/{number}.png,{'ab'[number % 2]}" for number in range(8))),
    "devices and folders": _csv("/dev/zero,a", "/dev/full,b", "/proc/self/mem,a", "..,b", ".,a"),
    "paths with NUL": _csv(*(f"{path}\0,{'ab'[number % 2]}" for number, path in enumerate(_IMAGES))),
    "itself as an image": _csv(*(f"labels.csv,{'ab'[number % 2]}" for number in range(8))),
    "paths as long as none may be": _csv(*("a" * 5000 + f"{number},{'ab'[number % 2]}" for number in range(4))),
    "weights of nothing": _csv(
        *(f"{path},{'ab'[n % 2]},0" for n, path in enumerate(_IMAGES)), first="path,label,weight"
    ),
    "weights beyond floats": _csv(
        *(f"{path},{'ab'[n % 2]},1e300" for n, path in enumerate(_IMAGES)), first="path,label,weight"
    ),
    "surrogates": b"path,label\n\xed\xb3\xbf,a\n",
}


def _manifest(content):
    def write(place):
        (place / "labels.csv").write_bytes(content)
        return ["--dataset", "manifest", "--data-dir", place / "labels.csv"]

    return write


_NUMBERS = {
    "numbers beyond float32": _labelled(lambda number: "1e300"),
    "numbers of words": _labelled(lambda number: "nan"),
    "one number": _labelled(lambda number: "5"),
    "huge digits": _labelled(lambda number: "9" * 5000),
}


def _regression(content):
    return lambda place: [*_manifest(content)(place), "--task", "regression"]


# npz files.


def _arrays(**changes):
    y = np.arange(8) % 2
    x = np.full([8, 8, 8], 30, np.uint8) * y[:, None, None].astype("uint8")
    return {"x_train": x, "y_train": y, "x_test": x, "y_test": y, **changes}


def _npz(**changes):
    def write(place):
        np.savez(place / "a.npz", **{name: value for name, value in _arrays(**changes).items() if value is not None})
        return _open_npz(place)

    return write


def _open_npz(place):
    return ["--dataset", "npz", "--data-dir", place / "a.npz"]


def _header(shape="(8, 8, 8)", descr="'|u1'", body=b"\0" * 512, order="False", version=b"\x01\x00"):
    """Writes x_train by hand."""

    def write(place):
        text = f"{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}, }}"
        packed = struct.pack("<H" if version == b"\x01\x00" else "<I", len(text)) + text.encode()
        return _members({"x_train.npy": b"\x93NUMPY" + version + packed + body})(place)

    return write


def _members(changes, twice=(), method=zipfile.ZIP_DEFLATED):
    def write(place):
        files = {}
        for name, value in _arrays().items():
            file = io.BytesIO()
            np.save(file, value)
            files[f"{name}.npy"] = file.getvalue()
        with zipfile.ZipFile(place / "a.npz", "w", method) as archive:
            for name, content in [*(files | changes).items(), *((name, files[name]) for name in twice)]:
                archive.writestr(name, content)
        return _open_npz(place)

    return write


def _damaged(harm):
    def write(place):
        flags = _npz()(place)
        (place / "a.npz").write_bytes(harm((place / "a.npz").read_bytes()))
        return flags

    return write


_LABELS = np.arange(8) % 2
_STRUCTURED = np.zeros([8, 8, 8], [("r", "u1"), ("g", "u1")])

_NPZ: dict[str, Callable] = {
    "plain": _npz(),
    "labels to 1e18": _npz(y_train=_LABELS * 10**18),
    "uint64 labels": _npz(y_train=_LABELS.astype("uint64"), y_test=_LABELS.astype("uint64")),
    "labels beyond int64": _npz(y_train=_LABELS.astype("uint64") * np.uint64(2**63)),
    "negative labels": _npz(y_train=-_LABELS),
    "boolean labels": _npz(y_train=_LABELS > 0),
    "labels of floats": _npz(y_train=_LABELS * 0.5),
    "one class": _npz(y_train=_LABELS * 0, y_test=_LABELS * 0),
    "structured images": _npz(x_train=_STRUCTURED),
    "complex images": _npz(x_train=np.zeros([8, 8, 8], complex)),
    "images of words": _npz(x_train=np.full([8, 8, 8], "word")),
    "images of dates": _npz(x_train=np.zeros([8, 8, 8], "datetime64[s]")),
    "half floats": _npz(x_train=np.zeros([8, 8, 8], "float16")),
    "long doubles": _npz(x_train=np.zeros([8, 8, 8], "longdouble")),
    "NaN": _npz(x_train=np.full([8, 8, 8], np.nan, "float32")),
    "big-endian": _npz(x_train=np.zeros([8, 8, 8], ">u2"), y_train=_LABELS.astype(">i4")),
    "in Fortran's order": _npz(x_train=np.asfortranarray(np.zeros([8, 8, 8], "uint8"))),
    "images of other sizes to test": _npz(x_test=np.zeros([8, 4, 12], "uint8")),
    "colour to train, gray to test": _npz(x_train=np.zeros([8, 8, 8, 3], "uint8")),
    "no pixels": _npz(x_train=np.zeros([8, 0, 8], "uint8")),
    "scalars": _npz(x_train=np.float32(1), y_train=np.int64(1)),
    "no images": _npz(x_train=np.zeros([0, 8, 8], "uint8"), y_train=np.zeros([0], "int64")),
    "pickled objects": _npz(x_train=np.array([None] * 8)),
    "class names with escapes": _npz(class_names=["a", "\x1b[1mb"]),
    "class names of two dimensions": _npz(class_names=[["a", "b"]]),
    "class names that are one": _npz(class_names="ab"),
    "equal class names": _npz(class_names=["a", "a"]),
    "structured class names": _npz(class_names=np.zeros(2, [("a", "i4")])),
    "a header of 3e15 images": _header("(3000000000000000, 8, 8)"),
    "a header beyond int64": _header("(99999999999999999999999, 8, 8)"),
    "a header of less than nothing": _header("(-8, 8, 8)"),
    "a header of code": _header("__import__('os').system('false')"),
    "a header of dtypes in dtypes": _header(descr="[('a', [('b', '<f8', (1000, 1000, 1000))])]"),
    "a header of objects": _header(descr="'|O'"),
    "a header of a later format": _header(version=b"\x09\x00"),
    "a header that is torn": _members({"x_train.npy": b"\x93NUMPY\x01\x00\xff\xff{"}),
    "a member that is no array": _members({"x_train.npy": b"text"}),
    "a member without its end": _header(body=b"\0" * 100),
    "a member twice": _members({}, twice=["x_train.npy", "y_train.npy"]),
    "a member under both its names": _members({"x_train": b"text"}),
    "members of LZMA": _members({}, method=zipfile.ZIP_LZMA),
    "torn": _damaged(lambda content: content[: len(content) // 2]),
    "a flipped bit": _damaged(lambda content: content[:200] + bytes([content[200] ^ 16]) + content[201:]),
    "text": _damaged(lambda content: b"text"),
    "empty": _damaged(lambda content: b""),
    "a single array": _damaged(lambda content: zipfile.ZipFile(io.BytesIO(content)).read("x_train.npy")),
}


# TFRecords.


def _record(image=None, label=0, **more):
    features = {name: _feature(value) for name, value in more.items()}
    if image is not None:
        features["image/encoded"] = _feature(image)
    if label is not None:
        features["image/class/label"] = _feature(label)
    return tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString()


def _feature(value):
    values = value if isinstance(value, list) else [value]
    if isinstance(values[0], bytes):
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=values))
    if isinstance(values[0], float):
        return tf.train.Feature(float_list=tf.train.FloatList(value=values))
    return tf.train.Feature(int64_list=tf.train.Int64List(value=values))


def _png():
    return tf.io.encode_png(np.zeros([8, 8, 1], "uint8")).numpy()


def _tfrecord(
    records=lambda: [_record(_png(), number % 2) for number in range(4)], names="a\nb", harm=bytes, **options
):
    def write(place):
        with tf.io.TFRecordWriter(str(place / "train.tfrecord"), **options) as writer:
            for record in records():
                writer.write(record)
        path = place / "train.tfrecord"
        path.write_bytes(harm(path.read_bytes()))
        (place / "test.tfrecord").write_bytes(path.read_bytes())
        (place / "labels.txt").write_bytes(names if isinstance(names, bytes) else names.encode())
        return ["--dataset", "tfrecord", "--data-dir", place]

    return write


def _all(**changes):
    return _tfrecord(lambda: [_record(**{"image": _png(), "label": number % 2, **changes}) for number in range(4)])


_TFRECORDS = {
    "plain": _tfrecord(),
    "no records": _tfrecord(list),
    "no image": _all(image=None),
    "no label": _all(label=None),
    "two labels": _all(label=[0, 1]),
    "a label of bytes": _all(label=b"0"),
    "a label of a float": _all(label=0.0),
    "a label beyond the classes": _all(label=7),
    "a label below 0": _all(label=-(2**63)),
    "two images": lambda place: _all(image=[_png(), _png()])(place),
    "an image of nothing": _all(image=b""),
    "an image of text": _all(image=b"text"),
    "an image that claims gigabytes": lambda place: _all(image=_png()[:16] + b"\x7f\xff\xff\xff" * 2 + _png()[24:])(
        place
    ),
    "records of nothing": _tfrecord(lambda: [b""] * 4),
    "records of noise": _tfrecord(lambda: [random.Random(1).randbytes(100)] * 4),
    "torn": _tfrecord(harm=lambda content: content[:-9]),
    "a flipped bit": _tfrecord(harm=lambda content: content[:40] + bytes([content[40] ^ 1]) + content[41:]),
    "a length of exabytes": _tfrecord(harm=lambda content: b"\xff" * 7 + b"\x7f" + content[8:]),
    "compressed": _tfrecord(options="GZIP"),
    "no class names": _tfrecord(names=""),
    "one class name": _tfrecord(names="a"),
    "class names with escapes": _tfrecord(names="a\n\x1b[1mb"),
    "class names that are not UTF-8": _tfrecord(names=b"a\n\xff\xfe"),
    "equal class names": _tfrecord(names="a\na"),
}


# Weights.


def _weights(harm):
    def write(place):
        path = place / "weights.h5"
        model = models.build_model("small_cnn", image_size=(16, 16), num_classes=2)
        model.save_weights(path)
        harm(path, [layer.name for layer in model.layers if layer.weights])
        return ["--dataset", "images", "--data-dir", "images", "--weights", path]

    return write


def _in_file(change):
    def harm(path, layers):
        with h5py.File(path, "a") as file:
            kernel = next(name for name in _names(file) if name.endswith("kernel:0"))
            change(file, kernel)

    return _weights(harm)


def _names(file):
    names = []
    file.visit(names.append)
    return names


def _replaced(make):
    def change(file, kernel):
        shape = file[kernel].shape
        del file[kernel]
        make(file, kernel, shape)

    return _in_file(change)


def _bytes(change):
    return _weights(lambda path, layers: path.write_bytes(change(path.read_bytes())))


def _virtual(file, name, shape):
    layout = h5py.VirtualLayout(shape, "f4")
    layout[...] = h5py.VirtualSource("/etc/passwd", "a", shape)
    file.create_virtual_dataset(name, layout)


def _strange_names(file, kernel):
    group = file[kernel.split("/")[0]]
    group.attrs["weight_names"] = [b"../../nowhere", b"/\x1b[1m"]


_WEIGHTS = {
    "plain": _bytes(bytes),
    "empty": _bytes(lambda content: b""),
    "only the signature": _bytes(lambda content: content[:8]),
    "torn": _bytes(lambda content: content[: len(content) // 2]),
    "flipped bits": _bytes(
        lambda content: content[:3000] + bytes(b ^ 255 for b in content[3000:3600]) + content[3600:]
    ),
    "no groups": _weights(lambda path, layers: h5py.File(path, "w").close()),
    "other shapes": _replaced(lambda file, name, shape: file.create_dataset(name, data=np.zeros([2, *shape]))),
    "a huge shape": _replaced(lambda file, name, shape: file.create_dataset(name, (10**6, 10**6, 10**3), "f4")),
    "a huge shape in chunks": _replaced(
        lambda file, name, shape: file.create_dataset(name, (10**6, 10**6), "f4", chunks=(100, 100), fillvalue=1)
    ),
    "a cyclic link": _replaced(lambda file, name, shape: file.__setitem__(name, h5py.SoftLink(f"/{name}"))),
    "a group in itself": _in_file(lambda file, name: file.__setitem__(f"{name.split('/')[0]}/again", file["/"])),
    "an external link": _replaced(
        lambda file, name, shape: file.__setitem__(name, h5py.ExternalLink("/etc/passwd", "/a"))
    ),
    "an external file": _replaced(
        lambda file, name, shape: file.create_dataset(name, shape, "f4", external=[("/etc/passwd", 0, 10**6)])
    ),
    "a virtual dataset": _replaced(_virtual),
    "a device as external file": _replaced(
        lambda file, name, shape: file.create_dataset(name, shape, "f4", external=[("/dev/zero", 0, 10**6)])
    ),
    "structured": _replaced(lambda file, name, shape: file.create_dataset(name, shape, [("a", "f4"), ("b", "i4")])),
    "words": _replaced(lambda file, name, shape: file.create_dataset(name, shape, h5py.string_dtype())),
    "complex": _replaced(lambda file, name, shape: file.create_dataset(name, shape, "c16")),
    "references": _replaced(lambda file, name, shape: file.create_dataset(name, shape, h5py.ref_dtype)),
    "no space at all": _replaced(lambda file, name, shape: file.create_dataset(name, data=h5py.Empty("f4"))),
    "a scalar": _replaced(lambda file, name, shape: file.create_dataset(name, data=1.0)),
    "NaN": _replaced(lambda file, name, shape: file.create_dataset(name, data=np.full(shape, np.nan, "f4"))),
    "a group for an array": _replaced(lambda file, name, shape: file.create_group(name)),
    "strange names": _in_file(_strange_names),
    "attributes of another type": _in_file(lambda file, name: file.attrs.__setitem__("layer_names", 7)),
}

KINDS: dict[str, Callable[[Path], list]] = {
    **{f"a manifest: {name}": _manifest(content) for name, content in _MANIFESTS.items()},
    **{f"a manifest of numbers: {name}": _regression(content) for name, content in _NUMBERS.items()},
    **{f"an npz file: {name}": write for name, write in _NPZ.items()},
    **{f"TFRecords: {name}": write for name, write in _TFRECORDS.items()},
    **{f"weights: {name}": write for name, write in _WEIGHTS.items()},
}
