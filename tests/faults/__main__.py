"""`python -m tests.faults [NAME ...]`: runs the campaigns and prints what came of them.

Each campaign makes so many faults as its long run has, or as --count says, and prints a line for each kind of outcome
and one for each broken promise. The exit code is 1 if there is one.
"""

import argparse
import collections
import importlib
import sys
import tempfile
import time

import tabulate

# Numbers of faults in the long runs reported in docs/reliability.md.
COUNTS = {
    "archives": 100,  # all there are
    "checkpoints": 600,
    "clusters": 20,
    "crashes": 400,
    "cycles": 300,
    "disks": 20,
    "folders": 1000,  # all there are
    "images": 1000,
    "kills": 100,
    "resumed_input": 100,  # all there are
    "signals": 60,
    "tables": 200,  # all there are
}


def main():
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__.partition("\n\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(COUNTS)}; default: all")
    parser.add_argument("--count", type=int, help="of faults in each campaign, instead of that of the long runs")
    parser.add_argument("--seed", type=int, default=1, help="of what is drawn; default: %(default)s")
    options = parser.parse_args()
    if unknown := set(options.names) - COUNTS.keys():
        parser.error(f"there is no campaign {', '.join(sorted(unknown))}; there are {', '.join(COUNTS)}")
    table, faults = [], []
    for name in options.names or COUNTS:
        begun = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            rows = importlib.import_module(f"tests.faults.{name}").run(
                options.count or COUNTS[name], options.seed, folder
            )
        broken = [row for row in rows if row.fault]
        outcomes = collections.Counter(row.outcome for row in rows if not row.fault).most_common(4)
        shown = "; ".join(f"{outcome} ({number})" for outcome, number in outcomes)
        table.append([name, len(rows), len(broken), f"{time.monotonic() - begun:.0f} s", shown])
        faults += [[name, row.kind, row.fault] for row in broken]
        print(tabulate.tabulate(table[-1:], tablefmt="plain", maxcolwidths=[None] * 4 + [100]), flush=True)
    print()
    print(tabulate.tabulate([row[:4] for row in table], ["campaign", "tried", "faults", "time"], tablefmt="github"))
    for campaign, kind, fault in faults:
        print(f"FAULT in {campaign}: {kind}: {fault}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
