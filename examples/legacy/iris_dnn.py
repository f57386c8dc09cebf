"""DNNClassifier on iris, as in TensorFlow 2's tutorial, with numeric columns, a Dataset input_fn and a predict loop.

The flowers are drawn around the species' known means, so nothing is downloaded.
"""

import argparse
import json
import os
import tempfile

import numpy as np
import tensorflow as tf

CSV_COLUMN_NAMES = ["SepalLength", "SepalWidth", "PetalLength", "PetalWidth"]
SPECIES = ["Setosa", "Versicolor", "Virginica"]
MEANS = [[5.0, 3.4, 1.5, 0.2], [5.9, 2.8, 4.3, 1.3], [6.6, 3.0, 5.6, 2.0]]
HIDDEN_UNITS = [30, 10]


def make_flowers(count, seed):
    random = np.random.RandomState(seed)
    species = random.randint(3, size=count)
    values = (np.array(MEANS)[species] + random.normal(scale=0.3, size=(count, 4))).astype("float32")
    return dict(zip(CSV_COLUMN_NAMES, values.T)), species


def input_fn(features, labels, training=True, batch_size=32):
    """Returns the input for training or evaluation."""
    dataset = tf.data.Dataset.from_tensor_slices((dict(features), labels))
    # The flowers are in random order already; shuffling would make two runs differ.
    if training:
        dataset = dataset.repeat()
    return dataset.batch(batch_size)


def predict_input_fn(features, batch_size=32):
    """Returns the input for prediction, without labels."""
    return tf.data.Dataset.from_tensor_slices(dict(features)).batch(batch_size)


def save_initial_weights(model_dir):
    """Saves a checkpoint of given weights to start from, because DNNClassifier takes no initializers."""
    random = np.random.RandomState(5)
    sizes = [len(CSV_COLUMN_NAMES)] + HIDDEN_UNITS + [len(SPECIES)]
    layers = ["hiddenlayer_0", "hiddenlayer_1", "logits"]
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        for layer, rows, columns in zip(layers, sizes, sizes[1:]):
            kernel = random.normal(scale=rows**-0.5, size=(rows, columns)).astype("float32")
            tf.compat.v1.get_variable("dnn/" + layer + "/kernel", initializer=kernel)
            tf.compat.v1.get_variable("dnn/" + layer + "/bias", initializer=np.zeros(columns, "float32"))
        session.run(tf.compat.v1.global_variables_initializer())
        return tf.compat.v1.train.Saver().save(session, os.path.join(model_dir, "initial", "weights"))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model_dir", default=None)
    parser.add_argument("--steps", type=int, default=50)
    args = parser.parse_args()
    model_dir = args.model_dir or tempfile.mkdtemp()
    os.makedirs(model_dir, exist_ok=True)

    train_x, train_y = make_flowers(120, seed=1)
    test_x, test_y = make_flowers(30, seed=2)

    my_feature_columns = []
    for key in train_x:
        my_feature_columns.append(tf.feature_column.numeric_column(key=key))

    classifier = tf.estimator.DNNClassifier(
        feature_columns=my_feature_columns,
        hidden_units=HIDDEN_UNITS,
        n_classes=3,
        optimizer=lambda: tf.keras.optimizers.legacy.Adam(learning_rate=0.01),
        model_dir=model_dir,
        config=tf.estimator.RunConfig(save_summary_steps=10, save_checkpoints_steps=25),
        warm_start_from=save_initial_weights(model_dir),
    )

    results = {"metrics": []}
    for _ in range(2):
        classifier.train(input_fn=lambda: input_fn(train_x, train_y, training=True), steps=args.steps // 2)
        eval_result = classifier.evaluate(input_fn=lambda: input_fn(test_x, test_y, training=False))
        print("\nTest set accuracy: {accuracy:0.3f}\n".format(**eval_result))
        results["metrics"].append({name: float(value) for name, value in eval_result.items()})

    expected = ["Setosa", "Versicolor", "Virginica"]
    predict_x = {
        "SepalLength": [5.1, 5.9, 6.9],
        "SepalWidth": [3.3, 3.0, 3.1],
        "PetalLength": [1.7, 4.2, 5.4],
        "PetalWidth": [0.5, 1.5, 2.1],
    }
    results["predictions"] = []
    predictions = classifier.predict(input_fn=lambda: predict_input_fn(predict_x))
    for pred_dict, expec in zip(predictions, expected):
        class_id = pred_dict["class_ids"][0]
        probability = pred_dict["probabilities"][class_id]
        print('Prediction is "{}" ({:.1f}%), expected "{}"'.format(SPECIES[class_id], 100 * probability, expec))
        results["predictions"].append([int(class_id), float(probability)] + pred_dict["logits"].tolist())

    results["variables"] = {
        name: classifier.get_variable_value(name).tolist() for name in ["dnn/logits/bias", "dnn/hiddenlayer_1/bias"]
    }
    print("results: " + json.dumps(results))


if __name__ == "__main__":
    main()
