"""Drawn faces of cats and dogs, for programs and tutorials without photographs."""

from typing import NamedTuple

import numpy as np
from PIL import Image, ImageDraw

CLASS_NAMES = ("cats", "dogs")

_SIDES = (-1, 1)  # left and right
_FINER = 2  # draw at this multiple of the size and scale down, which smooths the edges


def draw_pet(class_name: str, image_size: tuple[int, int], rng: np.random.Generator) -> np.ndarray:
    """Returns a face of one of `CLASS_NAMES`, uint8 RGB of shape (*image_size, 3), drawn with a NumPy Generator.

    Cats have pointed, upright ears and whiskers; dogs have floppy ears and a long muzzle. Everything else is random.

        >>> draw_pet("cats", (64, 64), np.random.default_rng(0)).shape
        (64, 64, 3)
    """
    height, width = (_FINER * side for side in image_size)
    paper, fur = (tuple(map(int, color)) for color in rng.integers(40, 220, (2, 3)))
    image = Image.new("RGB", (width, height), paper)
    radius = min(height, width) * rng.uniform(0.2, 0.28)
    centre = np.array([width, height]) * rng.uniform(0.42, 0.58, 2)
    face = _Face(ImageDraw.Draw(image), centre, radius)
    dark = tuple(part // 3 for part in fur)
    if class_name == "cats":
        for side in _SIDES:
            face.polygon([(side * 0.95, -0.2), (side * 0.25, -0.9), (side * 0.95, -1.6)], fur)
    face.ellipse(0, 0, 1, 1, fur)
    for side in _SIDES:
        face.ellipse(side * 0.4, -0.2, 0.16, 0.16, (250, 250, 240))
        face.ellipse(side * 0.4, -0.2, 0.08, 0.12, (10, 10, 10))
    if class_name == "cats":
        _draw_whiskers_and_nose(face, dark)
    else:
        _draw_muzzle_and_ears(face, fur, dark)
    return np.asarray(image.reduce(_FINER))


def _draw_whiskers_and_nose(face, dark):
    for side in _SIDES:
        for down in (-0.15, 0, 0.15):
            face.line([(side * 0.2, 0.4), (side * 1.3, 0.4 + 2 * down)], dark)
    face.ellipse(0, 0.3, 0.1, 0.08, (200, 110, 120))


def _draw_muzzle_and_ears(face, fur, dark):
    face.ellipse(0, 0.55, 0.45, 0.6, tuple((part + 255) // 2 for part in fur))
    face.ellipse(0, 0.25, 0.2, 0.14, (20, 15, 15))
    for side in _SIDES:
        face.ellipse(side * 1.0, 0.1, 0.28, 0.8, dark)


class _Face(NamedTuple):
    """Draws in units of the radius, from the centre."""

    draw: ImageDraw.ImageDraw
    centre: np.ndarray
    radius: float

    def polygon(self, corners, color):
        self.draw.polygon([self._at(*corner) for corner in corners], fill=color)

    def line(self, ends, color):
        self.draw.line([self._at(*end) for end in ends], fill=color, width=_FINER)

    def ellipse(self, x, y, radius_x, radius_y, color):
        corners = self._at(x - radius_x, y - radius_y), self._at(x + radius_x, y + radius_y)
        self.draw.ellipse(corners, fill=color)

    def _at(self, x, y):
        return tuple(self.centre + self.radius * np.array([x, y]))
