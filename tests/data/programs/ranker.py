"""Click prediction in the way of a recommender's framework, which reaches into the modules of tf.estimator.

    python -c "import estimator_train.install, ranker; ranker.main(DIR)"

It subclasses the Estimator, a head, exporters and the old library's private classes, like EasyRec.
"""

import json
import os

import numpy as np
import tensorflow as tf
from tensorflow.python.distribute import estimator_training as distribute_coordinator_training
from tensorflow.python.estimator import gc
from tensorflow.python.estimator import run_config as run_config_lib
from tensorflow.python.estimator.canned import metric_keys
from tensorflow.python.estimator.exporter import Exporter, _SavedModelExporter
from tensorflow.python.estimator.training import _assert_eval_spec, _ContinuousEvalListener, _TrainingExecutor
from tensorflow.python.ops import variable_scope
from tensorflow.python.platform import gfile
from tensorflow.python.training import basic_session_run_hooks, training_util
from tensorflow_estimator.python.estimator.estimator_export import estimator_export

v1 = tf.compat.v1
fc = tf.feature_column


class RankingEstimator(tf.estimator.Estimator):
    """Trains a wide part and a deep part; counts the calls of train."""

    def __init__(self, columns, config, params):
        self.trainings = 0
        self._columns = columns
        tf.estimator.Estimator._assert_members_are_not_overridden = staticmethod(lambda self: None)
        super().__init__(self._rank, config=config, params=params)

    def train(self, input_fn, hooks=None, steps=None, max_steps=None, saving_listeners=None):
        self.trainings += 1
        return super().train(input_fn, [*(hooks or ()), ProgressHook()], steps, max_steps, saving_listeners)

    def _rank(self, features, labels, mode, params):
        wide, deep = self._columns
        logits = v1.feature_column.linear_model(features, wide)
        hidden = v1.feature_column.input_layer(features, deep)
        for layer, units in enumerate(params["hidden_units"]):
            with variable_scope.variable_scope(f"deep_{layer}"):
                hidden = v1.layers.dense(hidden, units, tf.nn.relu, name="dense")
        logits = logits + v1.layers.dense(hidden, 1, name="deep_logits")
        logits = params.get("pass_on", tf.identity)(logits)
        optimizer = v1.train.AdagradOptimizer(0.1)
        return ClickHead(weight_column="weight").create_estimator_spec(
            features,
            mode,
            logits,
            labels=labels,
            train_op_fn=lambda loss: optimizer.minimize(loss, training_util.get_global_step()),
        )


class ClickHead(tf.estimator.BinaryClassHead):
    """A binary head that also serves and measures the rank of an example among its batch."""

    def predictions(self, logits, keys=None):
        predictions = super().predictions(logits, keys)
        if keys is None:
            order = tf.argsort(tf.argsort(logits[:, 0], direction="DESCENDING"))
            predictions["rank"] = tf.expand_dims(order, -1)
        return predictions

    def metrics(self, regularization_losses=None):
        metrics = super().metrics(regularization_losses)
        metrics["clicks"] = tf.keras.metrics.Mean(name="clicks")
        return metrics

    def update_metrics(self, eval_metrics, features, logits, labels, regularization_losses=None):
        eval_metrics["clicks"].update_state(labels)
        return super().update_metrics(eval_metrics, features, logits, labels, regularization_losses)


class ProgressHook(basic_session_run_hooks.LoggingTensorHook):
    def __init__(self):
        super().__init__({"step": v1.GraphKeys.GLOBAL_STEP}, every_n_iter=10)

    def begin(self):
        self._tensors = {"step": v1.train.get_global_step()}
        super().begin()


@estimator_export("estimator.BestMetricExporter")
class BestMetricExporter(Exporter):
    """Exports a model if its metric is the best so far, and keeps the newest two."""

    def __init__(self, name, receiver_fn, metric):
        self._exporter = _SavedModelExporter(name, receiver_fn)
        self._metric, self._best = metric, None

    @property
    def name(self):
        return self._exporter.name

    def export(self, estimator, export_path, checkpoint_path, eval_result, is_the_final_export):
        if self._best is not None and eval_result[self._metric] <= self._best:
            return None
        self._best = eval_result[self._metric]
        exported = self._exporter.export(estimator, export_path, checkpoint_path, eval_result, is_the_final_export)
        keep = gc._negation(gc._largest_export_versions(2))
        for path in keep(gc._get_paths(export_path, parser=_version)):
            gfile.DeleteRecursively(path.path)
        return exported


