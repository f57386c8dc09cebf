"""The values of settings: how each is read from text, what it may be, and what a shell offers for it."""

import itertools
import math
import os
import stat
import symtable
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import estimator_train as et
from estimator_train._engine.host.paths import absolute, is_remote, why_not_utf_8
from estimator_train.app import models
from estimator_train.app.errors import SettingError
from estimator_train.app.runs.monitor import METRICS, Monitor, metrics_of

_MOST = 2**31 - 1
_MOST_PIXELS = 2**16 - 1  # on a side of a JPEG


class Kind:
    """A kind of value. `checked` takes what `parsed` made of a text, or a value from Python or run.json."""

    metavar = "TEXT"  # how the help names a value
    completes: str | None = None  # "file" or "dir" if a shell completes paths
    same_everywhere = False  # whether a value is right or wrong on every machine: files and functions are not

    def parsed(self, text: str) -> Any:
        """Returns the value that a text on a command line means; raises ValueError if it means none."""
        return text

    def checked(self, value: Any, name: str) -> Any:
        """Returns a value of the setting `name` in its usual form; raises ValueError if it may not have it."""
        return value

    def from_python(self, value: Any, name: str) -> Any:
        """Returns a value given in Python as a keyword; raises ValueError if its type or its range is another."""
        try:
            return self.checked(value, name)
        except TypeError:
            raise ValueError(f"{value!r} is of no type that it takes, {self.metavar}") from None

    def offered(self, typed: str) -> Iterable[str]:
        """Returns the values that begin with what is typed already."""
        return ()


class Text(Kind):
    """A name or a path. An empty one, which usually comes from an unset shell variable, is refused."""

    def __init__(self, metavar: str | None = None) -> None:
        if metavar:
            self.metavar = metavar

    def checked(self, value: Any, name: str) -> Any:
        if not isinstance(value, str):  # run.json may hold anything
            raise ValueError(f"{value!r} is not a text")
        if not value:
            raise ValueError("it is empty; give a value, or leave it out")
        return self.checked_text(value, name)

    def checked_text(self, text: str, name: str) -> str:
        """Returns a text that is not empty in its usual form; raises ValueError if it may not be."""
        return text


class OneOf(Text):
    """One of the names that the function `names` returns, or others that only the run understands."""

    def __init__(self, names: Callable[[], Iterable[str]], metavar: str = "NAME") -> None:
        super().__init__(metavar)
        self._names = names

    def offered(self, typed: str) -> Iterable[str]:
        return [name for name in self._names() if name.startswith(typed)]


class Choice(Kind):
    """One of a few words."""

    same_everywhere = True

    def __init__(self, words: Iterable[str], metavar: str | None = None) -> None:
        self._words = tuple(words)
        self.metavar = metavar or f"[{'|'.join(self._words)}]"

    def checked(self, value: Any, name: str) -> str:
        if value not in self._words:
            raise ValueError(f"{value!r} is not one of {', '.join(map(repr, self._words))}")
        return value

    def offered(self, typed: str) -> Iterable[str]:
        return [word for word in self._words if word.startswith(typed)]


class File(Text):
    """The path of a file, or one of a few words instead of it."""

    completes = "file"


class Directory(File):
    """A path that means the same to TensorFlow, which needs UTF-8 and takes link/.. for the directory of the link."""

    metavar = "FOLDER"
    completes = "dir"

    def checked_text(self, text: str, name: str) -> str:
        if reason := why_not_utf_8(text):
            raise ValueError(f"{text!a} {reason}")
        if is_remote(text) or ".." not in text.split(os.sep):
            return text
        if os.path.realpath(text) == os.path.realpath(os.path.normpath(text)):
            return text
        return absolute(text)  # it follows a link


class PathOr(Directory):
    """One of a few words, or the path of a file, which becomes absolute."""

    completes = "file"

    def __init__(self, metavar: str, *words: str) -> None:
        super().__init__(metavar)
        self._words = words

    def checked_text(self, text: str, name: str) -> str:
        if text in self._words:
            return text
        return absolute(super().checked_text(text, name))


class Cache(PathOr):
    """none, memory, features, or a local directory."""

    completes = "dir"

    def __init__(self) -> None:
        super().__init__("none|memory|features|FOLDER", "none", "memory", "features")

    def checked_text(self, text: str, name: str) -> str:
        if is_remote(text):
            raise SettingError("{cache} {0}: give a folder on this machine, or memory", text)
        return super().checked_text(text, name)


