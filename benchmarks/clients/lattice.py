"""TensorFlow Lattice's canned Estimators for monotonic calibrated models."""

import os

import numpy as np
import tensorflow as tf
import tensorflow_lattice as tfl

from benchmarks.clients.case import from_arrays


def cases():
    lattice, linear = tfl.configs.CalibratedLatticeConfig, tfl.configs.CalibratedLinearConfig
    estimators = tfl.estimators
    return {
        "CannedClassifier": lambda folder: calibrated(estimators.CannedClassifier, lattice, folder),
        "CannedRegressor": lambda folder: calibrated(estimators.CannedRegressor, linear, folder),
    }


def calibrated(make, config, folder):
    os.makedirs(folder)  # Lattice writes its keypoints there before training
    features = {"x": np.linspace(0, 1, 64, dtype=np.float32), "z": np.linspace(1, 0, 64, dtype=np.float32) ** 2}
    labels = (features["x"] > 0.5).astype(np.int32 if make is tfl.estimators.CannedClassifier else np.float32)

    estimator = make(
        feature_columns=[tf.feature_column.numeric_column(name) for name in features],
        model_config=config(
            feature_configs=[
                tfl.configs.FeatureConfig(name=name, pwl_calibration_num_keypoints=5, monotonicity=sign)
                for name, sign in (("x", "increasing"), ("z", "none"))
            ]
        ),
        feature_analysis_input_fn=lambda: tf.data.Dataset.from_tensor_slices((features, labels)).batch(16),
        optimizer=tf.keras.optimizers.legacy.Adam(0.1),
        config=tf.estimator.RunConfig(model_dir=folder, tf_random_seed=1),
    )
    return from_arrays(estimator, features, labels, batch_size=16, steps=24)
