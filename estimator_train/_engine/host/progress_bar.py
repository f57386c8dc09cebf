"""Progress bars for terminals and notebooks, and lines where neither is."""

import sys
import time
import warnings
from typing import Any, TextIO

import tqdm

from estimator_train._engine.host import notebook

_LINE_SECS = 10  # between plain lines


class ProgressOfPass:
    """Shows how far a pass over examples is: by a bar, or by a line every ten seconds where a bar does not suit.

    Args:
      title: what is passed over.
      total: the number of examples, or None if it is unknown.
      done: how many of them are done already.
    """

    def __init__(self, title: str, total: int | None, done: int = 0) -> None:
        self._title, self._total = title, total
        self._begun_with = self._done = done
        self._begun = self._shown = time.monotonic()
        bar, self._bar = bar_class(sys.stderr), None
        if bar is not None:
            form = "{desc}: {n_fmt} examples, {elapsed} so far"
            if total is not None:
                form = "{desc}: {percentage:3.0f}%|{bar}| {n_fmt}/{total_fmt} examples, {remaining} to go"
            self._bar = bar(
                desc=title,
                total=total,
                initial=done,
                file=sys.stderr,
                dynamic_ncols=not notebook.is_kernel(),
                bar_format=form,
            )

    def update(self, examples: int) -> None:
        """Adds examples that are done."""
        self._done += examples
        if self._bar is not None:
            self._bar.update(examples)
        elif time.monotonic() - self._shown > _LINE_SECS:
            self._shown = time.monotonic()
            print(self._line(), file=sys.stderr, flush=True)

    def close(self) -> None:
        if self._bar is not None:
            self._bar.close()

    def _line(self) -> str:
        if self._total is None:
            return f"{self._title}: {self._done} examples"
        an_example = (self._shown - self._begun) / (self._done - self._begun_with)
        to_go = tqdm.tqdm.format_interval(an_example * max(self._total - self._done, 0))
        return f"{self._title}: {self._done}/{self._total} examples, {to_go} to go"


def bar_class(file: TextIO) -> type[tqdm.tqdm] | None:
    """Returns the class of tqdm that draws bars in `file`, or None if bars do not suit it."""
    if file.isatty():
        return tqdm.tqdm
    if not notebook.is_kernel() or file is not sys.stderr:
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tqdm.TqdmWarning)  # without ipywidgets, its bar is text
        from tqdm import auto
        from tqdm import notebook as widgets
    if issubclass(auto.tqdm, widgets.tqdm):
        return _bar_of_widgets(auto.tqdm)
    return auto.tqdm


def _bar_of_widgets(base: type[tqdm.tqdm]) -> type[tqdm.tqdm]:
    from IPython.display import display

    class Bar(base):
        """Closed, it leaves its last state as text, which is shown where a saved notebook's widgets are not drawn."""

        def __init__(self, **arguments: Any) -> None:
            super().__init__(display=False, **arguments)
            self._output = display(self.container, display_id=True)

        def close(self) -> None:
            if not self.disable:
                super().close()  # which disables it
                self._output.update(self.container)

        def __del__(self) -> None:
            super().close()  # the bar of a training that failed; its container prints a bar that is gone by now

    return Bar
