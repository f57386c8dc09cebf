"""Wide and deep learning on rows like the census data: who earns more than 50,000 a year? The rows are generated."""

import argparse
import json
import os
import tempfile

import numpy as np
import tensorflow as tf

EDUCATION = ["Bachelors", "HS-grad", "Masters", "Some-college", "Doctorate"]
RELATIONSHIP = ["Husband", "Not-in-family", "Wife", "Own-child", "Unmarried"]
OCCUPATION = ["Tech-support", "Craft-repair", "Sales", "Exec-managerial", "Farming-fishing", "Armed-Forces"]
HIDDEN_UNITS = [16, 8]


def make_rows(count, seed):
    random = np.random.RandomState(seed)
    rows = {
        "age": random.randint(17, 80, size=count).astype("float32"),
        "education_num": random.randint(1, 16, size=count).astype("float32"),
        "hours_per_week": random.randint(10, 70, size=count).astype("float32"),
        "education": random.choice(EDUCATION, size=count),
        "relationship": random.choice(RELATIONSHIP, size=count),
        "occupation": random.choice(OCCUPATION, size=count),
    }
    score = rows["education_num"] / 5 + rows["hours_per_week"] / 25 + (rows["occupation"] == "Sales")
    score += (rows["age"] > 35) * 1.0 + random.normal(scale=0.5, size=count)
    return rows, np.where(score > np.median(score), ">50K", "<=50K")


def make_input_fn(rows, labels, num_epochs, batch_size=40):
    def input_fn():
        dataset = tf.data.Dataset.from_tensor_slices((dict(rows), labels))
        return dataset.repeat(num_epochs).batch(batch_size).prefetch(1)

    return input_fn


def fixed_normal(shape, dtype=tf.float32, **kwargs):
    """An initializer whose values are drawn by NumPy, to be the same in every version of TensorFlow."""
    shape = tf.TensorShape(shape).as_list()
    return tf.constant(np.random.RandomState(sum(shape)).normal(scale=0.3, size=shape), dtype)


def build_model_columns():
    """Returns the wide and the deep feature columns."""
    age = tf.feature_column.numeric_column("age", normalizer_fn=lambda value: value / 100.0)
    years = tf.feature_column.numeric_column("age")
    education_num = tf.feature_column.numeric_column("education_num", normalizer_fn=lambda value: value / 16.0)
    hours_per_week = tf.feature_column.numeric_column("hours_per_week", normalizer_fn=lambda value: value / 70.0)

    education = tf.feature_column.categorical_column_with_vocabulary_list("education", EDUCATION)
    relationship = tf.feature_column.categorical_column_with_vocabulary_list(
        "relationship", RELATIONSHIP[:3], num_oov_buckets=2
    )
    occupation = tf.feature_column.categorical_column_with_hash_bucket("occupation", hash_bucket_size=20)
    age_buckets = tf.feature_column.bucketized_column(years, boundaries=[18, 25, 30, 35, 40, 45, 50, 55, 60, 65])

    base_columns = [education, relationship, occupation, age_buckets]
    crossed_columns = [
        tf.feature_column.crossed_column(["education", "occupation"], hash_bucket_size=50),
        tf.feature_column.crossed_column([age_buckets, "education", "occupation"], hash_bucket_size=100),
    ]
    deep_columns = [
        age,
        education_num,
        hours_per_week,
        tf.feature_column.indicator_column(education),
        tf.feature_column.indicator_column(relationship),
        tf.feature_column.embedding_column(occupation, dimension=4, initializer=fixed_normal),
    ]
    return base_columns + crossed_columns, deep_columns


def initial_weights(model_dir):
    """Saves a checkpoint of given hidden layers to start from, because the classifier takes no initializers."""
    inputs = 3 + len(EDUCATION) + 5 + 4
    sizes = [inputs] + HIDDEN_UNITS + [1]
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        for layer, rows, columns in zip(["hiddenlayer_0", "hiddenlayer_1", "logits"], sizes, sizes[1:]):
            tf.compat.v1.get_variable("dnn/%s/kernel" % layer, initializer=fixed_normal([rows, columns]))
        session.run(tf.compat.v1.global_variables_initializer())
        saver = tf.compat.v1.train.Saver()
        return saver.save(session, os.path.join(model_dir, "initial", "hidden"))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model_dir", default=None)
    parser.add_argument("--steps", type=int, default=40)
    args = parser.parse_args()
    model_dir = args.model_dir or tempfile.mkdtemp()
    os.makedirs(model_dir, exist_ok=True)

    wide_columns, deep_columns = build_model_columns()
    estimator = tf.estimator.DNNLinearCombinedClassifier(
        model_dir=model_dir,
        linear_feature_columns=wide_columns,
        dnn_feature_columns=deep_columns,
        dnn_hidden_units=HIDDEN_UNITS,
        dnn_optimizer=lambda: tf.keras.optimizers.legacy.Adagrad(learning_rate=0.1),
        label_vocabulary=["<=50K", ">50K"],
        config=tf.estimator.RunConfig(save_checkpoints_steps=max(args.steps // 2, 1)),
        warm_start_from=tf.estimator.WarmStartSettings(initial_weights(model_dir), "dnn/(hiddenlayer|logits).*kernel"),
    )
    train_input_fn = make_input_fn(*make_rows(400, seed=1), num_epochs=None)
    test_rows, test_labels = make_rows(90, seed=2)
    test_input_fn = make_input_fn(test_rows, test_labels, num_epochs=1)

    train_spec = tf.estimator.TrainSpec(input_fn=train_input_fn, max_steps=args.steps)
    eval_spec = tf.estimator.EvalSpec(input_fn=test_input_fn, steps=None, start_delay_secs=0, throttle_secs=0)
    metrics, _ = tf.estimator.train_and_evaluate(estimator, train_spec, eval_spec)
    for key in sorted(metrics):
        print("%s: %s" % (key, metrics[key]))

    predictions = [row for row, _ in zip(estimator.predict(test_input_fn), range(4))]
    weights = estimator.get_variable_value("linear/linear_model/age_bucketized/weights")
    results = {
        "metrics": {name: float(value) for name, value in metrics.items()},
        "logistic": [row["logistic"].tolist() for row in predictions],
        "classes": [row["classes"][0].decode() for row in predictions],
        "age_weights": weights.ravel().tolist(),
    }
    print("results: " + json.dumps(results))


if __name__ == "__main__":
    main()
