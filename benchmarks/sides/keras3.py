"""Keras 3 on TensorFlow."""

import functools
import os

os.environ["KERAS_BACKEND"] = "tensorflow"

import keras

from benchmarks.sides import fit
from benchmarks.sides import tensorflow_parts as parts
from benchmarks.sides.serve import serve

if __name__ == "__main__":
    works = {name: functools.partial(getattr(fit, name), keras) for name in ("flagship", "fit_steps")}
    serve(works, ["tensorflow", "keras"], parts.device)
