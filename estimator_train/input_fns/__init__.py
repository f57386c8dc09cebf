"""Functions that return input_fns for arrays in memory, image files and Python generators."""

from estimator_train._engine.host.generator_stream import Skipped
from estimator_train._engine.input_fns.frozen_features import frozen_features
from estimator_train.input_fns.arrays import arrays
from estimator_train.input_fns.augmentation import augmented
from estimator_train.input_fns.class_weights import class_weighted
from estimator_train.input_fns.generator import generator
from estimator_train.input_fns.images.image_files import image_files, labelled_images

__all__ = [
    "Skipped",
    "arrays",
    "augmented",
    "class_weighted",
    "frozen_features",
    "generator",
    "image_files",
    "labelled_images",
]
