"""ProfilerHook: TensorFlow's own, in eager mode too."""

import tensorflow as tf


class ProfilerHook(tf.compat.v1.train.ProfilerHook):
    """Writes Chrome traces to `<output_dir>/timeline-<step>.json`.

    Arguments are those of `tf.compat.v1.train.ProfilerHook`, which cannot be made outside of a graph.
    """

    def __init__(self, save_steps=None, save_secs=None, output_dir="", show_dataflow=True, show_memory=False):
        with tf.Graph().as_default():
            super().__init__(save_steps, save_secs, output_dir, show_dataflow, show_memory)
