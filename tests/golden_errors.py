"""Prints the errors of many calls with wrong arguments, as a Python session would show their last lines.

tests/test_golden_errors.py compares them with tests/data/errors/errors.txt, so that a changed message shows as a
changed line. To rewrite the file: `python -m tests.golden_errors > tests/data/errors/errors.txt`
"""

from __future__ import annotations

import json
import os
import re
from unittest import mock

import numpy as np
import tensorflow as tf
import tf_keras as keras

import estimator_train as et
from estimator_train._engine.host.cluster_task import ClusterTask, read_tf_config, this_task

X, Y = np.ones((8, 4), np.float32), np.arange(8) % 3
DATA = et.input_fns.arrays(X, Y, batch_size=4)
CALLBACK = keras.callbacks.TerminateOnNaN()
FLOATS, INTS = tf.constant([1.0]), tf.constant([1])
ANY = et.Estimator(lambda features: None, "run")
PETS = ["cat", "dog", "bird"]
CLUSTER = {"chief": ["c:1"], "ps": ["p:1", "p:2"], "worker": ["w:1", "w:2"]}
MASTER = {"master": ["m:1"], "ps": ["p:1"], "worker": ["w:1"]}


class Rows(keras.utils.Sequence):
    def __len__(self):
        return 2

    def __getitem__(self, index):
        return X[:4], Y[:4]


class Exports(et.Exporter):
    name = None  # which Exporter leaves abstract

    def __init__(self, name):
        self.name = name

    def export(self, *arguments):
        pass


def train(**arguments):
    ANY.train(DATA, **arguments)


def spec(mode="train", **fields):
    with tf.Graph().as_default():
        et.EstimatorSpec(mode, **{"loss": tf.constant(1.0), "train_op": tf.no_op()} | fields)


def predict_spec(**fields):
    with tf.Graph().as_default():
        et.EstimatorSpec("infer", predictions=tf.constant([1.0]), **fields)


def receiver(*arguments):
    """Makes a receiver of the arguments, in which an "x" stands for a tensor."""
    et.export.ServingInputReceiver(*tf.nest.map_structure(lambda value: FLOATS if value == "x" else value, arguments))


def task(kind, index=0):
    return {"type": kind, "index": index}


def cluster_task(cluster, task):
    ClusterTask.from_tf_config({"cluster": cluster, "task": task})


def tf_config(value, read=read_tf_config):
    text = value if isinstance(value, str) else json.dumps(value)
    with mock.patch.dict(os.environ, {"TF_CONFIG": text}):
        read()


def chief_of(cluster):
    tf_config({"cluster": cluster, "task": task("chief")}, this_task)


