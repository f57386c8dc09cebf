"""Images of 16 bits that use the lower bits alone."""

import numpy as np
import pytest
from PIL import Image

from estimator_train.app.datasets.bit_depth import brightest_if_dark


def saved(path, brightest, dtype=np.uint16):
    Image.fromarray(np.arange(brightest + 1, dtype=dtype)[np.newaxis]).save(path)
    return str(path)


@pytest.mark.parametrize("ending", ["png", "tif"])
def test_12_bits_in_images_of_16_bits_are_noticed(tmp_path, ending):
    dark = [saved(tmp_path / f"{number}.{ending}", 4000 + number) for number in range(3)]
    (tmp_path / "damaged.png").write_bytes(b"")
    assert brightest_if_dark([*dark, str(tmp_path / "damaged.png"), "gs://bucket/1.png"]) == 4002
    assert brightest_if_dark([*dark, saved(tmp_path / f"bright.{ending}", 65535)]) is None
    assert brightest_if_dark([saved(tmp_path / f"8 bits.{ending}", 9, np.uint8)]) is None
