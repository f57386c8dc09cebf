"""Drawn faces of cats and dogs, the default data of the recipe cats_vs_dogs, which needs no download."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from PIL import Image, ImageDraw

from estimator_train.app.datasets.dataset import Dataset
from estimator_train.app.datasets.part import Part

if TYPE_CHECKING:
    import tensorflow as tf

CLASS_NAMES = ("cats", "dogs")

_FINER = 2  # draw at this multiple of the size and scale down, which smooths the edges


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class DrawnPets(Part):
    """As many cats as dogs, each drawn from its number, at the requested image size, and kept in memory."""

    class_names: Sequence[str] = CLASS_NAMES
    numbers: range

    @property
    def count(self) -> int:
        return len(self.numbers)

    def input_fn(self, image_size: tuple[int, int], **options: Any) -> Callable[..., tf.data.Dataset]:
        import tensorflow as tf

        from estimator_train.app.datasets.pipeline import ExampleBatches, as_model_input

        @functools.cache
        def drawn():
            labels = [number % len(CLASS_NAMES) for number in self.numbers]
            rngs = [np.random.default_rng(number) for number in self.numbers]
            images = [draw_pet(CLASS_NAMES[label], image_size, rng) for label, rng in zip(labels, rngs, strict=True)]
            return np.stack(images), np.array(labels)

        def load(image, label):
            return as_model_input(image, label, image_size, len(CLASS_NAMES))

        return ExampleBatches(lambda: tf.data.Dataset.from_tensor_slices(drawn()), load, **options)


def open_dataset() -> Dataset:
    """Returns the dataset, with the same faces every time.

    >>> open_dataset().class_names
    ('cats', 'dogs')
    """
    return Dataset(
        name="drawn_pets",
        class_names=CLASS_NAMES,
        default_model="mobilenet_v2",
        default_epochs=5,
        image_size=(224, 224),
        train=DrawnPets(numbers=range(320)),  # five steps of 64
        eval=DrawnPets(numbers=range(320, 384)),
    )


def draw_pet(class_name: str, image_size: tuple[int, int], rng: np.random.Generator) -> np.ndarray:
    """Returns a face of one of `CLASS_NAMES`, uint8 RGB of shape (*image_size, 3), drawn with a NumPy Generator.

    Cats have pointed, upright ears and whiskers; dogs have floppy ears and a long muzzle. Everything else is random.

        >>> draw_pet("cats", (64, 64), np.random.default_rng(0)).shape
        (64, 64, 3)
    """
    height, width = (_FINER * side for side in image_size)
    colors = rng.integers(40, 220, (2, 3))
    image = Image.new("RGB", (width, height), tuple(map(int, colors[0])))
    draw = ImageDraw.Draw(image)
    unit = min(height, width) * rng.uniform(0.2, 0.28)  # the radius of the face
    centre = np.array([width, height]) * rng.uniform(0.42, 0.58, 2)
    fur, dark = tuple(map(int, colors[1])), tuple(int(part) // 3 for part in colors[1])

    def at(x, y):
        return tuple(centre + unit * np.array([x, y]))

    def ellipse(x, y, radius_x, radius_y, color):
        draw.ellipse([at(x - radius_x, y - radius_y), at(x + radius_x, y + radius_y)], fill=color)

    if class_name == "cats":
        for side in (-1, 1):
            draw.polygon([at(side * 0.95, -0.2), at(side * 0.25, -0.9), at(side * 0.95, -1.6)], fill=fur)
    ellipse(0, 0, 1, 1, fur)
    for side in (-1, 1):
        ellipse(side * 0.4, -0.2, 0.16, 0.16, (250, 250, 240))
        ellipse(side * 0.4, -0.2, 0.08, 0.12, (10, 10, 10))
    if class_name == "cats":
        for side in (-1, 1):
            for down in (-0.15, 0, 0.15):
                draw.line([at(side * 0.2, 0.4), at(side * 1.3, 0.4 + 2 * down)], fill=dark, width=_FINER)
        ellipse(0, 0.3, 0.1, 0.08, (200, 110, 120))
    else:
        ellipse(0, 0.55, 0.45, 0.6, tuple((part + 255) // 2 for part in fur))
        ellipse(0, 0.25, 0.2, 0.14, (20, 15, 15))
        for side in (-1, 1):
            ellipse(side * 1.0, 0.1, 0.28, 0.8, dark)
    return np.asarray(image.reduce(_FINER))
