"""ProfilerHook: TensorFlow's own, in eager mode too."""

from __future__ import annotations

import os

import tensorflow as tf


class ProfilerHook(tf.compat.v1.train.ProfilerHook):
    """Writes Chrome traces to `<output_dir>/timeline-<step>.json`.

    Arguments are those of `tf.compat.v1.train.ProfilerHook`, which cannot be made outside of a graph.
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
