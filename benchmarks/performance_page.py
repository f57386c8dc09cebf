"""Writes generated parts of pages, such as the table of benchmarks/results in docs/measured.md."""

import json

from tabulate import tabulate

from benchmarks.ratios import spread

_SUMMARY_HEADERS = ["work", "compared with", "times ahead"]
_HEADERS = ["work", "ours", "compared with", "times ahead", "lowest", "highest", "pairs"]


def write(pages, results):
    """Writes the parts for the JSON files `results`, in order, into the files `pages`, by part; see `replace`."""
    read = [json.loads(path.read_text()) for path in results]
    for part, make in PARTS.items():
        replace(pages[part], {part: make(read)})


def replace(page, parts):
    """Replaces the text between the markers of each part in the file `page`; `parts` maps names to new texts.

    Raises:
      ValueError: the page lacks the markers.
    """
    text = page.read_text()
    for part, content in parts.items():
        begin, end = markers(part)
        before, has_begin, rest = text.partition(begin)
        _, has_end, after = rest.partition(end)
        if not (has_begin and has_end):
            raise ValueError(f"{page} must have the lines {begin} and {end}")
        text = f"{before}{begin}\n\n{content}\n\n{end}{after}"
    page.write_text(text)


def markers(part):
    """Returns the lines that begin and end a part."""
    return f"<!-- {part}: begin -->", f"<!-- {part}: end -->"


def summary(results):
    """Returns a Markdown table of each benchmark's peers and the lowest and highest median of its rows."""
    rows = []
    for result in results:
        # Leave out rows that compare two alternatives with each other.
        others = [
            row
            for row in result["rows"]
            if "estimator_train" not in result["sides"][row["theirs"]]["versions"]
            and all(row["ours"] != other["theirs"] for other in result["rows"])
        ]
        if others:
            names = dict.fromkeys(row["theirs"].partition(",")[0] for row in others)  # without how they were run
            medians = [row["ratio"] for row in others]
            ends = dict.fromkeys(f"{end:.2f}" for end in (min(medians), max(medians)))
            rows.append([_escaped(result["what"]), _escaped(", ".join(names)), " to ".join(ends)])
    align = ("left", "left", "right")
    return tabulate(rows, _SUMMARY_HEADERS, tablefmt="github", disable_numparse=True, colalign=align)


def block(results):
    """Returns the table of all rows, and the command, hardware and versions of each benchmark, in Markdown."""
    rows = [
        [_escaped(part) for part in (result["what"], row["ours"], row["theirs"], *spread(row))]
        for result in results
        for row in result["rows"]
    ]
    align = (*["left"] * 3, *["right"] * 4)
    table = tabulate(rows, _HEADERS, tablefmt="github", disable_numparse=True, colalign=align)
    return "\n".join([table, "", *map(_circumstances, results)])


def _escaped(text):
    return text.replace("|", "\\|").replace("_", "\\_")


def _circumstances(result):
    versions = dict.fromkeys(
        f"{name} {version}" for side in result["sides"].values() for name, version in side["versions"].items()
    )
    devices = dict.fromkeys(side["device"] for side in result["sides"].values())
    load = " to ".join(f"{each:.1f}" for each in result["load"])
    return (
        f"- `{result['command']}`: {result['cpu']}, {result['cores']} cores, load {load}; on the {', '.join(devices)}; "
        f"{', '.join(versions)}"
    )


PARTS = {"summary": summary, "benchmarks": block}
