"""Turns errors that a run may have, those of TensorFlow too, into one line for the user."""

import contextlib
import os
import re
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from estimator_train._engine.remedies import InterruptedRunError, UserError
from estimator_train.app.errors import SettingError
from estimator_train.app.runs.advice import SAVING_MEMORY

_PACKAGE = str(Path(__file__).parents[2])
_NAN_LOSS = (
    "the loss has become NaN, and training has ended: lower the learning rate, clip the gradients, or look for "
    "non-finite values in the data"
)

# Errors in an input pipeline pass through TensorFlow's runtime, which keeps only their text.
_IMAGE_FAULT = r"cannot be (?:decoded|read): "
_OF_INPUT = {
    # The library's own assertions. TensorFlow escapes quotes in their text, but not brackets, which a path may contain.
    rf"assertion failed: \[(.+?)\] \[({_IMAGE_FAULT}.+?|is no class: [^]]+?)(?: or pass on_error=.+?)?\]": "{} {}",
    r"Feature: (\S+) \(data type: (\w+)\) is required but could not be found": (
        "a TFRecord example has no feature {}, of type {}; add it, or leave the example out"
    ),
    r"Key: (\S+?)\.  (?:Can't parse serialized Example|Data types don't match)": (
        "a TFRecord example must have one value of the right type as {}; write it again"
    ),
    "Could not parse example input": "a record of the TFRecord files is not a tf.Example; leave it out",
    r"corrupted record at (\d+)": "a TFRecord file is damaged at byte {}; copy it again",
    r"(Invalid (?:JPEG|PNG) data, size \d+)": "an image cannot be decoded: {} bytes",
}
_NOT_DETERMINISTIC = re.compile(r"[^\s:][^\n:]*determinis[^\n]*", re.IGNORECASE)
_RAISED_BY_GENERATOR = re.compile(r"(\w+: .*)\n((?s:.*?generator_py_func.*?))\n\1\n")


@contextlib.contextmanager
def run_errors(not_to_try: Collection[str] = SAVING_MEMORY) -> Iterator[None]:
    """Turns expected errors of a run into a `SettingError` with one line.

    `not_to_try` are the settings that the run cannot have; by default, those of one that does not train.
    """
    try:
        yield
    except InterruptedRunError as error:
        raise SettingError("{0}", error, exit_code=1) from error
    except SettingError:
        raise
    except (UserError, MemoryError) as error:
        raise SettingError("{0}", error, not_to_try=not_to_try) from error
    except Exception as error:
        line = _of_tensorflow(error)
        if line is None:
            raise
        raise line from error


def is_about_image(error: Any) -> bool:
    """Returns whether an error of TensorFlow says that an image file cannot be decoded."""
    return re.search(_IMAGE_FAULT, error.message) is not None


def _of_tensorflow(error):
    """Returns a `SettingError` about an expected error of TensorFlow, or None about another."""
    import tensorflow as tf

    if isinstance(error, tf.compat.v1.train.NanLossDuringTrainingError):
        return SettingError("{0}", _NAN_LOSS, exit_code=1)
    if isinstance(error, tf.errors.ResourceExhaustedError):
        return SettingError("{0}", error.message.splitlines()[0])
    if isinstance(error, tf.errors.UnimplementedError) and (lack := _NOT_DETERMINISTIC.search(error.message)):
        return SettingError("{0}; leave out {deterministic} or, if it is given, {jit_compile}", lack[0].rstrip("."))
    if isinstance(error, UnicodeDecodeError):  # TensorFlow quotes a bad record, and Python cannot decode the quotation
        text = error.object.decode(errors="replace")
    elif isinstance(error, tf.errors.OpError):
        text = str(error)
    else:
        return None
    line = _about_input(text) or _raised_by_generator(text, os.path.dirname(tf.__file__))
    return line and SettingError("{0}", line)


def _about_input(text):
    """Returns one line about a bad image, label or record, or None if TensorFlow's text is about something else."""
    for pattern, line in _OF_INPUT.items():
        if found := re.search(pattern, text):
            return line.format(*found.groups())
    return None


def _raised_by_generator(text, tensorflow):
    """Returns one line about an error that a Python generator raised, or None if it is another."""
    raised = _RAISED_BY_GENERATOR.search(text)
    if raised is None:
        return None
    places = re.findall(r'File "([^<].*)", line (\d+)', raised[2])  # cloudpickle 3.1.3 hides those of a worker
    own = [f" ({path}, line {line})" for path, line in places if not path.startswith((_PACKAGE, tensorflow))]
    return f"the input_fn's generator raised {raised[1]}{''.join(own[-1:])}"
