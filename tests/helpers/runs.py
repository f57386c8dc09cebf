"""Runs as they were at an earlier step, so that one training gives the numbers of a whole and its first half."""

import shutil

import tensorflow as tf


def copy_as_of(step, run, folder):
    """Copies a run with the checkpoint of a step alone, and returns `folder`."""

    def others(directory, names):
        return [name for name in names if name.startswith("model.ckpt-") and f"-{step}." not in name]

    shutil.copytree(run, folder, ignore=others)
    tf.compat.v1.train.update_checkpoint_state(folder, f"model.ckpt-{step}")
    return folder
