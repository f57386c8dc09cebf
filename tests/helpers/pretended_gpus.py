"""Pretends that TensorFlow sees GPUs, up to their first kernel: `python -m tests.helpers.pretended_gpus COUNT CODE`.

TensorFlow's own checks of the devices run, as on a machine with GPUs. CODE may call `first_kernel`, and `stop_at_scope`
ends the process with the line "first kernel" where a strategy would create its first variable.
"""

import sys

import estimator_train  # noqa: F401, before TensorFlow, as users have it

# isort: split
import tensorflow as tf
from tensorflow.python.eager import context


def pretend(count):
    devices = context.context()
    devices._initialize_physical_devices()
    for index in range(count):
        gpu = context.PhysicalDevice(name=f"/physical_device:GPU:{index}", device_type="GPU")
        devices._physical_devices.append(gpu)
        devices._visible_device_list.append(gpu)
        devices._memory_growth_map[gpu] = None
    tf.config.experimental.get_device_details = lambda gpu: {"device_name": "pretended"}


def opened():
    """Returns the GPUs that TensorFlow opens, and whether their memory grows; raises its errors."""
    options = context.context()._compute_gpu_options()
    return options.visible_device_list, options.allow_growth


def stop_at_scope():
    def scope(strategy):
        print("first kernel:", *(device.rpartition("device:")[2] for device in strategy.extended.worker_devices))
        print("opened:", *opened())
        raise SystemExit(0)

    mirrored = tf.distribute.MirroredStrategy, tf.distribute.MultiWorkerMirroredStrategy
    for strategy in (tf.distribute.OneDeviceStrategy, *mirrored):
        strategy.scope = scope


if __name__ == "__main__":
    pretend(int(sys.argv[1]))
    exec(sys.argv[2], {"tf": tf, "opened": opened, "stop_at_scope": stop_at_scope, "__name__": "__main__"})
