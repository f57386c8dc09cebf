"""Names all image files of a run that cannot be decoded, once one of them has ended a command.

Nothing is checked before training, which would decode all images once more. To look through them after the first
damaged one takes as long as the input of an epoch, and spares the user a training for each of the others.
"""

import contextlib
import shlex

import tensorflow as tf

from estimator_train._engine.host.files import printable
from estimator_train._engine.host.paths import is_remote
from estimator_train.app.errors import SettingError
from estimator_train.app.running.errors import is_about_image
from estimator_train.app.running.messages import warn
from estimator_train.input_fns.images.faults import DELETE, faults_among

_ASIDE = "__damaged"


class DamagedImagesError(SettingError):
    """Image files cannot be decoded; it has a line for each."""

    is_one_line = False


def _moving(paths):
    """Returns the command that moves files into one folder, which a dataset of class folders does not look into."""
    # Files of several classes may have one name.
    return f"mkdir -p {_ASIDE} && mv --backup=numbered -t {_ASIDE} -- {shlex.join(paths)}"


@contextlib.contextmanager
def naming_all_damaged_images(settings, data, sides=("train", "validation", "eval")):
    """If an image file cannot be decoded in the block, looks through those of all `sides`, and names each such file."""
    try:
        yield
    except tf.errors.OpError as error:
        by_side = (data and data.image_paths()) or {}
        paths = list(dict.fromkeys(path for side in sides for path in by_side.get(side, ())))
        if not (paths and is_about_image(error)):
            raise
        warn(f"an image cannot be decoded; looking through all {len(paths)}")
        faults = faults_among(paths, settings.image_size, fast=settings.fast, **settings.decoding)
        if not faults:  # such as a file that was being copied
            raise
        lines = [f"{printable(path)} {fault}" for path, fault in faults.items()]
        damaged = [path for path, fault in faults.items() if fault.remedy == DELETE]
        if damaged and settings.dataset != "manifest" and not any(map(is_remote, damaged)):  # which names each file
            lines.append(f"instead of deleting them, you can move them away: {_moving(damaged)}")
        raise DamagedImagesError("{0}", "\n".join(lines)) from error
