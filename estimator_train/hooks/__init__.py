"""Hooks and listeners: TensorFlow's, under their old names, and those of this package."""

from typing import TypeAlias

import tensorflow as tf

from estimator_train.hooks.callbacks import CallbacksHook
from estimator_train.hooks.evaluation_listener import EvaluationListener
from estimator_train.hooks.logger import LoggerHook, LoggerListener
from estimator_train.hooks.profiler import ProfilerHook
from estimator_train.hooks.progress import ProgressHook
from estimator_train.hooks.timing import TimingHook

CheckpointSaverHook: TypeAlias = tf.compat.v1.train.CheckpointSaverHook
CheckpointSaverListener: TypeAlias = tf.compat.v1.train.CheckpointSaverListener
FeedFnHook: TypeAlias = tf.compat.v1.train.FeedFnHook
FinalOpsHook: TypeAlias = tf.compat.v1.train.FinalOpsHook
GlobalStepWaiterHook: TypeAlias = tf.compat.v1.train.GlobalStepWaiterHook
LoggingTensorHook: TypeAlias = tf.compat.v1.train.LoggingTensorHook
NanLossDuringTrainingError: TypeAlias = tf.compat.v1.train.NanLossDuringTrainingError
NanTensorHook: TypeAlias = tf.compat.v1.train.NanTensorHook
SecondOrStepTimer: TypeAlias = tf.compat.v1.train.SecondOrStepTimer
SessionRunArgs: TypeAlias = tf.compat.v1.train.SessionRunArgs
SessionRunContext: TypeAlias = tf.compat.v1.train.SessionRunContext
SessionRunHook: TypeAlias = tf.compat.v1.train.SessionRunHook
SessionRunValues: TypeAlias = tf.compat.v1.train.SessionRunValues
StepCounterHook: TypeAlias = tf.compat.v1.train.StepCounterHook
StopAtStepHook: TypeAlias = tf.compat.v1.train.StopAtStepHook
SummarySaverHook: TypeAlias = tf.compat.v1.train.SummarySaverHook

__all__ = [
    "CallbacksHook",
    "CheckpointSaverHook",
    "CheckpointSaverListener",
    "EvaluationListener",
    "FeedFnHook",
    "FinalOpsHook",
    "GlobalStepWaiterHook",
    "LoggerHook",
    "LoggerListener",
    "LoggingTensorHook",
    "NanLossDuringTrainingError",
    "NanTensorHook",
    "ProfilerHook",
    "ProgressHook",
    "SecondOrStepTimer",
    "SessionRunArgs",
    "SessionRunContext",
    "SessionRunHook",
    "SessionRunValues",
    "StepCounterHook",
    "StopAtStepHook",
    "SummarySaverHook",
    "TimingHook",
]
