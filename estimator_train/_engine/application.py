"""All that the application takes of this room, besides `host` and `remedies`; no other module of it is for `app/`.

The files of a run, for `app/runs/`:

- `latest_intact`, `kept_in` and `damage_of` tell which checkpoints there are, and whether they can be read; `reader_of`
  reads one.
- `read_eval_metrics` reads event files.

Training, for `app/running/`:

- `show_gpus` and `replace_by_cpus` choose the devices of the process before a strategy is created.
- `SavingHook` and `FunctionSession` let a hook save and count the steps done while a step waits for its input, and
  `sums_of_workers` lets it agree with those of other workers.
- `eager_mode` lets a listener compute, for example draw images, while the graph of a training is the default.

Input, for `app/datasets/` and `app/report/`:

- `StartsAnywhere` is the protocol of an input_fn that a resumed training starts where it left off; `draw_seed`,
  `shuffled` and `share_of_pipeline` give it an order that depends on the seed alone.
- `batch_sizes` reads an input_fn as a training does.

Keras models of either generation, for `app/models/`, `app/running/` and `app/report/`:

- `keras_of`, `compile_arguments` and `inputs_of` answer what models do not answer in public, or differently.
- `copy_of` copies a model, and `restore` gives it the values of a checkpoint.
- `layer_calls` takes a functional model apart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import ModuleType
from typing import TYPE_CHECKING, Any

import tensorflow as tf

from estimator_train._engine.checkpoints import damage_of, kept_in, latest_intact, reader_of
from estimator_train._engine.checkpoints.saver_hook import SavingHook
from estimator_train._engine.cluster import synchronous
from estimator_train._engine.distribution.absent_gpus import replace_by_cpus
from estimator_train._engine.distribution.replica_input import batch_size, call_input_fn
from estimator_train._engine.distribution.strategies import show_gpus
from estimator_train._engine.events import read_eval_metrics
from estimator_train._engine.host.dataset_iterators import iterate
from estimator_train._engine.input_fns.order import draw_seed, share_of_pipeline, shuffled
from estimator_train._engine.input_fns.protocols import StartsAnywhere, on_host_and_device, without_changes
from estimator_train._engine.session.function_session import FunctionSession
from estimator_train._engine.session.private_tensorflow import eager_mode
from estimator_train._engine.types import InputFn

# The rooms for models are imported inside functions: a program that reads the files of runs needs none.
if TYPE_CHECKING:
    from estimator_train._engine.keras.protocols import Model
    from estimator_train._engine.keras.tf_keras.layer_graph import Call, KerasTensor

__all__ = [
    "FunctionSession",
    "SavingHook",
    "StartsAnywhere",
    "batch_sizes",
    "compile_arguments",
    "copy_of",
    "damage_of",
    "draw_seed",
    "eager_mode",
    "inputs_of",
    "kept_in",
    "keras_of",
    "latest_intact",
    "layer_calls",
    "read_eval_metrics",
    "reader_of",
    "replace_by_cpus",
    "restore",
    "share_of_pipeline",
    "show_gpus",
    "shuffled",
    "sums_of_workers",
]


def sums_of_workers(strategy: tf.distribute.Strategy | None) -> Callable[..., list[int]] | None:
    """Returns a function that sums each of its arguments over the workers of `strategy`, or None for one process.

    All workers must call it. Each returns only once all others have the sums, too, so that it may end.
    """
    if not synchronous.spans_workers(strategy):
        return None
    sums = synchronous.summing(strategy)
    return lambda *values: synchronous.last_sums(sums, *values)


def batch_sizes(input_fn: InputFn) -> Iterator[int]:
    """Reads the batches of an input_fn as training does, without what replicas do to them, and yields their sizes."""
    input_fn, _ = without_changes(input_fn)
    on_host, _ = on_host_and_device(input_fn)
    for batch in iterate(call_input_fn(on_host)):
        yield int(batch_size(batch))


def keras_of(model: object) -> ModuleType:
    """Returns the module `tf_keras` or `keras` that `model` is from; raises ValueError if it is not a Keras model."""
    from estimator_train._engine.keras.adapter_choice import adapter_of

    return adapter_of(model).keras


def compile_arguments(model: Model) -> dict[str, Any]:
    """Returns the arguments that `model` was compiled with, and its current optimizer."""
    from estimator_train._engine.keras import private_keras

    return private_keras.compile_arguments(model) | {"optimizer": model.optimizer}


def inputs_of(model: Model) -> dict[str, Any]:
    """Returns a dict of the names of the inputs of `model` to their shapes and dtypes; empty if they are unknown."""
    from estimator_train._engine.keras.adapter_choice import adapter_of

    return adapter_of(model).inputs(model)


def copy_of(model: Model) -> Model:
    """Returns a compiled copy of `model` with its state and variables of its own, in the scope of the strategy."""
    from estimator_train._engine.keras.adapter_choice import model_source

    return model_source(model).copy(tf.distribute.get_strategy())


def restore(model: Model, checkpoint: str) -> None:
    """Restores `model`, which is compiled and built, from the checkpoint at a path prefix, with its optimizer.

    The weights become their moving averages if the optimizer keeps some, as in evaluation. Raises CheckpointError if
    the checkpoint is missing, damaged, or belongs to another model.
    """
    from estimator_train._engine.checkpoints import object_based
    from estimator_train._engine.keras.adapter_choice import adapter_of

    adapter = adapter_of(model)
    optimizer: Any = model.optimizer
    if hasattr(optimizer, "build"):
        optimizer.build(model.trainable_variables)
    parts = adapter.saved_parts(model)
    attached = {"estimator_global_step": tf.Variable(0, dtype=tf.int64)}
    object_based.restore(parts, attached, checkpoint, trains=True)
    if object_based.keeps_averages(optimizer):
        object_based.take_averages(parts, checkpoint)
    adapter.finalize_state(model)


def layer_calls(model: Model, option: str) -> tuple[list[Call], list[KerasTensor]] | None:
    """Returns all calls of layers in `model`, in order, and its outputs; None unless it is functional or Sequential.

    Layers of models inside count, too, and may be called again. Raises UnsuitableError with the setting `option`,
    which needs the calls, if a model inside cannot be taken apart.
    """
    from estimator_train._engine.keras.tf_keras.layer_graph import calls_within, is_functional

    if not is_functional(model):
        return None
    return calls_within(model, option)
