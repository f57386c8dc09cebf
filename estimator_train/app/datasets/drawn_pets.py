"""Drawn faces of cats and dogs, for programs and tutorials without photographs."""

from __future__ import annotations

import numpy as np
from PIL import Image, ImageDraw

CLASS_NAMES = ("cats", "dogs")

_FINER = 2  # draw at this multiple of the size and scale down, which smooths the edges


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
