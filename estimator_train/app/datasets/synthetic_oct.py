"""Drawn retinal OCT images, the default dataset: they look and train like OCT2017, without a download."""

import os
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import platformdirs
from PIL import Image
from tqdm import tqdm

from estimator_train._engine.host.paths import StrPath, local
from estimator_train.app.datasets.dataset import About, Dataset
from estimator_train.app.datasets.disk import whole_directory
from estimator_train.app.datasets.images import image_files, open_directory

CLASS_NAMES = ("CNV", "DME", "DRUSEN", "NORMAL")
ABOUT = About("retinal OCT, 4 classes", "1,000, 60 MB", "drawn on first use")
IMAGES_PER_CLASS = {"train": 200, "test": 50}

_HEIGHT, _WIDTH = 496, 512  # the size of most OCT2017 images

# From the vitreous down: layer, brightness out of 255, thickness in pixels away from the fovea.
_LAYERS = (
    ("nerve fibres", 132, 7),
    ("ganglion cells", 98, 34),
    ("inner nuclear", 62, 13),
    ("outer plexiform", 94, 9),
    ("outer nuclear", 52, 28),
    ("ellipsoid", 150, 5),
    ("subretinal fluid", 16, 0),
    ("subretinal material", 138, 0),
    ("outer segments", 84, 7),
    ("epithelium", 204, 8),
    ("below the epithelium", 84, 0),
    ("Bruch's membrane", 140, 4),
    ("choroid", 74, 60),
    ("sclera", 38, 200),
)
_NAMES = [name for name, _, _ in _LAYERS]
_VITREOUS, _BEYOND = 32, 18


def open_dataset(data_dir: StrPath | None = None, *, seed: int = 0, draw: bool = True) -> Dataset:
    """Returns the dataset for `seed`, drawing it into `data_dir`, or the user's cache, if it is not there yet.

    Without `draw`, nothing is written; the dataset then lists the paths that the files will have.

        >>> open_dataset("scans", draw=False).train_examples
        800
    """
    about: dict[str, Any] = {
        "name": "synthetic_oct",
        "class_names": CLASS_NAMES,
        "default_model": "small_cnn",
        "default_epochs": 12,
        "image_size": (96, 96),
    }
    directory = local(data_dir or _home(seed))
    if draw or not _is_to_draw(directory):
        return open_directory(download(data_dir, seed=seed), **about)
    parts: dict[str, dict[str, list[str]]] = {split: {} for split in IMAGES_PER_CLASS}
    for path, class_name, _ in _drawings(directory, seed, IMAGES_PER_CLASS):
        parts[path.parts[-3]].setdefault(class_name, []).append(str(path))
    train, test = (image_files(CLASS_NAMES, directory / split, files) for split, files in parts.items())
    return Dataset(**about, train=train, eval=test)


def download(data_dir: StrPath | None = None, *, seed: int = 0) -> Path:
    """Draws the images for `seed` if they do not exist yet, see `open_dataset`, and returns their directory."""
    directory = local(data_dir or _home(seed))
    if _is_to_draw(directory):
        draw_dataset(directory, seed=seed)
    return directory


def is_here() -> bool:
    """Returns whether the images for seed 0 are in the user's cache."""
    return _home(0).is_dir()


def draw_dataset(directory: StrPath, *, seed: int = 0, images_per_class: Mapping[str, int] | None = None) -> None:
    """Draws `directory`/{train,test}/<CLASS>/<CLASS>-<patient>-1.jpeg; the same seed gives the same bytes.

    The directory appears only when it is complete; see `disk.whole_directory`.

        >>> draw_dataset("drawn", images_per_class={"train": 1, "test": 1})
        >>> sorted(os.listdir("drawn/train"))
        ['CNV', 'DME', 'DRUSEN', 'NORMAL']

    It must not exist yet, or be empty. `images_per_class` is {"train": number, "test": number}; None is
    `IMAGES_PER_CLASS`.
    """
    if seed < 0:
        raise ValueError(f"seed must be 0 or above, got {seed}")
    with whole_directory(Path(directory)) as unfinished:
        _draw_files(unfinished, seed, images_per_class or IMAGES_PER_CLASS)


def _home(seed):
    return Path(platformdirs.user_cache_dir("estimator_train"), "synthetic_oct", f"seed-{seed}")


def _is_to_draw(directory):
    return not directory.exists() or (directory.is_dir() and not any(directory.iterdir()))


def _drawings(directory, seed, images_per_class):
    """Yields (path, class name, key of the random generator) for every image."""
    for split, (split_name, number) in enumerate(images_per_class.items()):
        for label, class_name in enumerate(CLASS_NAMES):
            for index in range(number):
                path = directory / split_name / class_name / f"{class_name}-{(split + 1) * 100_000 + index}-1.jpeg"
                yield path, class_name, (seed, label, split, index)


