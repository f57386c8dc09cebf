"""TPUEstimator on a CPU, with functions for the metrics and the scaffold, a host call, and the batch size in params.

python tpu_estimator.py --model_dir runs/tpu_estimator
"""

import argparse
import json
import tempfile

import numpy as np
import tensorflow as tf

v1 = tf.compat.v1
tpu = v1.estimator.tpu

USE_TPU = False
EXAMPLES = 100


def make_data():
    """Returns three slightly overlapping groups of points in a plane."""
    rng = np.random.RandomState(11)
    labels = rng.randint(0, 3, EXAMPLES).astype(np.int32)
    centres = np.array([[0.0, 1.5], [1.3, -0.8], [-1.3, -0.8]], np.float32)
    return (centres[labels] + rng.normal(0, 0.6, (EXAMPLES, 2))).astype(np.float32), labels


def input_fn(mode, params):
    points, labels = make_data()
    dataset = tf.data.Dataset.from_tensor_slices(({"points": points}, labels))
    if mode == tf.estimator.ModeKeys.TRAIN:
        dataset = dataset.repeat()
    return dataset.batch(params["batch_size"])


def metrics_by_name(labels, logits, weights):
    classes = tf.argmax(logits, axis=1)
    return {
        "accuracy": v1.metrics.accuracy(labels, classes, weights=weights),
        "per_class": v1.metrics.mean_per_class_accuracy(labels, classes, num_classes=3),
    }


def metrics_in_order(labels, logits):
    return {
        "top_2": v1.metrics.mean(tf.cast(tf.nn.in_top_k(labels, logits, 2), tf.float32)),
        "confidence": v1.metrics.mean(tf.reduce_max(tf.nn.softmax(logits), axis=1)),
    }


def model_fn(features, labels, mode, params):
    rng = np.random.RandomState(12)
    hidden = v1.get_variable("hidden", initializer=rng.normal(0, 0.5, (2, params["hidden_units"])).astype(np.float32))
    output = v1.get_variable("output", initializer=rng.normal(0, 0.5, (params["hidden_units"], 3)).astype(np.float32))
    logits = tf.matmul(tf.tanh(tf.matmul(features["points"], hidden)), output)
    predictions = {"classes": tf.argmax(logits, axis=1), "probabilities": tf.nn.softmax(logits)}
    if mode == tf.estimator.ModeKeys.PREDICT:
        outputs = {"classify": tf.estimator.export.PredictOutput(predictions)}
        return tpu.TPUEstimatorSpec(mode, predictions=predictions, export_outputs=outputs)

    loss = v1.losses.sparse_softmax_cross_entropy(labels, logits)
    if mode == tf.estimator.ModeKeys.EVAL:
        if params["metrics_as"] == "dict":
            tensors = {"labels": labels, "logits": logits, "weights": tf.ones_like(labels, tf.float32)}
            return tpu.TPUEstimatorSpec(mode, loss=loss, eval_metrics=(metrics_by_name, tensors))
        return tpu.TPUEstimatorSpec(mode, loss=loss, eval_metrics=(metrics_in_order, [labels, logits]))

    optimizer = v1.train.MomentumOptimizer(0.1, momentum=0.9)
    if params["use_tpu"]:
        optimizer = v1.tpu.CrossShardOptimizer(optimizer)
    steps = v1.train.get_global_step()

    # The host sums all losses in a variable whose initial value the scaffold sets.
    total = v1.get_variable("total_loss", initializer=0.0, trainable=False, use_resource=True)

    def host_call_fn(losses):
        return [total.assign_add(losses[0])]

    def scaffold_fn():
        return v1.train.Scaffold(init_fn=lambda scaffold, session: total.load(params["total_before"], session))

    return tpu.TPUEstimatorSpec(
        mode,
        loss=loss,
        train_op=optimizer.minimize(loss, steps),
        host_call=(host_call_fn, [tf.reshape(loss, [1])]),
        scaffold_fn=scaffold_fn,
        training_hooks=[v1.train.StopAtStepHook(last_step=25)],
    )


def make_estimator(model_dir, metrics_as):
    return tpu.TPUEstimator(
        model_fn,
        model_dir=model_dir,
        config=tpu.RunConfig(
            tpu_config=tpu.TPUConfig(iterations_per_loop=5, per_host_input_for_training=True),
            tf_random_seed=1,
            save_checkpoints_steps=10,
        ),
        params={"hidden_units": 8, "metrics_as": metrics_as, "total_before": 100.0},
        use_tpu=USE_TPU,
        train_batch_size=16,
        eval_batch_size=32,
        predict_batch_size=64,
    )


def serving_input_receiver_fn():
    points = v1.placeholder(tf.float32, [None, 2], name="points")
    return tf.estimator.export.ServingInputReceiver({"points": points}, {"points": points})


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model_dir", default=tempfile.mkdtemp())
    args = parser.parse_args()

    estimator = make_estimator(args.model_dir, "dict")
    estimator.train(input_fn, steps=10)
    estimator.train(input_fn, max_steps=40)  # the spec's hook stops it at step 25
    evaluations = {
        metrics_as: make_estimator(args.model_dir, metrics_as).evaluate(input_fn) for metrics_as in ("dict", "list")
    }
    predictions = list(estimator.predict(input_fn))
    path = estimator.export_saved_model(f"{args.model_dir}/export", serving_input_receiver_fn)
    serve = tf.saved_model.load(path.decode(), tags=[tf.saved_model.SERVING]).signatures["serving_default"]
    results = {
        "evaluations": {
            name: {key: float(value) for key, value in metrics.items()} for name, metrics in evaluations.items()
        },
        "predictions": [row["probabilities"].tolist() for row in predictions[:10]],
        "count": len(predictions),
        "served": serve(points=tf.constant(make_data()[0][:10]))["probabilities"].numpy().tolist(),
        "total_loss": float(estimator.get_variable_value("total_loss")),
        "variables": {name: estimator.get_variable_value(name).tolist() for name in ("hidden", "output")},
    }
    print("results: " + json.dumps(results))


if __name__ == "__main__":
    main()