class Function(Text):
    """FILE:FUNCTION, a function of the user's that exists; the path becomes absolute."""

    metavar = "FILE:FUNCTION"

    def checked_text(self, text: str, name: str) -> str:
        check_function(text, f"{{{name}}}")
        return absolute(text)  # that of the file which is checked, where .. follows a link


class Model(OneOf):
    """The name of a model, or FILE:FUNCTION."""

    def checked_text(self, text: str, name: str) -> str:
        if ":" in text:
            return Function().checked(text, name)
        try:
            models.check_name(text)
        except ValueError as error:
            raise SettingError("{0}", error) from error
        return text


class Metric(OneOf):
    """METRIC:min or METRIC:max; METRIC alone gets its usual direction."""

    def __init__(self) -> None:
        super().__init__(lambda: dict.fromkeys(itertools.chain(*map(metrics_of, METRICS))), "METRIC[:min|max]")

    def checked_text(self, text: str, name: str) -> str:
        return ":".join(Monitor.named(text))


class Loggers(Kind):
    """A tuple of logger names, in text separated by commas; the packages that they need must be installed."""

    metavar = "NAME,NAME"

    def parsed(self, text: str) -> tuple[str, ...]:
        return tuple(text.split(","))

    def checked(self, value: Any, name: str) -> tuple[str, ...]:
        names = [each for each in value if each != "tensorboard"]  # every run writes its events
        for each in names:
            if each not in et.loggers.NAMES:
                raise ValueError(
                    f"there is no logger {each!r}; give any of {', '.join([*et.loggers.NAMES, 'tensorboard'])}"
                )
            try:
                et.loggers.check_installed(each)
            except ValueError as error:
                raise SettingError(f"{{{name}}} {{0}}: {{1}}", each, error) from error
        return tuple(dict.fromkeys(names))


class OutputFile(File):
    """The path of a file that can be written whole: a new one, or one that is replaced."""

    metavar = "FILE"

    def checked_text(self, text: str, name: str) -> str:
        directory, named = Path(text).parent, f"{{{name}}} {{0}}"
        if os.path.isdir(text):
            raise ValueError(f"File {text!r} is a directory")
        if not directory.is_dir():
            raise SettingError(f"{named}: there is no folder {{1}}", text, directory)
        if not os.access(directory, os.W_OK | os.X_OK):
            raise SettingError(f"{named}: no permission to write in {{1}}", text, directory)
        if os.path.lexists(text) and not stat.S_ISREG(os.lstat(text).st_mode):
            raise SettingError(f"{named} is a link or a device, which would be replaced; give another file", text)
        if os.path.lexists(text) and not os.access(text, os.W_OK):
            raise ValueError(f"File {text!r} is not writable")
        return text


class Count(Kind):
    """A number of things, such as images in a batch, that fits TensorFlow's 32-bit integers."""

    metavar = "N"
    same_everywhere = True

    def __init__(self, least: int = 1, most: int = _MOST, metavar: str | None = None) -> None:
        self._least, self._most = least, most
        if metavar:
            self.metavar = metavar

    def parsed(self, text: str) -> Any:
        try:
            return int(text)
        except ValueError:
            raise ValueError(f"{text!r} is not a valid integer") from None

    def checked(self, value: Any, name: str) -> Any:
        if value < self._least:
            raise ValueError(f"{value} is not in the range x>={self._least}")
        if value > self._most:
            raise ValueError(f"{value} is too large; {self._most} is the most")
        return value


class CountOrAuto(Count):
    """A number of things, or auto."""

    metavar = "N|auto"

    def parsed(self, text: str) -> Any:
        return text if text == "auto" else super().parsed(text)

    def checked(self, value: Any, name: str) -> Any:
        if value == "auto":
            return value
        if isinstance(value, str):  # a number in quotes, in Python or run.json
            raise ValueError(f"{value!r} is neither a number nor auto")
        return super().checked(value, name)