def _draw_files(directory, seed, images_per_class):
    drawings = list(_drawings(directory, seed, images_per_class))
    for class_directory in {path.parent for path, *_ in drawings}:
        class_directory.mkdir(parents=True)

    def draw(drawing):
        path, class_name, key = drawing
        Image.fromarray(draw_image(class_name, np.random.default_rng(key))).save(path, quality=75)

    # Threads suffice because NumPy and Pillow release the GIL; processes would rerun a main script without a guard.
    with ThreadPoolExecutor(os.cpu_count()) as threads:
        progress = {"total": len(drawings), "desc": "drawing synthetic_oct", "disable": not sys.stderr.isatty()}
        for _ in tqdm(threads.map(draw, drawings), **progress):
            pass


def draw_image(class_name: str, rng: np.random.Generator) -> np.ndarray:
    """Returns a B-scan of one of `CLASS_NAMES`, uint8 of shape (496, 512), drawn with a `numpy.random.Generator`.

    >>> draw_image("CNV", np.random.default_rng(0)).shape
    (496, 512)
    """
    x = np.linspace(-1, 1, _WIDTH, dtype=np.float32)
    fovea = rng.uniform(-0.3, 0.3)
    layers = _healthy_layers(rng, x, fovea)
    spots = _LESIONS[class_name](rng, x, fovea, layers)  # (x, layer, how far down in it, radii, brightness)

    thickness = np.maximum([layers[name] for name in _NAMES], 0).astype(np.float32)
    tops = np.cumsum(thickness, axis=0) - thickness
    bend = rng.uniform(-40, 40) * x + rng.uniform(-15, 45) * (1 - x**2) + 3 * _noise(rng, 1, 6)
    tops += rng.uniform(230, 300) + bend - tops[_NAMES.index("Bruch's membrane")]

    image = _paint_layers(rng, tops, thickness)
    for at, layer, down, radii, brightness in spots:
        column = int(np.interp(at, [-1, 1], [0, _WIDTH - 1]))
        row = tops[_NAMES.index(layer), column] + down * thickness[_NAMES.index(layer), column]
        _paint_spot(image, row, column, radii, brightness)
    return _scan(rng, image, x)


def _healthy_layers(rng, x, fovea):
    """Returns the thickness in pixels of every layer at every x."""
    layers = {name: np.full(_WIDTH, pixels * rng.uniform(0.85, 1.15)) for name, _, pixels in _LAYERS}
    pit = _bump(x, fovea, rng.uniform(0.16, 0.26))
    rim = _bump(x, fovea, rng.uniform(0.5, 0.7))
    for name in ("nerve fibres", "ganglion cells", "inner nuclear", "outer plexiform"):
        layers[name] *= (0.75 + 0.45 * rim) * (1 - rng.uniform(0.8, 0.97) * pit)
    layers["nerve fibres"] *= 1 + rng.uniform(0.3, 1.4) * np.maximum(x - fovea, 0)  # thicker towards the optic nerve
    layers["outer nuclear"] *= 0.8 + 0.35 * rim
    layers["outer segments"] *= 1 + 0.5 * pit
    return layers


def _drusen(rng, x, fovea, layers):
    """Lifts the epithelium in several small bumps."""
    lift = np.zeros(_WIDTH)
    for _ in range(rng.integers(5, 11)):
        lift = np.maximum(lift, rng.uniform(9, 22) * _bump(x, fovea + rng.uniform(-0.7, 0.7), rng.uniform(0.025, 0.07)))
    layers["below the epithelium"] += lift
    layers["outer nuclear"] -= 0.8 * lift
    layers["outer segments"] -= 0.2 * lift
    return []


def _oedema(rng, x, fovea, layers):
    """Swells the retina around dark cysts, and adds bright dots of exudate."""
    centre, width = fovea + rng.uniform(-0.3, 0.3), rng.uniform(0.3, 0.5)
    swelling = rng.uniform(25, 55) * _bump(x, centre, width)
    layers["inner nuclear"] += 0.45 * swelling
    layers["outer nuclear"] += 0.55 * swelling
    spots = []
    for _ in range(rng.integers(5, 13)):
        at = centre + width * rng.uniform(-0.8, 0.8)
        size = rng.uniform(0.4, 1) * np.interp(at, x, swelling)
        layer = rng.choice(["inner nuclear", "outer nuclear"])
        radii = (size * rng.uniform(0.35, 0.6), size * rng.uniform(0.3, 0.5))
        spots.append((at, layer, rng.uniform(0.3, 0.6), radii, 14))
    return spots + _exudates(rng, centre, width)


