"""Mutated images: each is read as it should be or left out by name, and none ends the process.

python -m tests.faults.images FOLDER checks the files in FOLDER/image, which `run` has written, in this process.
"""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
import zlib
from pathlib import Path

import numpy as np
import tensorflow as tf
from PIL import Image

from estimator_train.input_fns import image_files
from tests.faults.runs import Row

LABEL = "image"
READ, LEFT_OUT, EITHER = "read", "left out", "either"
_OPTIONS = {"labels": [LABEL], "image_size": (8, 8), "num_epochs": 1}
_AT_ONCE = 100  # files a process
_ROOT = Path(__file__).parents[2]


def run(count: int, seed: int, folder: str | os.PathLike[str]) -> list[Row]:
    """Reads `count` images in `folder`, a hundred in each process; returns their `Row`s.

    A fault is a process that crashes or hangs, a wrong count, or a file that is left out without being named.
    """
    rows = []
    for start in range(0, count, _AT_ONCE):
        part = Path(folder, f"{start:06}").absolute()
        write(part, range(start, min(start + _AT_ONCE, count)), seed)
        command = [sys.executable, "-m", "tests.faults.images", str(part)]
        child = subprocess.run(command, capture_output=True, text=True, errors="replace", cwd=_ROOT, timeout=900)
        if child.returncode:
            rows.append(Row("all in a process", "", f"exit code {child.returncode}: {child.stderr[-500:]}"))
        else:
            rows += [Row(*row) for row in json.loads(child.stdout.splitlines()[-1])]
    return rows


def write(folder, numbers, seed):
    """Writes image number n of each of `numbers`, of kind n modulo the kinds, as folder/image/n.KIND.jpeg."""
    folder = Path(folder, LABEL)
    folder.mkdir(parents=True)
    for number in numbers:
        kind = list(KINDS)[number % len(KINDS)]
        path = folder / f"{number:06}.{kind}.jpeg"
        make, _ = KINDS[kind]
        content = make(np.random.default_rng([seed, number]), path)
        if content is not None:
            path.write_bytes(content)


def check(folder, every=1):
    """Reads the files in folder/image together with on_error="skip", and one in `every` alone; returns `Row`s."""
    paths = sorted(str(path) for path in Path(folder, LABEL).iterdir())
    skipping = image_files(paths, **_OPTIONS, batch_size=16, on_error="skip")
    given = sum(len(images) for images, _ in skipping())
    rows = []
    for number, path in enumerate(paths):
        kind = os.path.basename(path).split(".")[1]
        outcome, expected = LEFT_OUT if path in skipping.skipped else READ, KINDS[kind][1]
        fault = None if expected in (outcome, EITHER) else f"{path} is {outcome}"
        if fault is None and number % every == 0:
            fault = _fault_alone(path, outcome)
        rows.append(Row(kind, outcome, fault))
    if given + len(skipping.skipped) != len(paths):
        numbers = f"{given} read and {len(skipping.skipped)} left out of {len(paths)}"
        rows.append(Row("all in a process", "", f"{folder}: {numbers}"))
    return rows


def _fault_alone(path, outcome):
    try:
        read = sum(len(images) for images, _ in image_files([path], **_OPTIONS)())
    except (tf.errors.InvalidArgumentError, ValueError) as error:
        return None if outcome == LEFT_OUT and path in str(error) else f"{path}, which others skip or read: {error}"
    return None if (outcome, read) == (READ, 1) else f"{path} is {outcome} among others, alone {read} images are read"


def _pixels(rng, channels=3, size=(24, 32)):
    return np.squeeze(rng.integers(0, 256, (*size, channels), np.uint8))


def _encoded(image, file_format, **options):
    file = io.BytesIO()
    image.save(file, file_format, **options)
    return file.getvalue()


def _jpeg(rng, channels=3, **options):
    return _encoded(Image.fromarray(_pixels(rng, channels)), "JPEG", **options)


def _png(rng, channels=3, **options):
    return _encoded(Image.fromarray(_pixels(rng, channels)), "PNG", **options)


def _frames(rng, file_format, count=3, **options):
    first, *others = [Image.fromarray(_pixels(rng)) for _ in range(count)]
    return _encoded(first, file_format, save_all=True, append_images=others, **options)


def _cut(content, share):
    return content[: int(len(content) * share)]