def _version(path):
    name = os.path.basename(path.path)
    return path._replace(export_version=int(name)) if name.isdigit() else None


class DoneListener(_ContinuousEvalListener):
    def before_eval(self):
        return True

    def after_eval(self, eval_result):
        return True


def train_and_evaluate(estimator, train_spec, eval_spec):
    _assert_eval_spec(eval_spec)
    executor = _TrainingExecutor(
        estimator=estimator, train_spec=train_spec, eval_spec=eval_spec, continuous_eval_listener=DoneListener()
    )
    config = estimator.config
    if distribute_coordinator_training.should_run_distribute_coordinator(config):
        return distribute_coordinator_training.train_and_evaluate(estimator, train_spec, eval_spec, _TrainingExecutor)
    if config.task_type == run_config_lib.TaskType.EVALUATOR and config.task_id > 0:
        raise ValueError("there can be one evaluator only")
    return executor.run()


def pass_on(logits):
    """Returns the logits, through modules and names of TensorFlow that have moved since TensorFlow 1."""
    from tensorflow.python.framework import ops
    from tensorflow.python.ops import array_ops, control_flow_ops
    from tensorflow.python.training import distribution_strategy_context
    from tensorflow.python.util import nest

    assert isinstance(logits, ops.Tensor) and nest.is_sequence([logits])
    assert not distribution_strategy_context.has_strategy()
    (logits,) = array_ops.unstack(array_ops.stack([logits]))
    return control_flow_ops.cond(tf.constant(True), lambda: logits, lambda: logits - 1)


def examples():
    """Returns (features, labels) as arrays."""
    random = np.random.RandomState(1)
    features = {
        "user": random.randint(0, 8, [64, 1]),
        "item": random.randint(0, 5, [64, 1]),
        "price": random.rand(64, 1).astype(np.float32),
        "weight": np.ones([64, 1], np.float32),
    }
    return features, (features["user"] % 2).astype(np.float32)


def input_fn():
    return tf.data.Dataset.from_tensor_slices(examples()).batch(16)


def columns():
    user = fc.categorical_column_with_identity("user", 8)
    item = fc.categorical_column_with_hash_bucket("item", 10, tf.int64)
    price = fc.numeric_column("price")
    wide = [user, item, fc.bucketized_column(price, [0.25, 0.5, 0.75])]
    return wide, [fc.embedding_column(user, 4), fc.embedding_column(item, 4), price]


def main(directory):
    tf.keras.utils.set_random_seed(3)  # tf.compat.v1.layers draws its kernels by Keras' seed, not by tf_random_seed
    config = tf.estimator.RunConfig(os.path.join(directory, "model"), tf_random_seed=1, save_checkpoints_steps=20)
    estimator = RankingEstimator(columns(), config, {"hidden_units": [8, 4], "pass_on": pass_on})
    feature_spec = fc.make_parse_example_spec([*columns()[0], *columns()[1]])
    feature_spec["weight"] = tf.io.FixedLenFeature([1], tf.float32)
    receiver_fn = tf.estimator.export.build_parsing_serving_input_receiver_fn(feature_spec)
    best = BestMetricExporter("best", receiver_fn, metric_keys.MetricKeys.AUC)
    train_and_evaluate(
        estimator,
        tf.estimator.TrainSpec(lambda: input_fn().repeat(), max_steps=60),
        tf.estimator.EvalSpec(
            input_fn, steps=None, exporters=[best, tf.estimator.LatestExporter("latest", receiver_fn)], throttle_secs=0
        ),
    )
    metrics = estimator.evaluate(input_fn)
    ranks = [int(row["rank"][0]) for row in estimator.predict(input_fn)]
    print(
        json.dumps(
            {
                "metrics": {name: float(value) for name, value in metrics.items()},
                "trainings": estimator.trainings,
                "ranks": ranks[:16],
                "exports": {
                    name: len(gfile.ListDirectory(f"{directory}/model/export/{name}")) for name in ("best", "latest")
                },
                "variables": estimator.get_variable_names(),
            }
        )
    )
