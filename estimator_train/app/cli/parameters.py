"""Parameter types for flags: what help calls their values, how a shell completes them, and checks beyond click's own.

An invalid value is reported in one line.
"""

import itertools
import math
import os
import stat
import symtable
from pathlib import Path

import click
from click.shell_completion import CompletionItem

from estimator_train import loggers
from estimator_train._engine.host.paths import absolute, is_remote, why_not_utf_8
from estimator_train.app import models
from estimator_train.app.cli.conflicts import flag_of
from estimator_train.app.cli.errors import one_line_errors
from estimator_train.app.runs.monitor import METRICS, Monitor, metrics_of

_MOST = 2**31 - 1
_MOST_PIXELS = 2**16 - 1  # on a side of a JPEG


class _Named:
    """A type whose `metavar` is what help shows for a value, in the same letters."""

    def get_metavar(self, param, ctx=None):
        return self.metavar


class Text(_Named, click.ParamType):
    """A name or a path. An empty one, which usually comes from an unset shell variable, is rejected.

    A kind of text overrides `checked`, which returns the value, or raises ValueError for a bad one.
    """

    name = "text"
    metavar = "TEXT"

    def __init__(self, metavar=None):
        if metavar:
            self.metavar = metavar

    def convert(self, value, param, ctx):
        if not isinstance(value, str):  # run.json may hold anything
            self.fail(f"{value!r} is not a text.", param, ctx)
        if not value:
            self.fail("it is empty; give a value, or leave out the flag.", param, ctx)
        try:
            return self.checked(value)
        except ValueError as error:
            self.fail(f"{error}.", param, ctx)

    def checked(self, text):
        return text


class OneOf(Text):
    """One of the names that the function `names` returns, or others that only the command understands."""

    def __init__(self, names, metavar="NAME"):
        super().__init__(metavar)
        self._names = names

    def shell_complete(self, ctx, param, incomplete):
        return [CompletionItem(name) for name in self._names() if name.startswith(incomplete)]


class File(Text):
    """The path of a file, or one of a few words instead of it."""

    completed_as = "file"

    def shell_complete(self, ctx, param, incomplete):
        return [CompletionItem(incomplete, type=self.completed_as)]


class Directory(File):
    """A path that means the same to TensorFlow, which needs UTF-8 and takes link/.. for the directory of the link."""

    metavar = "FOLDER"
    completed_as = "dir"

    def checked(self, text):
        if reason := why_not_utf_8(text):
            raise ValueError(f"{text!a} {reason}")
        if is_remote(text) or ".." not in text.split(os.sep):
            return text
        if os.path.realpath(text) == os.path.realpath(os.path.normpath(text)):
            return text
        return absolute(text)  # it follows a link


class PathOr(Directory):
    """One of a few words, or the path of a file, which becomes absolute."""

    completed_as = "file"

    def __init__(self, metavar, *words):
        super().__init__(metavar)
        self._words = words

    def checked(self, text):
        if text in self._words:
            return text
        return absolute(super().checked(text))


class Cache(PathOr):
    """none, memory, features, or a local directory."""

    completed_as = "dir"

    def __init__(self):
        super().__init__("none|memory|features|FOLDER", "none", "memory", "features")

    def checked(self, text):
        if is_remote(text):
            raise click.ClickException(f"--cache {text}: give a folder on this machine, or memory")
        return super().checked(text)


class Function(Text):
    """FILE:FUNCTION, a function of the user's that exists; the path becomes absolute."""

    metavar = "FILE:FUNCTION"

    def convert(self, value, param, ctx):
        check_function(super().convert(value, param, ctx), flag_of(param.name))
        return absolute(value)  # that of the file which is checked, where .. follows a link


class Model(OneOf):
    """The name of a model, or FILE:FUNCTION."""

    def convert(self, value, param, ctx):
        name = super().convert(value, param, ctx)
        if ":" in name:
            return Function().convert(name, param, ctx)
        with one_line_errors():
            models.check_name(name)
        return name


class Metric(OneOf):
    """METRIC:min or METRIC:max; METRIC alone gets its usual direction."""

    def __init__(self):
        super().__init__(lambda: dict.fromkeys(itertools.chain(*map(metrics_of, METRICS))), "METRIC[:min|max]")

    def checked(self, text):
        return ":".join(Monitor.named(text))


class Loggers(_Named, click.ParamType):
    """A tuple of logger names, given separated by commas; the packages that they need must be installed."""

    name = "names"
    metavar = "NAME,NAME"

    def convert(self, value, param, ctx):
        given = value.split(",") if isinstance(value, str) else value  # run.json stores a list
        names = [name for name in given if name != "tensorboard"]  # every run writes its events
        for name in names:
            if name not in loggers.NAMES:
                known = ", ".join([*loggers.NAMES, "tensorboard"])
                self.fail(f"there is no logger {name!r}; give any of {known}.", param, ctx)
            try:
                loggers.check_installed(name)
            except ValueError as error:
                raise click.ClickException(f"--log {name}: {error}") from error
        return tuple(dict.fromkeys(names))


