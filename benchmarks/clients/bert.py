"""BERT's classifier, fine-tuned from a checkpoint of random weights."""

import os

import numpy as np
import tensorflow as tf
from bert import modeling, run_classifier

from benchmarks.clients.case import Case

v1 = tf.compat.v1
CONFIG = modeling.BertConfig(
    vocab_size=20,
    hidden_size=8,
    num_hidden_layers=2,
    num_attention_heads=2,
    intermediate_size=16,
    max_position_embeddings=8,
)
BATCH, LENGTH, STEPS = 8, 6, 12


def cases():
    return {"TPUEstimator": fine_tuning}


def fine_tuning(folder):
    model_fn = run_classifier.model_fn_builder(
        bert_config=CONFIG,
        num_labels=2,
        init_checkpoint=pre_trained(f"{folder}-pre-trained"),
        learning_rate=0.01,
        num_train_steps=STEPS,
        num_warmup_steps=4,
        use_tpu=False,
        use_one_hot_embeddings=False,
    )
    tpu = v1.estimator.tpu
    estimator = tpu.TPUEstimator(
        model_fn,
        config=tpu.RunConfig(model_dir=folder, tf_random_seed=1),
        use_tpu=False,
        train_batch_size=BATCH,
        eval_batch_size=BATCH,
        predict_batch_size=BATCH,
    )
    features = examples()

    def input_fn(params):
        return v1.data.Dataset.from_tensor_slices(features).batch(params["batch_size"], drop_remainder=True)

    return Case(estimator, lambda params: input_fn(params).repeat(), input_fn, input_fn, features, STEPS)


def examples():
    random = np.random.RandomState(1)
    ids = random.randint(0, 20, [32, LENGTH]).astype(np.int32)
    return {
        "input_ids": ids,
        "input_mask": (np.arange(LENGTH) < random.randint(2, LENGTH + 1, [32, 1])).astype(np.int32),
        "segment_ids": random.randint(0, 2, [32, LENGTH]).astype(np.int32),
        "label_ids": (ids[:, 0] > 9).astype(np.int32),
        "is_real_example": np.ones(32, np.int32),
    }


def pre_trained(directory):
    """Writes a checkpoint of random weights for all variables of the classifier, and returns its path prefix."""
    random = np.random.RandomState(1)
    with tf.Graph().as_default(), v1.Session() as session:
        tensors = [tf.constant(array[:1]) for array in examples().values()]
        run_classifier.create_model(CONFIG, False, *tensors[:4], num_labels=2, use_one_hot_embeddings=False)
        session.run(v1.global_variables_initializer())
        for variable in sorted(v1.trainable_variables(), key=lambda variable: variable.name):
            start = 1 if variable.name.endswith("gamma:0") else 0
            variable.load(start + random.normal(scale=0.1, size=variable.shape.as_list()), session)
        os.makedirs(directory)
        return v1.train.Saver().save(session, f"{directory}/bert_model.ckpt")
