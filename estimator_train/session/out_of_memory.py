"""Makes out-of-memory errors say which tensor, on which device, and what to try."""

from __future__ import annotations

import contextlib
import re

import tensorflow as tf

_TO_TRY = (
    "a smaller batch per replica (--batch-size)",
    "mixed precision (--mixed-precision, RunConfig(mixed_precision=...))",
    "computing activations again in the backward pass (--recompute, RunConfig(recompute=True))",
    "accumulating the gradients of several small batches (--accumulate-steps, RunConfig(accumulate_steps=...))",
    "splitting the model over devices (--split-over of recipes, estimator_train.split_over)",
)

# As TensorFlow has it: "OOM when allocating tensor with shape[1,64,96,96,96] and type float on /job:…/device:GPU:0 by
# allocator GPU_0_bfc\n\t [[{{node unet3d/mask/Conv3D}}]]", the node only in functions and graphs.
_TENSOR = re.compile(r"OOM when allocating tensor with shape\[([\d,]*)\] and type (\w+) on \S*device:(\w+:\d+)")
_NODE = re.compile(r"\[\[\{\{node ([^}]+)\}\}")


@contextlib.contextmanager
def explaining_oom():
    """A `tf.errors.ResourceExhaustedError` of what runs inside begins with one line for the user.

    Below it is TensorFlow's own message. For a model_fn, `ReportAllocationsHook` adds to that what else was in memory.
    The tf.functions of a Keras model take no RunOptions: for them a GPU's allocator writes its report to standard
    error, where TF_CPP_MIN_LOG_LEVEL is 0, TensorFlow's default.
    """
    try:
        yield
    except tf.errors.ResourceExhaustedError as error:
        message = f"{_line(error.message)}\n{error.message}"
        raise tf.errors.ResourceExhaustedError(error.node_def, error.op, message) from error


class ReportAllocationsHook(tf.compat.v1.train.SessionRunHook):
    """Switches `report_tensor_allocations_upon_oom` on for the first steps of a v1 session.

    Memory runs out in those if it ever does. With it, TensorFlow takes about 5 microseconds more for each operation.
    """

    def after_create_session(self, session, coord):
        self._steps_left = 10

    def before_run(self, run_context):
        self._steps_left -= 1
        if self._steps_left >= 0:
            options = tf.compat.v1.RunOptions(report_tensor_allocations_upon_oom=True)
            return tf.compat.v1.train.SessionRunArgs(None, options=options)


def _line(message):
    node = _NODE.search(message)
    tensor = _TENSOR.search(message)
    # XLA and the libraries of a device tell a number of bytes at most.
    shape, dtype, device = tensor.groups() if tensor else ("", "", "a device")
    what = f" {dtype} [{shape}]" if tensor else ""
    where = f" of {node.group(1)}" if node else ""
    return f"{device} is out of memory for the tensor{what}{where}. Try, in this order: {'; '.join(_TO_TRY)}."
