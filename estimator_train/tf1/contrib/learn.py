"""tf.contrib.learn: what of it outlived its own Estimators."""

from estimator_train.run_config import RunConfig as RunConfig
from estimator_train.run_config import TaskType as TaskType


class ModeKeys:
    """Modes of contrib's own Estimators; INFER was PREDICT's name, "infer" its value."""

    TRAIN = "train"
    EVAL = "eval"
    INFER = "infer"