class OutputFile(_Named, click.Path):
    """The path of a file that can be written whole: a new one, or one that is replaced."""

    metavar = "FILE"

    def __init__(self):
        super().__init__(dir_okay=False, writable=True)

    def convert(self, value, param, ctx):
        file = super().convert(Text().convert(value, param, ctx), param, ctx)
        named, directory = f"{flag_of(param.name)} {file}", Path(file).parent
        if not directory.is_dir():
            raise click.ClickException(f"{named}: there is no folder {directory}")
        if not os.access(directory, os.W_OK | os.X_OK):
            raise click.ClickException(f"{named}: no permission to write in {directory}")
        if os.path.lexists(file) and not stat.S_ISREG(os.lstat(file).st_mode):
            raise click.ClickException(f"{named} is a link or a device, which would be replaced; give another file")
        return file


class Count(_Named, click.IntRange):
    """A number of things, such as images in a batch, that fits TensorFlow's 32-bit integers."""

    metavar = "N"

    def __init__(self, least=1, most=_MOST):
        super().__init__(least)
        self._most = most

    def convert(self, value, param, ctx):
        number = super().convert(value, param, ctx)
        if number > self._most:
            self.fail(f"{number} is too large; {self._most} is the most.", param, ctx)
        return number


class CountOrAuto(Count):
    """A number of things, or auto."""

    metavar = "N|auto"

    def convert(self, value, param, ctx):
        if value == "auto":
            return value
        return super().convert(value, param, ctx)


class Number(_Named, click.FloatRange):
    """A finite number of 0 or more, or above 0 if `positive`, and less than `below` if that is given."""

    def __init__(self, metavar, *, positive=False, below=None):
        super().__init__(0, below, min_open=positive, max_open=True)
        self.metavar = metavar

    def convert(self, value, param, ctx):
        number = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value!r} is not a finite number.", param, ctx)
        return number


class Augmentations(Text):
    """Some of `NAMES`, the augmentations of `input_fns.augmented`, separated by commas; the text is kept unparsed."""

    metavar = "NAMES"
    NAMES = (
        *("flip", "rotate", "zoom", "shift", "brightness", "contrast"),
        *("cutout", "mixup", "crop", "cutmix", "light", "medium"),
    )

    def checked(self, text):
        for name in map(str.strip, text.split(",")):
            if name not in self.NAMES:
                raise ValueError(f"there is no {name!r}; give some of {', '.join(self.NAMES)}")
        return text

    def shell_complete(self, ctx, param, incomplete):
        before, comma, last = incomplete.rpartition(",")
        return [CompletionItem(f"{before}{comma}{name}") for name in self.NAMES if name.startswith(last)]


class ImageSize(click.ParamType):
    """(height, width) in pixels, given as HxW or as one side."""

    name = "HxW"

    def convert(self, value, param, ctx):
        text = "x".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)  # run.json stores a list
        sides = text.lower().split("x")
        if len(sides) > 2 or not all(side.isdecimal() and 0 < int(side) <= _MOST_PIXELS for side in sides):
            self.fail(f"{value!r} is not a size in pixels such as 96 or 224x224.", param, ctx)
        return (int(sides[0]), int(sides[-1]))


class Phases(Text):
    """Fine-tuning phases in the syntax of `models.parse_phases`; the value stays text."""

    metavar = "PHASES"

    def checked(self, text):
        models.parse_phases(text)
        return text


STEPS = Count(most=2**63 - 1)  # the global step is an int64
SHARE = Number("SHARE", below=1)
MOMENTUM = Number("MOMENTUM", below=1)
SEED = click.IntRange(0, 2**32 - 1)  # NumPy's range of seeds


def check_function(reference, flag):
    """Checks that FILE:FUNCTION names a Python file and a name at its top level, without running it."""
    path, _, name = reference.rpartition(":")
    if not path or not name.isidentifier():
        raise click.ClickException(f"{flag} {reference}: give FILE:FUNCTION, such as my_data.py:train_input_fn")
    try:
        source = Path(path).read_bytes()
        table = symtable.symtable(source, path, "exec")  # of the encoding that the file declares
    except OSError as error:
        raise click.ClickException(f"{flag} {reference}: cannot read {path}: {error.strerror}") from error
    except SyntaxError as error:
        raise click.ClickException(f"{flag} {reference}: {path} line {error.lineno}: {error.msg}") from error
    names = {each.get_name() for each in table.get_symbols() if each.is_assigned() or each.is_imported()}
    if name not in names and b"import *" not in source:
        raise click.ClickException(
            f"{flag} {reference}: {path} has no {name}; it has {', '.join(sorted(names)) or 'none'}"
        )
