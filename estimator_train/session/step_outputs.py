"""Names of the tensors in the hook graph that every compiled step provides besides the model's own values."""

STEPS = "estimator_train/steps"  # int64, training steps that one session.run did
EXAMPLES = "estimator_train/examples"  # int64, examples that they took over all replicas
INPUT_SECONDS = "estimator_train/input_seconds"  # float64, seconds that they waited for input
LEARNING_RATE = "estimator_train/learning_rate"  # float32, of the last step; optimizers that do not tell have none
SAVES = "estimator_train/saves"  # int64, of several workers: whether they save after these steps, if not 0
ABOUT_STEPS = (STEPS, EXAMPLES, INPUT_SECONDS)
BATCH = "estimator_train/batch"  # with a number behind, the tensors of an evaluated batch that metrics are computed of

# The graph collection that holds the global step at which training ends, where that is known.
LAST_STEP = "estimator_train/last_step"

# The graph collection of the model's own values: the loss and the metrics.
MODEL_VALUES = "estimator_train/model_values"

# The graph collection that is not empty where these run over an epoch: they are those since it began.
RUN_OVER_EPOCHS = "estimator_train/run_over_epochs"


def is_of_model(name):
    """Whether the value of that name is the model's own."""
    return not name.startswith("estimator_train/")


def find(graph, name):
    """The tensor of that name in `graph`, a `tf.Graph`, or None where it is no hook graph."""
    try:
        return graph.get_tensor_by_name(f"{name}:0")
    except KeyError:
        return None