def _neovascularisation(rng, x, fovea, layers):
    """Lifts and breaks the epithelium over a wide stretch, with fluid and bright material above it."""
    centre, width = fovea + rng.uniform(-0.4, 0.4), rng.uniform(0.2, 0.4)
    stretch = _bump(x, centre, width)
    before = sum(layers.values())
    hill = rng.uniform(20, 50) * stretch
    layers["below the epithelium"] += np.maximum(hill + stretch * (6 * _noise(rng, 1, 24) + 3 * _noise(rng, 1, 90)), 0)
    layers["epithelium"] *= np.maximum(1 + np.minimum(2 * stretch, 1) * (0.9 * _noise(rng, 1, 60) - 0.2), 0)
    layers["outer segments"] *= 1 - stretch
    layers["ellipsoid"] *= 1 - stretch
    material = rng.uniform(10, 22) * _bump(x, centre + 0.4 * width * rng.uniform(-1, 1), 0.6 * width)
    layers["subretinal material"] += material * np.maximum(1 + 0.3 * _noise(rng, 1, 50), 0)
    beside = centre + rng.choice([-1, 1]) * width
    fluid = rng.uniform(12, 28) * _bump(x, beside, rng.uniform(0.14, 0.26))
    layers["subretinal fluid"] += fluid
    # Irregularities below even out towards the inner surface.
    excess = sum(layers.values()) - before - 0.8 * hill - 0.8 * material - fluid
    inner = _NAMES[: _NAMES.index("ellipsoid")]
    squeeze = 1 - excess / sum(layers[name] for name in inner)
    for name in inner:
        layers[name] *= squeeze
    return _exudates(rng, centre, width)


def _exudates(rng, centre, width):
    return [
        (centre + width * rng.uniform(-1, 1), "outer plexiform", rng.uniform(-1, 3), (2.5, 3), 190)
        for _ in range(rng.integers(0, 8))
    ]


_LESIONS = {"CNV": _neovascularisation, "DME": _oedema, "DRUSEN": _drusen, "NORMAL": lambda *_: []}


def _paint_layers(rng, tops, thickness):
    rows = np.arange(_HEIGHT, dtype=np.float32)[:, None]
    depth = np.zeros((_HEIGHT, _WIDTH), np.float32)  # in layers: 2.5 is the middle of the third
    for top, pixels in zip(tops, np.maximum(thickness, 0.5), strict=True):
        first, end = max(int(top.min()), 0), max(int((top + pixels).max()) + 1, 0)
        depth[first:end] += np.clip((rows[first:end] - top) / pixels, 0, 1)
        depth[end:] += 1

    points = [(0, _VITREOUS)]
    for index, (name, brightness, _) in enumerate(_LAYERS):
        brightness *= rng.uniform(0.92, 1.08)
        points.append((index + 0.25, brightness))
        if name not in ("choroid", "sclera"):  # these fade
            points.append((index + 0.75, brightness))
    image = _look_up(depth, [*points, (len(_LAYERS), _BEYOND)])

    choroid = _NAMES.index("choroid")
    mottling = [(0, 0), (0.1, 0.1), (choroid, 0.1), (choroid + 0.1, 0.3), (choroid + 1, 0.1), (choroid + 2, 0)]
    image *= 1 + _look_up(depth, mottling) * _noise(rng, 60, 60)
    shadows = np.clip(_noise(rng, 1, 80) - 1.5, 0, 1) * rng.uniform(0, 0.6)  # cast by vessels on everything below
    image *= 1 - _look_up(depth, [(0, 0), (1, 0), (4, 1)]) * shadows
    return image


def _paint_spot(image, row, column, radii, brightness):
    height, width = radii
    top, left = max(int(row - height), 0), max(int(column - width), 0)
    patch = image[top : int(row + height) + 2, left : int(column + width) + 2]
    rows, columns = np.ogrid[top : top + patch.shape[0], left : left + patch.shape[1]]
    distance = ((rows - row) / height) ** 2 + ((columns - column) / width) ** 2
    patch += np.clip(2.5 * (1 - distance), 0, 1) * (brightness - patch)


def _scan(rng, image, x):
    """Returns the image as a scanner would show it: with speckle, contrast, and white borders from registration."""
    power = rng.standard_exponential((_HEIGHT + 1, _WIDTH + 1), np.float32)
    power = power[1:] + power[:-1]
    power = power[:, 1:] + power[:, :-1]
    # Speckle multiplies the power, and the image shows its logarithm.
    image = image * rng.uniform(0.8, 1.2) + rng.uniform(16, 34) * np.log(power / 4)
    rows = np.arange(_HEIGHT)[:, None]
    slope = rng.uniform(-20, 20) * x
    image[rows < rng.uniform(-60, 60) + slope] = 255
    image[rows > _HEIGHT - rng.uniform(-40, 40) + slope] = 255
    return np.clip(image[:, :: rng.choice([-1, 1])], 0, 255).astype(np.uint8)


def _look_up(depth, points):
    """Interpolates linearly between `points`, pairs (depth, value), at `depth`."""
    steps_per_layer = 32
    table = np.interp(np.arange(len(_LAYERS) * steps_per_layer + 1) / steps_per_layer, *zip(*points, strict=True))
    return table.astype(np.float32)[(depth * steps_per_layer).astype(np.intp)]


def _noise(rng, rows, columns):
    """Returns smooth noise of mean 0 and deviation about 1, of shape (1 or 496, 512), from a grid of rows x columns."""
    grid = Image.fromarray(rng.standard_normal((rows, columns), np.float32))
    if rows == 1:
        return np.asarray(grid.resize((_WIDTH, 1), Image.Resampling.BICUBIC))[0]
    return np.asarray(grid.resize((_WIDTH, _HEIGHT), Image.Resampling.BICUBIC))


def _bump(x, centre, width):
    return np.exp(-(((x - centre) / width) ** 2))
