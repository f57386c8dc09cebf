"""Draws OCT scans as grayscale JPEGs of 512 x 496 pixels and about 50 kB, without TensorFlow, for all sides."""

import os

QUALITY = 70
CLASSES = ["CNV", "DME", "DRUSEN", "NORMAL"]


def draw(folder, count):
    """Draws `folder`/<class>/<number>.jpeg, identical every time; returns the average file size in bytes."""
    import numpy as np
    from PIL import Image

    from estimator_train.app.datasets.synthetic_oct import CLASS_NAMES, draw_image

    num_bytes = 0
    for index in range(count):
        name = CLASS_NAMES[index % len(CLASS_NAMES)]
        path = folder / name / f"{index}.jpeg"
        path.parent.mkdir(exist_ok=True)
        Image.fromarray(draw_image(name, np.random.default_rng(index))).save(path, quality=QUALITY)
        num_bytes += path.stat().st_size
    return num_bytes // count


def load(path):
    """Reads a scan with Pillow; returns it as float32 RGB of 224 x 224 in [0, 1], and the index of its class."""
    import numpy as np
    from PIL import Image

    with Image.open(path) as image:
        resized = image.convert("RGB").resize((224, 224), Image.Resampling.BILINEAR)
    return np.asarray(resized, np.float32) / np.float32(255), CLASSES.index(path.split(os.sep)[-2])
