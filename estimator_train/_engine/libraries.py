"""Says in one line that TensorFlow or Keras has lost a private name, to a model that needs it."""

import contextlib
import functools
import inspect
import sys
import traceback
from collections.abc import Callable, Generator, Iterator
from typing import Any, NamedTuple, TypeVar

from estimator_train._engine.remedies import UserError

Function = TypeVar("Function", bound=Callable[..., Any])


class Library(NamedTuple):
    """The name of a library in messages, and the oldest and the newest minor version that were tried."""

    name: str
    oldest: str
    newest: str

    @property
    def requirement(self) -> str:
        return f">={self.oldest},<{_next(self.newest)}"


# setup.py bounds the first two by the same versions. TensorFlow installs Keras 3, without an upper bound.
LIBRARIES = {
    "tensorflow": Library("TensorFlow", "2.16", "2.21"),
    "tf_keras": Library("tf_keras", "2.16", "2.21"),
    "keras": Library("Keras", "3.12", "3.15"),
}
_TOGETHER = ("tensorflow", "tf_keras")  # a minor version of either needs the same of the other


class MissingNameError(UserError, RuntimeError):
    """A library has lost a private name that a model needs. The message says which versions to install."""


def private_names_of(*packages: str) -> Callable[[Function], Function]:
    """Decorates a function of a private_*.py that uses private names of `packages`, such as "tensorflow".

    If one is gone, the function raises MissingNameError. Write it below `contextlib.contextmanager`.
    """

    def decorate(function: Function) -> Function:
        path = function.__code__.co_filename

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            with _explaining(packages, path):
                return function(*args, **kwargs)

        @functools.wraps(function)
        def generate(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
            with _explaining(packages, path):
                return (yield from function(*args, **kwargs))

        decorated: Any = generate if inspect.isgeneratorfunction(function) else call
        return decorated

    return decorate


@contextlib.contextmanager
def _explaining(packages: tuple[str, ...], path: str) -> Iterator[None]:
    try:
        yield
    except (AttributeError, ImportError) as error:
        *_, (innermost, _) = traceback.walk_tb(error.__traceback__)
        if innermost.f_code.co_filename != path:  # it comes from below, as from a user's step
            raise
        raise MissingNameError(_lost(packages, error)) from error


def _lost(packages: tuple[str, ...], error: Exception) -> str:
    found = " or ".join(f"{LIBRARIES[package].name} {_installed(package)}" for package in packages)
    pinned = [*_TOGETHER] if packages[0] in _TOGETHER else [*packages]
    pinned += [package for package in packages if package not in pinned]
    pins = " ".join(f"'{package.replace('_', '-')}{LIBRARIES[package].requirement}'" for package in pinned)
    return (
        f"{found} has lost a private name that is needed here ({error}); go back to tried versions: pip install {pins}"
    )


def newer_than_tried(package: str) -> str | None:
    """Returns a line about the version of an imported package that is newer than those tried, or None."""
    library, installed = LIBRARIES[package], _installed(package)
    if _numbers(installed) <= _numbers(library.newest):
        return None
    return (
        f"{library.name} {installed} is newer than {library.newest}, the newest that was tried with estimator_train; "
        f"where it fails, pip install '{package}{library.requirement}'"
    )


def untried_pair() -> str | None:
    """Returns a line about TensorFlow and tf_keras, both imported, if they are newer or of different minor versions."""
    tensorflow, tf_keras = map(_installed, _TOGETHER)
    if _numbers(tensorflow) == _numbers(tf_keras):
        return newer_than_tried("tensorflow")
    minor = ".".join(map(str, _numbers(tensorflow)))
    return f"TensorFlow {tensorflow} was not tried with tf_keras {tf_keras}; pip install 'tf-keras=={minor}.*'"


def _installed(package: str) -> str:
    return getattr(sys.modules.get(package), "__version__", "(not imported)")


def _numbers(installed: str) -> list[int]:
    return list(map(int, installed.split(".")[:2]))


def _next(minor: str) -> str:
    major, number = _numbers(minor)
    return f"{major}.{number + 1}"
