"""tf.contrib.learn: Experiments over a tf.estimator, and the few names that do not depend on contrib's Estimators."""

from estimator_train.compat.tf1.learn import datasets as datasets
from estimator_train.compat.tf1.learn import experiment as experiment
from estimator_train.compat.tf1.learn import learn_runner as learn_runner
from estimator_train.compat.tf1.learn import monitors as monitors
from estimator_train.compat.tf1.learn import utils as utils
from estimator_train.run_config import RunConfig as _RunConfig
from estimator_train.run_config import TaskType as TaskType

Experiment = experiment.Experiment
InputFnOps = utils.InputFnOps
build_parsing_serving_input_fn = utils.build_parsing_serving_input_fn
make_export_strategy = utils.make_export_strategy


class RunConfig(_RunConfig):
    """The RunConfig of tf.estimator; ignores, as that did in 1.15, what only contrib's own Estimators use."""

    def __init__(
        self, master="", num_cores=0, log_device_placement=False, gpu_memory_fraction=1, evaluation_master="", **options
    ):
        super().__init__(**options)
        self._master = master or self._master
        self._evaluation_master = evaluation_master or self._evaluation_master


class ModeKeys:
    """Modes of contrib's own Estimators, in which PREDICT was called INFER."""

    TRAIN = "train"
    EVAL = "eval"
    INFER = "infer"
