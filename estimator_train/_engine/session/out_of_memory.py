"""Makes out-of-memory errors name the tensor, the device, and remedies to try."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator

import tensorflow as tf

from estimator_train._engine.types import Session, SessionRunArgs, SessionRunContext

_TO_TRY = (
    "a smaller batch per replica (--batch-size)",
    "mixed precision (--mixed-precision, RunConfig(mixed_precision=...))",
    "recomputing activations in the backward pass (--recompute, RunConfig(recompute=True))",
    "accumulating the gradients of several small batches (--accumulate-steps, RunConfig(accumulate_steps=...))",
    "splitting the model over devices (estimator_train.split_over)",
)

# TensorFlow's message: "OOM when allocating tensor with shape[1,64,96,96,96] and type float on /job:…/device:GPU:0 by
# allocator GPU_0_bfc\n\t [[{{node unet3d/mask/Conv3D}}]]", with the node only in functions and graphs.
_TENSOR = re.compile(r"OOM when allocating tensor with shape\[([\d,]*)\] and type (\w+) on \S*device:(\w+:\d+)")
_NODE = re.compile(r"\[\[\{\{node ([^}]+)\}\}")


@contextlib.contextmanager
def explaining_oom() -> Iterator[None]:
    """Puts one line for the user before the message of a `tf.errors.ResourceExhaustedError` inside the block.

    For a model_fn, `ReportAllocationsHook` makes TensorFlow's message list what else was in memory. The tf.functions of
    a Keras model take no RunOptions; for them, the GPU allocator writes its report to standard error if
    TF_CPP_MIN_LOG_LEVEL is 0, TensorFlow's default.
    """
    try:
        yield
    except tf.errors.ResourceExhaustedError as error:
        message = f"{_line(error.message)}\n{error.message}"
        raise tf.errors.ResourceExhaustedError(error.node_def, error.op, message) from error


class ReportAllocationsHook(tf.compat.v1.train.SessionRunHook):
    """Sets `report_tensor_allocations_upon_oom` for the first steps of a v1 session.

    If memory runs out at all, it does so in these steps. The option costs about 5 microseconds per operation.
    """

    def after_create_session(self, session: Session, coord: tf.train.Coordinator) -> None:
        self._steps_left = 10

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs | None:
        self._steps_left -= 1
        if self._steps_left < 0:
            return None
        options = tf.compat.v1.RunOptions(report_tensor_allocations_upon_oom=True)
        return tf.compat.v1.train.SessionRunArgs(None, options=options)


def _line(message: str) -> str:
    node = _NODE.search(message)
    tensor = _TENSOR.search(message)
    # XLA and device libraries report a number of bytes at most.
    shape, dtype, device = tensor.groups() if tensor else ("", "", "a device")
    what = f" {dtype} [{shape}]" if tensor else ""
    where = f" of {node.group(1)}" if node else ""
    return f"{device} is out of memory for the tensor{what}{where}. Try, in this order: {'; '.join(_TO_TRY)}."
