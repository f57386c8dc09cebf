"""Names of the tensors in the hook graph that every compiled step provides besides the model's own values."""

import tensorflow as tf

OWN = "estimator_train/"  # how the names below begin, and none of the model's values
STEPS = "estimator_train/steps"  # int64, number of training steps in one session.run
EXAMPLES = "estimator_train/examples"  # int64, number of their examples over all replicas
INPUT_SECONDS = "estimator_train/input_seconds"  # float64, seconds that they waited for input
LEARNING_RATE = "estimator_train/learning_rate"  # float32, of the last step; missing if the optimizer has none
SAVES = "estimator_train/saves"  # int64, with several workers only: not 0 if they save after these steps
ABOUT_STEPS = (STEPS, EXAMPLES, INPUT_SECONDS)
EACH_STEP = "estimator_train/each_step/"  # plus a name: float [steps], the model's value after each of the steps
BATCH = "estimator_train/batch"  # plus a number: the tensors of an evaluated batch from which metrics are computed

# Graph collections.
LAST_STEP = "estimator_train/last_step"  # the global step at which training ends, if known
MODEL_VALUES = "estimator_train/model_values"  # the model's own values: the loss and the metrics
RUN_OVER_EPOCHS = "estimator_train/run_over_epochs"  # not empty if these are aggregated from the start of an epoch
INPUT_SESSION = "estimator_train/input_session"  # of an input_fn: a function that returns the session of its tensors


def find(graph: tf.Graph, name: str) -> tf.Tensor | None:
    """Returns the tensor called `name` in `graph`, a `tf.Graph`, or None if it has none, as outside a hook graph."""
    try:
        return graph.get_tensor_by_name(f"{name}:0")
    except KeyError:
        return None