def _flip(rng, content, first=0, last=None, bits=1):
    changed = bytearray(content)
    for _ in range(bits):
        changed[rng.integers(first, last or len(content))] ^= 1 << rng.integers(8)
    return bytes(changed)


def _swapped(rng, content):
    a, b, c, d = sorted(rng.choice(len(content), 4, replace=False))
    return content[:a] + content[c:d] + content[b:c] + content[a:b] + content[d:]


def _png_chunk(name, content):
    return len(content).to_bytes(4, "big") + name + content + zlib.crc32(name + content).to_bytes(4, "big")


def _png_of(width, height, bits=8, colour=0, rows=b"", interlaced=0):
    header = b"".join(number.to_bytes(4, "big") for number in (width, height))
    header += bytes([bits, colour, 0, 0, interlaced])
    data = _png_chunk(b"IDAT", zlib.compress(rows))
    return b"\x89PNG\r\n\x1a\n" + _png_chunk(b"IHDR", header) + data + _png_chunk(b"IEND", b"")


def _jpeg_of(rng, height, width):
    return re.sub(
        rb"(\xff\xc0\x00.\x08).{4}",
        lambda match: match[1] + height.to_bytes(2, "big") + width.to_bytes(2, "big"),
        _jpeg(rng),
        count=1,
        flags=re.DOTALL,
    )


