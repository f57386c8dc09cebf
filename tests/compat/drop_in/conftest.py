import pytest
import tensorflow as tf

import estimator_train as et

v1 = tf.compat.v1


@pytest.fixture(autouse=True)
def installed():
    et.install()


@pytest.fixture
def run():
    """A function that makes an EstimatorSpec in a new graph and runs it.

    It returns a dict of the loss, the metrics, the predictions and, after a train_op, the summaries.
    """

    def run_spec(make_spec):
        with tf.Graph().as_default(), v1.Session() as session:
            v1.train.create_global_step()
            spec = make_spec()
            metrics = {
                name: metric if isinstance(metric, tuple) else (metric.result(), tf.group(metric.updates))
                for name, metric in spec.eval_metric_ops.items()
            }
            keras_variables = [
                variable
                for metric in spec.eval_metric_ops.values()
                if not isinstance(metric, tuple)
                for variable in metric.variables
            ]
            session.run([v1.global_variables_initializer(), v1.local_variables_initializer(), v1.tables_initializer()])
            session.run([variable.initializer for variable in keras_variables])
            results = {} if spec.loss is None else {"loss": session.run(spec.loss)}
            session.run([update for _, update in metrics.values()])
            results |= session.run({name: value for name, (value, _) in metrics.items()})
            if spec.train_op is not None:
                session.run(spec.train_op)
                summary = v1.Summary.FromString(session.run(v1.summary.merge_all()))
                results |= {f"summary of {value.tag}": value.simple_value for value in summary.value}
            results |= session.run(spec.predictions)
        return results

    return run_spec
