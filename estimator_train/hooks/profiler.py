"""ProfilerHook: TensorFlow's, made usable from eager mode."""

import os

import tensorflow as tf


class ProfilerHook(tf.compat.v1.train.ProfilerHook):
    """Writes Chrome traces to `<output_dir>/timeline-<step>.json`.

    Takes the arguments of `tf.compat.v1.train.ProfilerHook`, which can only be constructed inside a graph.

        >>> profiler = et.ProfilerHook(save_steps=100, output_dir=estimator.model_dir)
    """

    def __init__(
        self,
        save_steps: int | None = None,
        save_secs: float | None = None,
        output_dir: str | os.PathLike[str] = "",
        show_dataflow: bool = True,
        show_memory: bool = False,
    ) -> None:
        with tf.Graph().as_default():
            super().__init__(save_steps, save_secs, output_dir, show_dataflow, show_memory)
