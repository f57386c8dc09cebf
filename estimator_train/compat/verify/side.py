"""Runs a script on one side of a verification: python side.py SCRIPT [ARGUMENTS], or -m MODULE in place of SCRIPT.

The Python of the old TensorFlow runs this file, too: it imports nothing of the package, and is written for Python 3.6.
Temporary directories get the same names in each run, so that the files of the two sides can be paired.
"""

import collections
import glob
import importlib
import itertools
import os
import runpy
import shutil
import sys
import tempfile

FIRST_CHECKPOINTS = "ESTIMATOR_TRAIN_FIRST_CHECKPOINTS"  # names the folder for them


def main() -> None:
    tempfile.mkdtemp = _numbered_directories()
    if FIRST_CHECKPOINTS in os.environ:
        if sys.argv[1:3] == ["-m", "estimator_train"]:
            importlib.import_module("estimator_train")  # sets what TensorFlow reads when it is imported
        _keep_first_checkpoints(os.path.realpath(os.getcwd()), os.environ[FIRST_CHECKPOINTS])
    is_module = sys.argv[1] == "-m"
    del sys.argv[: 1 + is_module]
    if is_module:
        sys.path[0] = os.getcwd()
        runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
    else:
        sys.path[0] = os.path.dirname(sys.argv[0])
        runpy.run_path(sys.argv[0], run_name="__main__")


def _numbered_directories():
    """Returns a function in place of tempfile.mkdtemp, which names directories by their number instead of by chance."""
    numbers = collections.defaultdict(itertools.count)

    def mkdtemp(suffix=None, prefix=None, dir=None):
        start = os.path.join(os.path.abspath(dir or tempfile.gettempdir()), prefix or "tmp")
        path = f"{start}{next(numbers[start, suffix])}{suffix or ''}"
        os.makedirs(path, mode=0o700, exist_ok=True)  # initial values may lie there
        return path

    return mkdtemp


def _keep_first_checkpoints(top, folder):
    """Makes trainings copy their first checkpoint to a folder, and end if their model_dir is not below `top`."""
    import tensorflow as tf

    hook = tf.compat.v1.train.CheckpointSaverHook
    create, after_create_session = hook.__init__, hook.after_create_session

    def create_below_top(self, checkpoint_dir, *args, **kwargs):
        self.from_top = os.path.relpath(os.path.realpath(checkpoint_dir), top)
        if self.from_top.startswith(os.pardir):
            sys.exit(f"it trains in {checkpoint_dir}, which the other side would find: give it a relative model_dir")
        create(self, checkpoint_dir, *args, **kwargs)

    def keep_after_create_session(self, session, coord):
        after_create_session(self, session, coord)
        first = tf.train.latest_checkpoint(os.path.join(top, self.from_top))
        copies = os.path.join(folder, self.from_top)
        if os.path.exists(copies):
            return
        os.makedirs(copies)
        for path in glob.glob(glob.escape(first) + ".*"):
            shutil.copy(path, copies)
        with open(os.path.join(copies, "checkpoint"), "w") as file:
            file.write(f'model_checkpoint_path: "{os.path.basename(first)}"\n')

    hook.__init__, hook.after_create_session = create_below_top, keep_after_create_session


if __name__ == "__main__":
    main()
