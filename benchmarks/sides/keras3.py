"""Keras 3 on TensorFlow."""

import functools
import os

os.environ["KERAS_BACKEND"] = "tensorflow"

import keras

from benchmarks.sides import fit
from benchmarks.sides import tensorflow_parts as parts
from benchmarks.sides.serve import serve

if __name__ == "__main__":
    serve({"flagship": functools.partial(fit.flagship, keras)}, ["tensorflow", "keras"], parts.device)