def _with_comment(content, size):
    comment = b"\xff\xfe" + (65535).to_bytes(2, "big") + bytes(65533)
    return content[:2] + comment * (size // 65535) + content[2:]


def _interlaced(rng):
    # One pixel has only the first of the seven passes: a filter byte and the pixel.
    return _png_of(1, 1, rows=bytes([0, rng.integers(256)]), interlaced=1)


def _folder(rng, path):
    path.mkdir()


def _pipe(rng, path):
    os.mkfifo(path)


def _dangling(rng, path):
    path.symlink_to(path.with_name("nowhere"))


def _linked(rng, path):
    target = path.parent.with_name(f"target of {path.name}")
    target.write_bytes(_jpeg(rng))
    path.symlink_to(Path("..", target.name))


def _exif(rng):
    exif = Image.Exif()
    exif[0x0112] = 6  # turned by 90 degrees
    return _jpeg(rng, exif=exif)


def _of(make):
    """For makers that need no path."""
    return lambda rng, path: make(rng)


KINDS = {
    "jpeg": (_of(_jpeg), READ),
    "gray jpeg": (_of(lambda rng: _jpeg(rng, 1)), READ),
    "progressive jpeg": (_of(lambda rng: _jpeg(rng, progressive=True)), READ),
    "subsampled jpeg": (_of(lambda rng: _jpeg(rng, subsampling=2, quality=5)), READ),
    "cmyk jpeg": (_of(lambda rng: _encoded(Image.fromarray(_pixels(rng, 4), "CMYK"), "JPEG")), READ),
    "exif jpeg": (_of(_exif), READ),
    "jpeg with large comment": (_of(lambda rng: _with_comment(_jpeg(rng), 3_000_000)), READ),
    "jpeg and garbage": (_of(lambda rng: _jpeg(rng) + rng.bytes(500)), READ),
    "two jpegs": (_of(lambda rng: _jpeg(rng) + _jpeg(rng)), READ),
    "png": (_of(_png), READ),
    "gray png": (_of(lambda rng: _png(rng, 1)), READ),
    "alpha png": (_of(lambda rng: _png(rng, 4)), READ),
    "gray alpha png": (_of(lambda rng: _png(rng, 2)), READ),
    "16-bit png": (_of(lambda rng: _encoded(Image.fromarray(_pixels(rng, 1).astype(np.uint16) * 257), "PNG")), READ),
    "1-bit png": (_of(lambda rng: _encoded(Image.fromarray(_pixels(rng, 1) > 99), "PNG")), READ),
    "palette png": (_of(lambda rng: _encoded(Image.fromarray(_pixels(rng)).quantize(16), "PNG")), READ),
    "interlaced png": (_of(_interlaced), READ),
    "png and garbage": (_of(lambda rng: _png(rng) + rng.bytes(500)), READ),
    "link to a jpeg": (_linked, READ),
    "jpeg cut at the start": (_of(lambda rng: _cut(_jpeg(rng), 0.05)), LEFT_OUT),
    "jpeg cut in the middle": (_of(lambda rng: _cut(_jpeg(rng), 0.6)), LEFT_OUT),
    "jpeg cut anywhere": (_of(lambda rng: _cut(_jpeg(rng), rng.random())), EITHER),
    "png cut in the header": (_of(lambda rng: _png(rng)[: rng.integers(8, 33)]), LEFT_OUT),
    "png cut in the middle": (_of(lambda rng: _cut(_png(rng), 0.6)), LEFT_OUT),
    "png cut anywhere": (_of(lambda rng: _cut(_png(rng), rng.random())), EITHER),
    "jpeg with a flipped bit": (_of(lambda rng: _flip(rng, _jpeg(rng))), EITHER),
    "jpeg with flipped bits in the header": (_of(lambda rng: _flip(rng, _jpeg(rng), 2, 180, 5)), EITHER),
    "jpeg with flipped bits in the data": (_of(lambda rng: _flip(rng, _jpeg(rng), 700, None, 20)), EITHER),
    "png with a flipped bit": (_of(lambda rng: _flip(rng, _png(rng))), EITHER),
    "png with a flipped bit in the size": (_of(lambda rng: _flip(rng, _png(rng), 16, 24)), EITHER),
    "jpeg with swapped parts": (_of(lambda rng: _swapped(rng, _jpeg(rng))), EITHER),
    "png with swapped parts": (_of(lambda rng: _swapped(rng, _png(rng))), EITHER),
    "jpeg behind garbage": (_of(lambda rng: b"garbage" + _jpeg(rng)), LEFT_OUT),
    "jpeg of arithmetic coding": (_of(lambda rng: _jpeg(rng).replace(b"\xff\xc0", b"\xff\xc9", 1)), EITHER),
    "jpeg of 65500 x 65500": (_of(lambda rng: _jpeg_of(rng, 65500, 65500)), LEFT_OUT),
    "jpeg of 10000 x 9000": (_of(lambda rng: _jpeg_of(rng, 10000, 9000)), LEFT_OUT),
    "jpeg without height": (_of(lambda rng: _jpeg_of(rng, 0, 32)), LEFT_OUT),
    "png of 14000 x 14000": (_of(lambda rng: _png_of(14000, 14000, rows=bytes(10**6))), LEFT_OUT),
    "png of 2147483647 x 2147483647": (_of(lambda rng: _png_of(2**31 - 1, 2**31 - 1)), LEFT_OUT),
    "png of 4294967295 x 1": (_of(lambda rng: _png_of(2**32 - 1, 1)), LEFT_OUT),
    "png of 0 x 0": (_of(lambda rng: _png_of(0, 0)), LEFT_OUT),
    "png that starts with another chunk": (
        _of(lambda rng: _png(rng)[:8] + _png_chunk(b"tEXt", b"a\0b") + _png(rng)[8:]),
        LEFT_OUT,
    ),
    "webp": (_of(lambda rng: _frames(rng, "WEBP", 1)), READ),
    "animated webp": (_of(lambda rng: _frames(rng, "WEBP", rng.integers(2, 9))), LEFT_OUT),
    "gif": (_of(lambda rng: _frames(rng, "GIF", 1)), READ),
    "animated gif": (_of(lambda rng: _frames(rng, "GIF")), READ),
    "bmp": (_of(lambda rng: _encoded(Image.fromarray(_pixels(rng)), "BMP")), READ),
    "tiff": (_of(lambda rng: _encoded(Image.fromarray(_pixels(rng)), "TIFF")), READ),
    "avif header": (_of(lambda rng: b"\0\0\0 ftypavif\0\0\0\0avifmif1miaf" + rng.bytes(300)), LEFT_OUT),
    "empty": (_of(lambda rng: b""), LEFT_OUT),
    "signature of a jpeg": (_of(lambda rng: b"\xff\xd8\xff"), LEFT_OUT),
    "signature of a png": (_of(lambda rng: b"\x89PNG\r\n\x1a\n"), LEFT_OUT),
    "text": (_of(lambda rng: b"not an image\n"), LEFT_OUT),
    "html": (_of(lambda rng: b"<!DOCTYPE html><html><body>404 Not Found</body></html>"), LEFT_OUT),
    "noise": (_of(lambda rng: rng.bytes(3000)), LEFT_OUT),
    "zeros": (_of(lambda rng: bytes(3000)), LEFT_OUT),
    "folder": (_folder, LEFT_OUT),
    "pipe": (_pipe, LEFT_OUT),
    "dangling link": (_dangling, LEFT_OUT),
}


if __name__ == "__main__":
    print(json.dumps(check(sys.argv[1])))
