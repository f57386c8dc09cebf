"""The generated part of a page, and that of docs/performance.md: a table of the results in benchmarks/results."""

import json

from tabulate import tabulate

from benchmarks.ratios import spread

BEGIN, END = "<!-- benchmarks: begin -->", "<!-- benchmarks: end -->"
_HEADERS = ["work", "ours", "beside", "times ahead", "lowest", "highest", "pairs"]


def write(page, results):
    """Writes the table of the JSON files `results`, in order, into the file `page`; see `replace`."""
    replace(page, block([json.loads(path.read_text()) for path in results]))


def replace(page, text):
    """Replaces what is between the two markers of the file `page` with `text`.

    Raises:
      ValueError: the page has no such markers.
    """
    before, begin, rest = page.read_text().partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"{page} must have the lines {BEGIN} and {END}")
    page.write_text(f"{before}{BEGIN}\n\n{text}\n\n{END}{after}")


def block(results):
    """The table, and what each benchmark was run with and on, in Markdown."""
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
