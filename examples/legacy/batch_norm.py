"""Batch normalization in a model_fn, with update ops, summaries, a Scaffold, and a SavedModel that is loaded again."""

import argparse
import glob
import json
import os
import tempfile

import numpy as np
import tensorflow as tf

v1 = tf.compat.v1


def make_data(count, seed):
    """Returns a noisy quadratic of five features that are far from zero mean and unit variance."""
    random = np.random.RandomState(seed)
    x = random.normal(loc=3.0, scale=2.0, size=(count, 5)).astype(np.float32)
    y = (x[:, :1] - 0.3 * x[:, 1:2] ** 2 + random.normal(scale=0.1, size=(count, 1))).astype(np.float32)
    return x, y


def given_normal(rows, columns):
    """Returns an initializer whose values are drawn by NumPy, to be the same in every version of TensorFlow."""
    values = np.random.RandomState(rows + columns).normal(scale=rows**-0.5, size=(rows, columns))
    return v1.constant_initializer(values)


def model_fn(features, labels, mode, params):
    is_training = mode == tf.estimator.ModeKeys.TRAIN
    net = features["x"]
    with v1.variable_scope("net"):
        for number, units in enumerate(params["units"]):
            initializer = given_normal(net.shape[-1], units)
            net = v1.layers.dense(net, units, use_bias=False, kernel_initializer=initializer, name="dense%d" % number)
            net = v1.layers.batch_normalization(net, momentum=0.9, training=is_training, name="norm%d" % number)
            net = tf.nn.relu(net)
        outputs = v1.layers.dense(net, 1, kernel_initializer=given_normal(units, 1), name="outputs")

    predictions = {"value": tf.squeeze(outputs, axis=1)}
    if mode == tf.estimator.ModeKeys.PREDICT:
        exports = {
            v1.saved_model.signature_constants.DEFAULT_SERVING_SIGNATURE_DEF_KEY: (
                tf.estimator.export.PredictOutput(predictions)
            ),
            "regression": tf.estimator.export.RegressionOutput(outputs),
        }
        return tf.estimator.EstimatorSpec(mode, predictions=predictions, export_outputs=exports)

    loss = v1.losses.mean_squared_error(labels, outputs)
    kernels = [v for v in v1.trainable_variables() if "kernel" in v.name]
    total_loss = loss + params["l2"] * tf.add_n([tf.nn.l2_loss(kernel) for kernel in kernels])
    if mode == tf.estimator.ModeKeys.EVAL:
        metrics = {
            "rmse": v1.metrics.root_mean_squared_error(labels, outputs),
            "mean_value": v1.metrics.mean(outputs),
        }
        return tf.estimator.EstimatorSpec(mode, loss=total_loss, eval_metric_ops=metrics)

    rate = v1.train.exponential_decay(params["learning_rate"], v1.train.get_global_step(), 10, 0.9, staircase=True)
    v1.summary.scalar("learning_rate", rate)
    v1.summary.scalar("error", loss)
    optimizer = v1.train.MomentumOptimizer(rate, momentum=0.9)
    update_ops = v1.get_collection(v1.GraphKeys.UPDATE_OPS)
    with tf.control_dependencies(update_ops):
        gradients, variables = zip(*optimizer.compute_gradients(total_loss))
        gradients, norm = tf.clip_by_global_norm(gradients, 5.0)
        train_op = optimizer.apply_gradients(zip(gradients, variables), global_step=v1.train.get_global_step())
    v1.summary.scalar("gradient_norm", norm)

    def init_fn(scaffold, session):
        print("Starting with %d variables" % len(session.run(v1.global_variables())))

    scaffold = v1.train.Scaffold(init_fn=init_fn, saver=v1.train.Saver(max_to_keep=2))
    return tf.estimator.EstimatorSpec(mode, loss=total_loss, train_op=train_op, scaffold=scaffold)


def serving_input_receiver_fn():
    x = v1.placeholder(tf.float32, [None, 5], name="x")
    return tf.estimator.export.ServingInputReceiver({"x": x}, {"x": x})


def read_summaries(model_dir):
    """Returns the scalars of the training's event file, {tag: {step: value}}."""
    scalars = {}
    for path in sorted(glob.glob(os.path.join(model_dir, "events.out.tfevents.*"))):
        for event in v1.train.summary_iterator(path):
            for value in event.summary.value:
                if value.tag in ("loss", "error", "learning_rate", "gradient_norm"):
                    scalars.setdefault(value.tag, {})[event.step] = value.simple_value
    return scalars


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model_dir", default=None)
    parser.add_argument("--steps", type=int, default=60)
    args = parser.parse_args()
    model_dir = args.model_dir or tempfile.mkdtemp()

    config = tf.estimator.RunConfig(save_summary_steps=10, save_checkpoints_steps=10, log_step_count_steps=10)
    params = {"units": [16, 8], "learning_rate": 0.005, "l2": 1e-3}
    estimator = tf.estimator.Estimator(model_fn, model_dir=model_dir, config=config, params=params)
    x, y = make_data(300, seed=1)
    test_x, test_y = make_data(50, seed=2)

    train_input_fn = v1.estimator.inputs.numpy_input_fn({"x": x}, y, batch_size=30, num_epochs=None, shuffle=False)
    estimator.train(train_input_fn, max_steps=args.steps)
    test_input_fn = v1.estimator.inputs.numpy_input_fn({"x": test_x}, test_y, batch_size=16, shuffle=False)
    metrics = estimator.evaluate(test_input_fn, name="test")

    export_dir = estimator.export_saved_model(os.path.join(model_dir, "export"), serving_input_receiver_fn)
    serve = tf.saved_model.load(export_dir.decode()).signatures["serving_default"]
    served = serve(x=tf.constant(test_x[:4]))["value"].numpy()

    results = {
        "summaries": read_summaries(model_dir),
        "metrics": {name: float(value) for name, value in metrics.items()},
        "served": served.tolist(),
        "moving_mean": estimator.get_variable_value("net/norm0/moving_mean").tolist(),
        "moving_variance": estimator.get_variable_value("net/norm1/moving_variance").tolist(),
    }
    print("results: " + json.dumps(results))


if __name__ == "__main__":
    main()
