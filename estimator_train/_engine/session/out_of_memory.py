"""Makes out-of-memory errors name the tensor, the device, and remedies to try."""

import contextlib
import math
import re
from collections.abc import Iterator
from typing import Any

import tensorflow as tf

from estimator_train._engine.remedies import RemediedError, Setting
from estimator_train._engine.types import Session, SessionRunArgs, SessionRunContext

_TO_TRY = (
    Setting("batch_size", "batch_size of the input_fn", words="a smaller batch per replica ({})"),
    Setting("mixed_precision", "RunConfig(mixed_precision=...)", words="mixed precision ({})"),
    Setting("recompute", "RunConfig(recompute=True)", words="recomputing activations in the backward pass ({})"),
    Setting(
        "accumulate_steps", "RunConfig(accumulate_steps=...)", words="accumulating gradients of small batches ({})"
    ),
    Setting("split_over", "estimator_train.split_over", words="splitting the model over devices ({})"),
    Setting("cpu", "CUDA_VISIBLE_DEVICES=-1", words="the CPU instead ({})"),
)

# TensorFlow's error has no more than its text: "OOM when allocating tensor with shape[1,64,96,96,96] and type float on
# /job:…/device:GPU:0 by allocator GPU_0_bfc\n\t [[{{node unet3d/mask/Conv3D}}]]", with the node only in functions and
# graphs.
_TENSOR = re.compile(r"OOM when allocating tensor with shape\[([\d,]*)\] and type (\w+) on \S*device:(\w+:\d+)")
_NODE = re.compile(r"\[\[\{\{node ([^}]+)\}\}")


class OutOfMemoryError(RemediedError, tf.errors.ResourceExhaustedError):
    """A device is out of memory. One line for the user precedes TensorFlow's `message`."""

    form = "{} Try, in this order: {}."

    def __init__(self, node_def: Any, op: tf.Operation | None, message: str) -> None:
        self.fault = _fault(message)
        self.remedies = _TO_TRY if self.fault.startswith("GPU") else _TO_TRY[:-1]
        super().__init__(node_def, op, f"{self.spelled()}\n{message}")


@contextlib.contextmanager
def explaining_oom() -> Iterator[None]:
    """Raises OutOfMemoryError for a `tf.errors.ResourceExhaustedError` inside the block."""
    # For a model_fn, `ReportAllocationsHook` makes TensorFlow's message list what else was in memory. The tf.functions
    # of a Keras model take no RunOptions; for them, the GPU allocator writes its report to standard error if
    # TF_CPP_MIN_LOG_LEVEL is 0, TensorFlow's default.
    try:
        yield
    except tf.errors.ResourceExhaustedError as error:
        raise OutOfMemoryError(error.node_def, error.op, error.message) from error


class ReportAllocationsHook(tf.compat.v1.train.SessionRunHook):
    """Lets the first steps of a v1 session, where memory runs out if at all, report allocations; 5 us per operation."""

    def after_create_session(self, session: Session, coord: tf.train.Coordinator) -> None:
        self._steps_left = 10

    def next_look(self, global_step: int) -> float:
        return math.inf

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs | None:
        self._steps_left -= 1
        if self._steps_left < 0:
            return None
        options = tf.compat.v1.RunOptions(report_tensor_allocations_upon_oom=True)
        return tf.compat.v1.train.SessionRunArgs(None, options=options)


def _fault(message: str) -> str:
    node = _NODE.search(message)
    tensor = _TENSOR.search(message)
    device, what = "a device", ""  # XLA and device libraries report a number of bytes at most
    if tensor:
        shape, dtype, device = tensor.groups()
        what = f" {dtype} [{shape}]"
    if node:
        what += f" of {node.group(1)}"
    return f"{device} is out of memory for the tensor{what}."
