"""Canned estimators: linear, DNN, combined (wide and deep) and baseline models over tf.feature_column columns."""

from estimator_train.canned.baseline import BaselineClassifier, BaselineEstimator, BaselineRegressor
from estimator_train.canned.dnn import DNNClassifier, DNNEstimator, DNNRegressor
from estimator_train.canned.dnn_linear_combined import (
    DNNLinearCombinedClassifier,
    DNNLinearCombinedEstimator,
    DNNLinearCombinedRegressor,
)
from estimator_train.canned.linear import LinearClassifier, LinearEstimator, LinearRegressor

__all__ = [
    "BaselineClassifier",
    "BaselineEstimator",
    "BaselineRegressor",
    "DNNClassifier",
    "DNNEstimator",
    "DNNLinearCombinedClassifier",
    "DNNLinearCombinedEstimator",
    "DNNLinearCombinedRegressor",
    "DNNRegressor",
    "LinearClassifier",
    "LinearEstimator",
    "LinearRegressor",
]
