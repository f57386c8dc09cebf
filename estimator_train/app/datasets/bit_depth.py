"""Finds images of 16 bits that use the lower bits alone, such as the 12 bits of a camera, and so are nearly black."""

import contextlib
from collections.abc import Sequence

from estimator_train._engine.host.paths import is_remote

_SUFFIXES = (".png", ".tif", ".tiff")  # of the formats that may have 16 bits
_LOOKED_AT = 8
_DARK = 2**14  # a quarter of white
_BITS_PER_SAMPLE = 258  # the tag of a TIFF


def brightest_if_dark(paths: Sequence[str]) -> int | None:
    """Returns the highest value in some images, if they are local, gray, of 16 bits and darker than a quarter, or None.

    >>> from PIL import Image
    >>> Image.fromarray(np.full((8, 8), 4095, np.uint16)).save("12 bits.png")
    >>> brightest_if_dark(["12 bits.png"])
    4095
    """
    paths = [path for path in paths if path.lower().endswith(_SUFFIXES) and not is_remote(path)]
    highest = [_highest_of_16_bits(path) for path in paths[:: max(1, len(paths) // _LOOKED_AT)][:_LOOKED_AT]]
    brightest = max((value for value in highest if value is not None), default=_DARK)
    if brightest >= _DARK:
        return None
    return brightest


def _highest_of_16_bits(path: str) -> int | None:
    import numpy as np  # the command answers --help without them
    from PIL import Image

    with contextlib.suppress(OSError, SyntaxError, ValueError), Image.open(path) as image:  # it may be damaged
        bits = max(getattr(image, "tag_v2", {}).get(_BITS_PER_SAMPLE, (16,)))
        if image.mode.startswith("I") and bits == 16:  # Pillow before 11 opens a PNG of 16 bits with the mode I
            return int(np.asarray(image).max())
    return None
