"""tf.contrib.learn: the few names that do not depend on its own Estimators."""

from estimator_train.run_config import RunConfig as RunConfig
from estimator_train.run_config import TaskType as TaskType


class ModeKeys:
    """Modes of contrib's own Estimators, in which PREDICT was called INFER."""

    TRAIN = "train"
    EVAL = "eval"
    INFER = "infer"
