import pytest
import tensorflow as tf

from estimator_train._engine.model_fn import metric_pair

v1 = tf.compat.v1


@pytest.fixture
def run(graph):
    """Runs each of its arguments, one after the other, in a session of the graph; gives the value of the last."""

    def run_all(*fetches):
        with v1.Session(graph=graph) as session:
            session.run([v1.global_variables_initializer(), v1.local_variables_initializer(), v1.tables_initializer()])
            return [session.run(fetch) for fetch in fetches][-1]

    return run_all


@pytest.fixture
def evaluate(run):
    """Returns the loss and the metrics of an EVAL spec after several updates with its batch."""

    def evaluate_spec(spec, times=1):
        pairs = {key: metric_pair(key, metric) for key, metric in spec.eval_metric_ops.items()}
        updates = [update for _, update in pairs.values()]
        return run(*[updates] * times, {"loss": spec.loss, **{key: value for key, (value, _) in pairs.items()}})

    return evaluate_spec