class Number(Kind):
    """A finite number of 0 or more, or above 0 if `positive`, and less than `below` if that is given."""

    same_everywhere = True

    def __init__(self, metavar: str, *, positive: bool = False, below: float | None = None) -> None:
        self.metavar, self._positive, self._below = metavar, positive, below

    def parsed(self, text: str) -> float:
        try:
            return float(text)
        except ValueError:
            raise ValueError(f"{text!r} is not a valid float") from None

    def checked(self, value: Any, name: str) -> float:
        if not math.isfinite(value):
            raise ValueError(f"{value!r} is not a finite number")
        if value < 0 or (self._positive and value == 0) or (self._below is not None and value >= self._below):
            least, most = "x>0" if self._positive else "x>=0", ""
            if self._below is not None:
                least, most = "0<x" if self._positive else "0<=x", f"<{self._below}"
            raise ValueError(f"{value} is not in the range {least}{most}")
        return float(value)


class Augmentations(Text):
    """Some of `NAMES`, the augmentations of `input_fns.augmented`, separated by commas; the text is kept unparsed."""

    metavar = "NAMES"
    same_everywhere = True
    NAMES = (
        *("flip", "rotate", "zoom", "shift", "brightness", "contrast"),
        *("cutout", "mixup", "crop", "cutmix", "light", "medium"),
    )

    def checked_text(self, text: str, name: str) -> str:
        for each in map(str.strip, text.split(",")):
            if each not in self.NAMES:
                raise ValueError(f"there is no {each!r}; give some of {', '.join(self.NAMES)}")
        return text

    def offered(self, typed: str) -> Iterable[str]:
        before, comma, last = typed.rpartition(",")
        return [f"{before}{comma}{name}" for name in self.NAMES if name.startswith(last)]


class ImageSize(Kind):
    """(height, width) in pixels, in text HxW or one side."""

    metavar = "HxW"
    same_everywhere = True

    def parsed(self, text: str) -> Any:
        sides = text.lower().split("x")
        if not all(map(str.isdecimal, sides)):
            raise ValueError(f"{text!r} is not a size in pixels such as 96 or 224x224")
        return (int(sides[0]), *map(int, sides[1:] or sides))

    def checked(self, value: Any, name: str) -> tuple[int, int]:
        sides = tuple(value) if isinstance(value, (list, tuple)) else (value, value)
        if len(sides) != 2 or not all(isinstance(side, int) and 0 < side <= _MOST_PIXELS for side in sides):
            raise ValueError(f"{value!r} is not a size in pixels such as 96 or 224x224")
        return sides


class Phases(Text):
    """Fine-tuning phases in the syntax of `models.parse_phases`; the value stays text."""

    metavar = "PHASES"
    same_everywhere = True

    def checked_text(self, text: str, name: str) -> str:
        models.parse_phases(text)
        return text


class Seed(Count):
    """NumPy's range of seeds."""

    def __init__(self) -> None:
        super().__init__(0, 2**32 - 1)

    def checked(self, value: Any, name: str) -> Any:
        if not 0 <= value <= self._most:
            raise ValueError(f"{value} is not in the range 0<=x<={self._most}")
        return value


STEPS = Count(most=2**63 - 1)  # the global step is an int64
SHARE = Number("SHARE", below=1)
MOMENTUM = Number("MOMENTUM", below=1)
SEED = Seed()


def check_function(reference: str, setting: str) -> None:
    """Checks that FILE:FUNCTION names a Python file and a name at its top level, without running it.

    Raises SettingError, in which `setting` names what refers to the function, such as "{input_fn}".
    """
    path, _, name = reference.rpartition(":")
    if not path or not name.isidentifier():
        raise SettingError(f"{setting} {{0}}: give FILE:FUNCTION, such as my_data.py:train_input_fn", reference)
    try:
        source = Path(path).read_bytes()
        table = symtable.symtable(source, path, "exec")  # type: ignore[arg-type]  # bytes, in the encoding declared there
    except OSError as error:
        raise SettingError(f"{setting} {{0}}: cannot read {{1}}: {{2}}", reference, path, error.strerror) from error
    except SyntaxError as error:
        text = f"{setting} {{0}}: {{1}} line {{2}}: {{3}}"
        raise SettingError(text, reference, path, error.lineno, error.msg) from error
    names = {each.get_name() for each in table.get_symbols() if each.is_assigned() or each.is_imported()}
    if name not in names and b"import *" not in source:
        has = ", ".join(sorted(names)) or "none"
        raise SettingError(f"{setting} {{0}}: {{1}} has no {{2}}; it has {{3}}", reference, path, name, has)
