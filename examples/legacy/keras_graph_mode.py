"""A Keras model with a TensorFlow 1 optimizer in a program that disables TensorFlow 2 behavior."""

import argparse
import json
import tempfile

import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()


def make_scans(count, seed):
    random = np.random.RandomState(seed)
    scans = random.normal(size=(count, 8, 8, 1)).astype("float32")
    return scans, np.eye(3, dtype="float32")[random.randint(3, size=count)]


def input_fn(scans, labels):
    dataset = tf.data.Dataset.from_tensor_slices((scans, labels))
    return dataset.batch(8).prefetch(None)


def input_fn_of_an_iterator(scans, labels):
    iterator = tf.data.make_initializable_iterator(input_fn(scans, labels))
    tf.add_to_collection(tf.GraphKeys.TABLE_INITIALIZERS, iterator.initializer)
    return iterator.get_next()


def build_model(optimizer):
    layers = tf.keras.layers
    scans = tf.keras.Input((8, 8, 1))
    net = layers.Conv2D(4, 3, use_bias=False)(scans)
    net = layers.BatchNormalization()(net)
    net = tf.nn.relu(net)
    net = layers.Lambda(lambda image: image * 2)(net)
    net = layers.Flatten()(net)
    model = tf.keras.Model(scans, layers.Dense(3, activation="softmax", name="classes")(net))
    model.compile(optimizer=optimizer, loss="categorical_crossentropy", metrics=["accuracy"])
    return model


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model_dir", default=None)
    args = parser.parse_args()
    base = args.model_dir or tempfile.mkdtemp()
    train, test = make_scans(64, seed=1), make_scans(32, seed=2)

    results = {}
    optimizers = {
        "adam": tf.train.AdamOptimizer(0.01),
        "momentum": tf.train.MomentumOptimizer(0.02, 0.9),
        "keras": "rmsprop",
    }
    for name, optimizer in optimizers.items():
        # The seed determines the initial weights of the layers.
        config = tf.estimator.RunConfig(model_dir=base + "/" + name, tf_random_seed=5, save_checkpoints_steps=5)
        estimator = tf.keras.estimator.model_to_estimator(keras_model=build_model(optimizer), config=config)
        evaluations = [estimator.evaluate(lambda: input_fn(*test))]
        estimator.train(lambda: input_fn(*train))
        evaluations.append(estimator.evaluate(lambda: input_fn(*test)))
        estimator.train(lambda: input_fn_of_an_iterator(*train), max_steps=12)
        evaluations.append(estimator.evaluate(lambda: input_fn_of_an_iterator(*test)))
        predictions = [prediction["classes"].tolist() for prediction in estimator.predict(lambda: input_fn(*test))]
        results[name] = {
            "evaluations": [{key: float(value) for key, value in each.items()} for each in evaluations],
            "predictions": predictions[:4],
        }
    print("results: " + json.dumps(results))


if __name__ == "__main__":
    main()
