"""An image of each format and mode: trained on, evaluated with pictures, reported, predicted, exported and served."""

import json
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from estimator_train.app.running.build import build_estimator
from estimator_train.app.runs import run_file
from estimator_train.input_fns.images.decoding import decode_image

PIXELS = np.kron(np.random.default_rng(5).integers(0, 256, (5, 6, 4)), np.ones((8, 8, 1))).astype(np.uint8)
COLOUR, ALPHA = Image.fromarray(PIXELS[..., :3]), Image.fromarray(PIXELS)
GRAY, PALETTE, BITS = COLOUR.convert("L"), COLOUR.quantize(16), COLOUR.convert("1")
OF_16_BITS = Image.fromarray(PIXELS[..., 0].astype(np.uint16) * 257)

IMAGES = {
    "gray.jpg": (GRAY, {}),
    "colour.jpg": (COLOUR, {}),
    "cmyk.jpg": (Image.fromarray(PIXELS, "CMYK"), {}),
    "bits.png": (BITS, {}),
    "gray.png": (GRAY, {}),
    "16 bits.png": (OF_16_BITS, {}),
    "colour.png": (COLOUR, {}),
    "alpha.png": (ALPHA, {}),
    "palette.png": (PALETTE, {}),
    "transparent.png": (PALETTE, {"transparency": 3}),
    "colour.tif": (COLOUR, {"compression": "tiff_lzw"}),
    "16 bits.tif": (OF_16_BITS, {}),
    "palette.tif": (PALETTE, {}),
    "colour.webp": (COLOUR, {}),
    "alpha.webp": (ALPHA, {"lossless": True}),
    "bits.bmp": (BITS, {}),
    "palette.bmp": (PALETTE, {}),
    "colour.bmp": (COLOUR, {}),
    "palette.gif": (PALETTE, {}),
    "transparent.gif": (PALETTE, {"transparency": 3}),
    "animated.gif": (PALETTE, {"save_all": True, "append_images": [PALETTE.rotate(180)]}),
}


@pytest.fixture
def folder(tmp_path):
    """All images in the training folders of both classes, and in those to evaluate on."""
    for side in ("train", "test"):
        for class_name in ("cat", "dog"):
            (tmp_path / "images" / side / class_name).mkdir(parents=True)
            for name, (image, options) in IMAGES.items():
                image.save(tmp_path / "images" / side / class_name / name, **options)
    return tmp_path / "images"


@pytest.mark.slow
def test_each_format_is_trained_evaluated_reported_predicted_and_served(command, folder, tmp_path):
    run = tmp_path / "run"
    flags = ["--dataset", "images", "--data-dir", folder, "--model", "small_cnn", "--image-size", "24"]
    code, output, errors = command(*flags, "--batch-size", "8", "--epochs", "1", "--seed", "1", "--model-dir", run)
    assert code == 0 and "cannot be" not in errors
    assert "accuracy 0.5000" in output  # both classes have the same images
    assert len((run / "predictions.csv").read_text().splitlines()) == 1 + 2 * len(IMAGES)
    assert command("report", "--model-dir", run)[0] == 0
    assert "data:image" in (run / "report" / "report.html").read_text()

    code, output, errors = command("predict", "--model-dir", run, "--json", folder / "test" / "cat")
    predicted = {Path(each["file"]): list(each["probabilities"].values()) for each in json.loads(output)}
    assert (code, errors, len(predicted)) == (0, "", len(IMAGES))

    assert command("export", "--model-dir", run, "--format", "saved_model", "--out", tmp_path / "export")[0] == 0
    (version,) = (tmp_path / "export").iterdir()
    exported = tf.saved_model.load(str(version)).signatures["serving_default"]
    refused = {".tif"} | ({".webp"} if not hasattr(tf.io, "decode_webp") else set())
    settings = run_file.spec_in(run).settings
    service = build_estimator(settings, str(run)).predictor()
    for path, expected in predicted.items():
        content = tf.constant(path.read_bytes())
        (served,) = service(decode_image(content, settings.image_size)[tf.newaxis]).values()
        np.testing.assert_allclose(served[0], expected, atol=1e-5, err_msg=path.name)
        if path.suffix in refused:
            with pytest.raises(tf.errors.InvalidArgumentError):
                exported(image_bytes=content[tf.newaxis])
        else:
            (answer,) = exported(image_bytes=content[tf.newaxis]).values()
            np.testing.assert_allclose(answer[0], expected, atol=1e-5, err_msg=path.name)
