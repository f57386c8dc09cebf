"""Drawn pages with ruled tables and masks of their lines, for the segmentation recipe without a download."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import platformdirs
from PIL import Image, ImageDraw

from estimator_train.app.datasets.disk import whole_directory

MASKS = ("rows", "columns")
PAGES = 240

_SIDE = 512  # pixels


def directory() -> Path:
    """Returns the directory of `PAGES` pages in the user's cache, drawing them first if necessary."""
    home = Path(platformdirs.user_cache_dir("estimator_train"), "drawn_tables")
    if not home.is_dir():
        draw_pages(home, PAGES)
    return home


def draw_pages(home: str | os.PathLike[str], number: int) -> None:
    """Draws `home`/images/NAME.jpeg and `home`/masks/{rows,columns}/NAME.png, with the same bytes every time.

    The directory appears only when it is complete; see `disk.whole_directory`.

        >>> draw_pages("tables", 2)
        >>> sorted(os.listdir("tables/images"))
        ['page-0000.jpeg', 'page-0001.jpeg']
    """
    with whole_directory(Path(home)) as unfinished:
        for name in ("images", *(f"masks/{mask}" for mask in MASKS)):
            (unfinished / name).mkdir(parents=True)

        def draw(index):
            page, *masks = draw_page(np.random.default_rng(index))
            page.save(unfinished / "images" / f"page-{index:04}.jpeg", quality=90)
            for name, mask in zip(MASKS, masks, strict=True):
                mask.save(unfinished / "masks" / name / f"page-{index:04}.png")

        with ThreadPoolExecutor(os.cpu_count()) as threads:
            list(threads.map(draw, range(number)))


def draw_page(rng: np.random.Generator) -> tuple[Image.Image, ...]:
    """Draws a page of 512 x 512 pixels with a `numpy.random.Generator`.

        >>> page, rows, columns = draw_page(np.random.default_rng(0))
        >>> page.size
        (512, 512)

    Returns:
      Three Pillow images: the RGB page, and black-and-white masks of the lines between rows and between columns.
    """
    page = Image.new("L", (_SIDE, _SIDE), int(rng.integers(215, 250)))
    masks = [Image.new("L", (_SIDE, _SIDE)) for _ in MASKS]
    left, top, right, bottom = rng.integers([20, 40, 400, 380], [110, 130, 492, 492])
    xs, ys = _places(rng, left, right, rng.integers(2, 7)), _places(rng, top, bottom, rng.integers(3, 9))

    draw = ImageDraw.Draw(page)
    for y in (top - 24, bottom + 14, *ys[:-1] + 14):  # a heading, a line below the table, and the cells
        for x, end in zip(xs[:-1], xs[1:], strict=True):
            if rng.random() < 0.8:
                _write(rng, draw, x + 10, y, end - 8)
    ink, width = int(rng.integers(30, 120)), int(rng.integers(8, 13))
    lines = [[(left, y, right, y) for y in ys], [(x, top, x, bottom) for x in xs]]
    for mask, mask_lines in zip(masks, lines, strict=True):
        for line in mask_lines:
            draw.line(line, ink, width)
            ImageDraw.Draw(mask).line(line, 255, width)

    angle = rng.uniform(-3, 3)
    page = page.rotate(angle, Image.Resampling.BILINEAR, fillcolor=int(np.median(np.asarray(page))))
    masks = [mask.rotate(angle, Image.Resampling.BILINEAR).point(lambda value: 255 * (value > 127)) for mask in masks]
    return _scan(rng, page), *masks


def _places(rng, start, end, number):
    """Returns the starts of `number` rows or columns and the end of the last; no two have the same size."""
    sizes = rng.uniform(1, 2, number)
    return (start + (end - start) * np.cumsum([0, *sizes]) / sizes.sum()).astype(int)


def _write(rng, draw, x, y, end):
    """Draws strokes in groups, like words, from `x` to somewhere before `end`."""
    end = x + (end - x) * rng.uniform(0.3, 1)
    while x < end - 4:
        if rng.random() < 0.8:
            draw.line((x, y + rng.integers(0, 5), x + rng.integers(-2, 4), y + 12), int(rng.integers(40, 110)), 2)
        x += rng.integers(4, 7)


def _scan(rng, page):
    """Returns the page as a noisy color scan in uneven light."""
    across = np.linspace(-1, 1, _SIDE, dtype=np.float32)
    light = 1 + rng.uniform(-0.12, 0.12) * across + rng.uniform(-0.12, 0.12) * across[:, np.newaxis]
    noise = rng.uniform(2, 8) * rng.standard_normal((_SIDE, _SIDE), np.float32)
    grey = np.asarray(page) * light + noise
    bands = [(grey * rng.uniform(0.92, 1)).clip(0, 255).astype(np.uint8) for _ in range(3)]
    return Image.merge("RGB", [Image.fromarray(band) for band in bands])
