"""Errors of one line for arguments in the form of Keras' `fit`, which say what to write here instead."""

import functools
import inspect
import os
from collections.abc import Callable
from typing import Any, TypeVar, cast

_Function = TypeVar("_Function", bound=Callable[..., Any])

_BATCHES = "the input_fn makes the batches: et.input_fns.arrays(x, y, batch_size=32), or dataset.batch(32)"
_COMPILE = "compile the Keras model with it, before model_to_estimator"
_DATA = "pass the data as input_fn: et.input_fns.arrays(x, y)"
_EVALUATE = "et.train_and_evaluate evaluates: et.EvalSpec(eval_input_fn, steps=None, every_steps=steps_per_epoch)"
_METRIC = 'name the metric, without val_, as metric_name or in compare_fn=et.compare_by("loss")'
_OWN_MODEL = "an Estimator trains copies of the model; ask the Keras model itself"
_STRATEGY = "pass et.RunConfig(train_distribute=strategy)"
_TRAIN = "use train(input_fn, max_steps=...)"
_WEIGHTS = "use get_variable_names() and get_variable_value(name)"
_WORKERS = "et.input_fns.generator(make_generator, workers=4) reads in several processes"

# Arguments of Keras' functions, or of its strategies and callbacks, that functions here may lack.
ARGUMENTS = {
    "x": _DATA,
    "y": _DATA,
    "sample_weight": "the input_fn gives the weights: et.input_fns.arrays(x, y, sample_weight)",
    "class_weight": "pass et.input_fns.class_weighted(input_fn, class_weight) as the input_fn",
    "batch_size": _BATCHES,
    "validation_batch_size": _BATCHES,
    "epochs": "max_steps ends a training, or an input_fn that does: et.input_fns.arrays(x, y, num_epochs=2)",
    "steps": "max_steps ends a training, and a dataset that ends, such as dataset.take(3), a prediction",
    "initial_epoch": "leave it out: training goes on from the newest checkpoint in model_dir",
    "steps_per_epoch": "et.CallbacksHook(callbacks, steps_per_epoch) and et.EvalSpec(every_steps=...) count epochs",
    "shuffle": "the input_fn shuffles: et.input_fns.arrays(x, y, shuffle=True), or dataset.shuffle(1000)",
    "callbacks": "pass hooks=[et.CallbacksHook(callbacks)] to train or et.TrainSpec",
    "verbose": "et.ProgressHook() in hooks shows progress, et.RunConfig(log_step_count_steps=...) sets log lines",
    "return_dict": "leave it out: the metrics are always a dict",
    "validation_data": _EVALUATE,
    "validation_freq": _EVALUATE,
    "validation_steps": _EVALUATE,
    "validation_split": "hold rows out with NumPy, and give them an input_fn and an et.EvalSpec of their own",
    "workers": _WORKERS,
    "use_multiprocessing": _WORKERS,
    "max_queue_size": "the dataset prefetches: dataset.prefetch(10)",
    "optimizer": _COMPILE,
    "loss": _COMPILE,
    "loss_weights": _COMPILE,
    "metrics": _COMPILE,
    "weighted_metrics": _COMPILE,
    "run_eagerly": "leave it out: steps are compiled; tf.config.run_functions_eagerly(True) is for debugging",
    "jit_compile": "pass et.RunConfig(jit_compile=True)",
    "steps_per_execution": "pass et.RunConfig(steps_per_loop=...)",
    "gradient_accumulation_steps": "pass et.RunConfig(accumulate_steps=...)",
    "strategy": _STRATEGY,
    "distribution": _STRATEGY,
    "distribute_strategy": _STRATEGY,
    "monitor": _METRIC,
    "mode": 'say it as et.compare_by("accuracy", "max") in compare_fn',
    "save_best_only": "et.BestCheckpointExporter() in EvalSpec(exporters=...) keeps the best checkpoint",
    "patience": "count in steps: max_steps_without_decrease or max_steps_without_increase",
}

# Methods and attributes of a Keras model, or of TensorFlow 1's Estimator, that an Estimator lacks.
MEMBERS = {
    "fit": _TRAIN,
    "fit_generator": _TRAIN,
    "train_on_batch": _TRAIN,
    "evaluate_generator": "use evaluate(input_fn)",
    "test_on_batch": "use evaluate(input_fn)",
    "predict_generator": "use predict(input_fn)",
    "predict_on_batch": "use predictor()",
    "compile": _COMPILE.replace(" with it", ""),
    "save": "use export_saved_model(directory, serving_input_receiver_fn), or the checkpoints in model_dir",
    "export": "use export_saved_model(directory, serving_input_receiver_fn)",
    "export_savedmodel": "it is the TensorFlow 1 name; use export_saved_model",
    "save_weights": "train writes checkpoints; latest_checkpoint() is the newest",
    "load_weights": "pass warm_start_from=... to model_to_estimator",
    "get_weights": _WEIGHTS,
    "weights": _WEIGHTS,
    "trainable_weights": _WEIGHTS,
    "variables": _WEIGHTS,
    "trainable_variables": _WEIGHTS,
    **dict.fromkeys(
        ("get_layer", "history", "layers", "loss", "metrics", "metrics_names", "optimizer", "set_weights", "summary"),
        _OWN_MODEL,
    ),
}


def refuses_keras_arguments(function: _Function) -> _Function:
    """Wraps a function to raise TypeError, with the way that `ARGUMENTS` names, for those that it does not take."""
    taken = inspect.signature(function).parameters
    name_of = function.__qualname__.removesuffix(".__init__").removesuffix(".__new__")

    @functools.wraps(function)
    def checked(*args: Any, **kwargs: Any) -> Any:
        for name in kwargs:
            if name in ARGUMENTS and name not in taken:
                raise TypeError(f"{name_of}() has no argument {name!r}; {ARGUMENTS[name]}.")
        return function(*args, **kwargs)

    return cast(_Function, checked)


def check_input_fn(input_fn: Any, argument: str = "input_fn") -> None:
    """Raises TypeError if `input_fn` is not a function, such as the arrays or the dataset that fit takes."""
    if not callable(input_fn):
        raise TypeError(f"`{argument}` must be callable, given: {shown(input_fn)}; {_way_of_data(input_fn)}.")


def _way_of_data(data: Any) -> str:
    dataset = "a function that creates and returns the dataset"
    if is_array(data) or (isinstance(data, (dict, list, tuple)) and data):
        return f"pass et.input_fns.arrays(x, y), or {dataset}"
    is_sequence = hasattr(data, "__len__") and hasattr(data, "__getitem__") and not isinstance(data, (str, bytes))
    if is_sequence or hasattr(data, "__next__"):
        return f"pass et.input_fns.generator(make_generator), or {dataset}"
    return f"pass {dataset}"


def is_array(value: Any) -> bool:
    """Returns whether this is a NumPy array, a tensor, a DataFrame or the like."""
    return hasattr(value, "__array__")


def is_callback(value: Any) -> bool:
    """Returns whether this is a callback of either Keras."""
    return hasattr(value, "on_train_begin")


def is_model(value: Any) -> bool:
    """Returns whether this is a model of any Keras, such as tensorflow.python.keras, rather than a function."""
    return hasattr(type(value), "compile") and hasattr(type(value), "get_weights")


def is_path(value: Any) -> bool:
    return isinstance(value, (str, os.PathLike))


def shown(value: Any) -> str:
    """Returns how an error shows a value: its repr, if that is a short line, or the name of its type."""
    text = "" if is_array(value) else repr(value)
    if text and "\n" not in text and len(text) <= 300:
        return text
    return type(value).__name__