# Each pair has what the error must name, and the call that raises it.
CALLS = (
    ("Hooks hook", "train(hooks=['hook'])"),
    ("Hooks CallbacksHook", "train(hooks=[CALLBACK])"),
    ("CheckpointSaverListener SessionRunHook", "train(saving_listeners=[et.SessionRunHook()])"),
    ("steps max_steps", "train(steps=1, max_steps=1)"),
    ("steps 0", "train(steps=0)"),
    ("max_steps -1", "train(max_steps=-1)"),
    ("max_steps 0", "et.TrainSpec(DATA, max_steps=0)"),
    ("hooks 7", "et.TrainSpec(DATA, hooks=[7])"),
    ("CallbacksHook", "et.TrainSpec(DATA, hooks=CALLBACK)"),
    ("CheckpointSaverListener 7", "et.TrainSpec(DATA, saving_listeners=[7])"),
    ("CheckpointSaverListener 7 list", "et.TrainSpec(DATA, saving_listeners=7)"),
    ("CallbacksHook", "et.TrainSpec(DATA, saving_listeners=[CALLBACK])"),
    ("input_fn None", "et.EvalSpec(None)"),
    ("steps 0", "et.EvalSpec(DATA, steps=0)"),
    ("every_steps 0", "et.EvalSpec(DATA, every_steps=0)"),
    ("start_delay_secs -1", "et.EvalSpec(DATA, start_delay_secs=-1)"),
    ("throttle_secs -1", "et.EvalSpec(DATA, throttle_secs=-1)"),
    ("name 7", "et.EvalSpec(DATA, name=7)"),
    ("hooks 7", "et.EvalSpec(DATA, hooks=[7])"),
    ("exporters 7", "et.EvalSpec(DATA, exporters=[7])"),
    ("BestCheckpointExporter", "et.EvalSpec(DATA, exporters=CALLBACK)"),
    ("listeners 7", "et.EvalSpec(DATA, listeners=[7])"),
    ("listeners 7 list", "et.EvalSpec(DATA, listeners=7)"),
    ("Exporter name", "et.EvalSpec(DATA, exporters=Exports(''))"),
    ("Exporter name", "et.EvalSpec(DATA, exporters=Exports(None))"),
    ("unique 'a'", "et.EvalSpec(DATA, exporters=(Exports(name) for name in 'aa'))"),
    ("loss", "spec('train', loss=None)"),
    ("train_op", "spec('train', train_op=None)"),
    ("loss", "spec('eval', loss=None)"),
    ("predictions", "spec('infer', predictions=None)"),
    ("mode 'training'", "spec('training')"),
    ("loss 1.0", "spec(loss=1.0)"),
    ("train_op minimize", "spec(train_op='minimize')"),
    ("predictions[y]", "spec(predictions={'y': [1.0]})"),
    ("predictions 3", "spec(predictions=3)"),
    ("predictions Sparse", "spec(predictions=tf.SparseTensor([[0]], [1.0], [1]))"),
    ("eval_metric_ops 1", "spec(eval_metric_ops=[1])"),
    ("eval_metric_ops mae", "spec(eval_metric_ops={'mae': 1.0})"),
    ("scaffold saver", "spec(scaffold='saver')"),
    ("hooks print", "spec(training_hooks=[print])"),
    ("hooks 1", "spec(training_chief_hooks=[1])"),
    ("hooks 1", "spec(evaluation_hooks=[1])"),
    ("hooks 1", "spec(prediction_hooks=[1])"),
    ("export_outputs 1", "predict_spec(export_outputs=[1])"),
    ("ExportOutput 1 y", "predict_spec(export_outputs={'y': 1})"),
    ("input_fn ndarray arrays", "et.TrainSpec(X)"),
    ("input_fn list arrays", "et.TrainSpec([X, X])"),
    ("input_fn tuple arrays", "et.TrainSpec((X, Y))"),
    ("input_fn dict arrays", "et.TrainSpec({'x': X})"),
    ("input_fn EagerTensor arrays", "et.TrainSpec(tf.constant(X))"),
    ("input_fn Rows generator", "et.TrainSpec(Rows())"),
    ("input_fn list_iterator generator", "et.TrainSpec(iter([X]))"),
    ("input_fn _RangeDataset function", "et.TrainSpec(tf.data.Dataset.range(3))"),
    ("input_fn 'data' function", "et.TrainSpec('data')"),
    ("input_fn None function", "et.TrainSpec(None)"),
    ("train_distribute 'mirrored'", "et.RunConfig(train_distribute='mirrored')"),
    ("eval_distribute MirroredStrategy", "et.RunConfig(eval_distribute=tf.distribute.MirroredStrategy)"),
    ("jit_compile 'auto'", "et.RunConfig(jit_compile='auto')"),
    ("task_id", "et.RunConfig().replace(task_id=1)"),
    ("is_chief", "et.RunConfig().replace(is_chief=1)"),
    ("no_such_setting", "et.RunConfig().replace(no_such_setting=1)"),
    ("keras_model_path", "et.model_to_estimator('model.keras')"),
    ("model_to_estimator keras_model_path", "et.Estimator('model.keras')"),
    ("callbacks 'EarlyStopping'", "et.CallbacksHook('EarlyStopping')"),
    ("names flip", "et.input_fns.augmented(DATA, keras.layers.RandomFlip())"),
    ("ndarray et.input_fns.arrays", "et.input_fns.augmented(X, 'light')"),
    ("ndarray et.input_fns.arrays", "et.input_fns.class_weighted(X, [1, 2])"),
    ("ndarray et.input_fns.arrays", "et.input_fns.frozen_features(X)"),
    ("function Rows", "et.input_fns.generator(Rows())"),
    ("x list tuple(x) np.stack(x)", "et.input_fns.arrays([X, X], [Y, Y])"),
    ("x _RangeDataset", "et.input_fns.arrays(tf.data.Dataset.range(3))"),
    ("loss_fn 'mse'", "et.MultiClassHead(3, loss_fn='mse')"),
    ("loss_reduction none", "et.BinaryClassHead(loss_reduction='none')"),
    ("loss_reduction mean", "et.BinaryClassHead(loss_reduction='mean')"),
    ("loss_fn logits", "et.BinaryClassHead(loss_fn=lambda labels: labels)"),
    ("loss_fn 'x'", "et.BinaryClassHead(loss_fn=lambda labels, logits, x: x)"),
    ("thresholds 1.0", "et.BinaryClassHead(thresholds=[0.5, 1.0])"),
    ("label_vocabulary", "et.BinaryClassHead(label_vocabulary='ab')"),
    ("n_classes 3", "et.BinaryClassHead(label_vocabulary=PETS)"),
    ("n_classes 2", "et.MultiClassHead(n_classes=2)"),
    ("n_classes None", "et.MultiClassHead(n_classes=None)"),
    ("n_classes 3 1", "et.MultiClassHead(n_classes=3, label_vocabulary=['a'])"),
    ("n_classes 1", "et.MultiLabelHead(n_classes=1)"),
    ("3", "et.MultiLabelHead(n_classes=3, classes_for_class_based_metrics=[3])"),
    ("label_vocabulary", "et.MultiLabelHead(n_classes=3, classes_for_class_based_metrics=['a'])"),
    ("label_dimension 0", "et.RegressionHead(label_dimension=0)"),
    ("heads", "et.MultiHead([])"),
    ("name", "et.MultiHead([et.RegressionHead()])"),
    ("names 'a'", "et.MultiHead([et.RegressionHead(name='a'), et.BinaryClassHead(name='a')])"),
    ("head_weights 1 2", "et.MultiHead([et.RegressionHead(name='a')], [1.0, 2.0])"),
    ("features", "receiver(None, 1)"),
    ("feature x Tensor", "receiver({'x': 1.0}, 'x')"),
    ("feature 1.5", "receiver({1.5: 'x'}, 'x')"),
    ("receiver_tensors", "receiver('x', None)"),
    ("receiver_tensor 1", "receiver('x', {1: 'x'})"),
    ("receiver_tensors_alternatives dict", "receiver('x', 'x', ['x'])"),
    ("receiver_tensors_alternative 1.0", "receiver('x', 'x', {'raw': 1.0})"),
    ("key 1", "et.export.PredictOutput({1: FLOATS})"),
    ("value 1.0", "et.export.PredictOutput({'y': 1.0})"),
    ("scores classes", "et.export.ClassificationOutput()"),
    ("scores float32", "et.export.ClassificationOutput(scores=INTS)"),
    ("classes string", "et.export.ClassificationOutput(classes=INTS)"),
    ("value float32", "et.export.RegressionOutput(INTS)"),
    ("metrics/m value 1.0", "et.export.EvalOutput(metrics={'m': (1.0, FLOATS)})"),
    ("metrics/m update_op 1.0", "et.export.EvalOutput(metrics={'m': (FLOATS, 1.0)})"),
    ("compare_fn None", "et.BestCheckpointExporter(compare_fn=None)"),
    ("compare_fn 'a' 'b'", "et.BestCheckpointExporter(compare_fn=lambda a, b: True)"),
    ("model_fn", "et.Estimator(None)"),
    ("features", "et.Estimator(lambda labels: None)"),
    ("params", "et.Estimator(lambda features: None, params={'rate': 1})"),
    ("'learning_rate'", "et.Estimator(lambda features, labels, learning_rate: None)"),
    ("keras_model keras_model_path", "et.model_to_estimator()"),
    ("keras_model keras_model_path", "et.model_to_estimator(keras_model=1, keras_model_path='x')"),
    ("compiled", "et.model_to_estimator(keras.Sequential([keras.layers.Dense(1, input_shape=(1,))]))"),
    (
        "run_every_secs=60 run_every_steps=5",
        "et.experimental.make_early_stopping_hook(ANY, bool, run_every_steps=5)",
    ),
    (
        "run_every_secs=60 run_every_steps=5",
        "et.experimental.stop_if_lower_hook(ANY, 'loss', 1, run_every_steps=5)",
    ),
    ("run_every_secs=None", "et.experimental.make_early_stopping_hook(ANY, bool, run_every_secs=None)"),
    ("estimator 'run'", "et.experimental.make_early_stopping_hook('run', bool)"),
    ("estimator 'run'", "et.experimental.stop_if_lower_hook('run', 'loss', 1)"),
    ("should_stop_fn True", "et.experimental.make_early_stopping_hook(ANY, True)"),
    ("dtype 'int8'", "et.input_fns.frozen_features(DATA, dtype='int8')"),
    ("batch_size 0", "et.input_fns.frozen_features(DATA, batch_size=0)"),
    ("batch_size 0", "et.input_fns.generator(lambda: iter([(1, 2)]), batch_size=0)"),
    ("batch_size 0", "et.input_fns.arrays(X, batch_size=0)"),
    ("sample_weight y", "et.input_fns.arrays(X, sample_weight=Y)"),
    ("shuffle", "et.inputs.numpy_input_fn(Y, None, shuffle=None)"),
    ("x list", "et.inputs.numpy_input_fn([1, 2], None, shuffle=False)"),
    ("x", "et.inputs.numpy_input_fn({}, None, shuffle=False)"),
    ("x empty", "et.inputs.numpy_input_fn(np.zeros([0]), None, shuffle=False)"),
    ("y", "et.inputs.numpy_input_fn(Y, {}, shuffle=False)"),
    ("x y 'a'", "et.inputs.numpy_input_fn({'a': Y}, {'a': Y}, shuffle=False)"),
    ("x['a'] 8 y 3", "et.inputs.numpy_input_fn({'a': Y}, Y[:3], shuffle=False)"),
    ("TF_CONFIG JSON {not", "tf_config('{not json')"),
    ("TF_CONFIG JSON", "tf_config(' ')"),
    ("TF_CONFIG JSON []", "tf_config([])"),
    ("TF_CONFIG JSON null", "tf_config(None)"),
    ("TF_CONFIG worker 5", "tf_config({'cluster': {'worker': 5}})"),
    *(
        (f"{part} TF_CONFIG", f"tf_config({{{part!r}: {value!r}}})")
        for part in ("cluster", "task", "service")
        for value in ("worker", [], 0)
    ),
    ("TF_CONFIG cluster", "chief_of([])"),
    (
        "TF_CONFIG 2222",
        "chief_of({'chief': [2222], 'worker': ['w:1']})",
    ),
    (
        "TF_CONFIG 10.5",
        "chief_of({'chief': ['c:1'], 'worker': [10.5]})",
    ),
    ("TF_CONFIG 7", "chief_of({'chief': ['c:1'], 'worker': {'0': 7}})"),
    (
        "TF_CONFIG None",
        "chief_of({'chief': [None], 'worker': ['w:1']})",
    ),
    ("chief", "cluster_task({'worker': ['w:1']}, task('worker'))"),
    ("chief", "cluster_task({'chief': ['c:1', 'c:2']}, task('chief'))"),
    ("chief", "cluster_task({'chief': []}, task('chief'))"),
    ("chief", "cluster_task({'worker': ['w:1'], 'ps': ['p:1']}, task('evaluator'))"),
    ("master", "cluster_task({'master': ['m:1', 'm:2']}, task('master'))"),
    ("evaluator", "cluster_task(CLUSTER | {'evaluator': ['e:1', 'e:2']}, task('chief'))"),
    ("type", "cluster_task(CLUSTER, None)"),
    ("type", "cluster_task(CLUSTER, {'index': 0})"),
    ("index", "cluster_task(CLUSTER, {'type': 'worker'})"),
    ("index -1", "cluster_task(CLUSTER, task('worker', -1))"),
    ("index 0.5", "cluster_task(CLUSTER, task('worker', 0.5))"),
    ("index -1", "cluster_task(CLUSTER, task('evaluator', -1))"),
    ("worker 2 cluster", "cluster_task(CLUSTER, task('worker', 2))"),
    ("boss 0 cluster", "cluster_task(CLUSTER, task('boss'))"),
    ("evaluator chief master", "cluster_task(MASTER, task('evaluator'))"),
    ("chief master", "cluster_task(MASTER | {'chief': ['c:1']}, task('chief'))"),
    ("worker 0", "cluster_task(None, task('chief'))"),
    ("worker 0", "cluster_task(None, task('evaluator'))"),
    ("worker 0", "cluster_task(None, task('worker', 1))"),
    ("index -1", "cluster_task(None, task('worker', -1))"),
    ("2222", "cluster_task({'chief': [2222]}, task('chief'))"),
)


def error_of(call: str) -> str:
    """Returns the type and the message of the error of a call; values without a lasting text are cut short."""
    try:
        eval(call)
    except (TypeError, ValueError) as error:
        text = f"{type(error).__name__}: {error}"
        text = re.sub(r"<(?:\w+\.)*(\w+)[^<>]*(?: at 0x|=)[^<>]*>", r"<\1 ...>", text)
        return re.sub(r" at 0x\w+", " at 0x...", text)  # of a lambda, whose name is in angle brackets, too
    raise AssertionError(f"{call} is no error")


if __name__ == "__main__":
    for _, wrong in CALLS:
        print(f">>> {wrong}\n{error_of(wrong)}")
