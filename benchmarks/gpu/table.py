"""The table of docs/gpu.md, in Markdown."""

import statistics

from tabulate import tabulate

_HEADERS = [
    *("training", "devices", "examples/s", "baseline", "times as fast", "efficiency", "input wait", "idle"),
    *("peak, GB", "estimated, GB", "taken, GB"),
]
_OF_GPUS = ("idle_share", "peak_bytes", "taken_bytes")


def table(lines, answers, kind):
    """Returns a table with a row per line: the medians of its answers, or why it has none.

    Args:
      lines: the lines of `lines.all_lines`.
      answers: {a line's (name, devices): list of results of `training.measure`, or of texts that say why it failed}.
      kind: "gpu" or "cpu".
    """
    medians = {key: _medians(of_line) for key, of_line in answers.items() if not isinstance(of_line, str)}
    rows = [_row(line, answers, medians, kind) for line in lines if (line.name, line.devices) in answers]
    align = ["left", "right", "right", "left", *["right"] * 7]
    return tabulate(rows, _HEADERS, tablefmt="github", disable_numparse=True, colalign=align)


def _medians(answers):
    keys = dict.fromkeys(key for answer in answers for key in answer)
    numbers = {key: [answer[key] for answer in answers if answer[key] is not None] for key in keys}
    return {key: statistics.median(of_key) for key, of_key in numbers.items() if of_key}


def _row(line, answers, medians, kind):
    key = line.name, line.devices
    if key not in medians:
        return [line.name, line.devices, answers[key], *[""] * 8]
    own = medians[key]
    rate = own["examples_per_second"]

    def ratio(name, devices, times=1):
        other = medians.get((name, devices))
        return rate / other["examples_per_second"] / times if other else None

    def told(name, form):
        if name in own:
            return form(own[name])
        return "needs a GPU" if name in _OF_GPUS and kind == "cpu" else ""

    times = ratio(line.baseline, line.devices)
    efficiency = ratio(line.name, 1, line.devices) if line.devices > 1 else None
    return [
        line.name,
        line.devices,
        f"{rate:.1f}",
        line.baseline if times else "",
        f"{times:.2f}" if times else "",
        _percent(efficiency) if efficiency else "",
        told("input_wait_share", _percent),
        told("idle_share", _percent),
        *(told(f"{name}_bytes", _gigabytes) for name in ("peak", "estimated", "taken")),
    ]


def _percent(share):
    return f"{share:.0%}"


def _gigabytes(number):
    return f"{number / 1e9:.2f}"
