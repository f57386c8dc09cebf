"""`python -m benchmarks NAME`: runs ours and the peers alternately, prints the ratios and writes them as JSON.

Peers run in virtual environments, which the first run creates in the platform's cache directory. Each ratio is their
value over ours in one pair of consecutive runs, so above 1 is better for us. `python -m benchmarks docs` writes the
tables of docs/measured.md and docs/performance.md from benchmarks/results. `--checkout PATH` compares ours with another
checkout of this repository, such as an earlier commit, and writes nothing.
"""

import argparse
import inspect
import json
import os
import shlex
import sys
import tempfile
from pathlib import Path

from benchmarks import peers, performance_page, ratios, runner, scans
from benchmarks.arguments import positive
from benchmarks.works import WORKS, against_checkout

RESULTS = runner.ROOT / "benchmarks" / "results"
PAGES = {"summary": runner.ROOT / "docs" / "performance.md", "benchmarks": runner.ROOT / "docs" / "measured.md"}


def main():
    options = _parser().parse_args()
    if options.name == "docs":
        order = [work.__name__ for work in WORKS]
        results = sorted(RESULTS.glob("*.json"), key=lambda path: (order.index(path.stem.split("-")[0]), path))
        performance_page.write(PAGES, results)
        return
    arguments = {name: getattr(options, name) for name in inspect.signature(options.work).parameters}
    benchmark = options.work(**arguments)
    if options.checkout:
        benchmark = against_checkout(benchmark, options.checkout)
    needed = dict.fromkeys(side.peer for side in benchmark.sides.values())
    given = dict(options.python)
    pythons = {peer: given.get(peer) or peers.set_up(peer) for peer in needed}
    result = {"benchmark": options.name, "what": benchmark.what, "command": _command(options.name)}
    result |= measure(benchmark, pythons, options.pairs)
    for row in result["rows"]:
        median, lowest, highest, pairs = ratios.spread(row)
        by_pair = " ".join(f"{ratio:.2f}" for ratio in row["ratios"])
        print(
            f"{row['ours']}: {median} times ahead of {row['theirs']}, {lowest} to {highest} in {pairs} pairs "
            f"({by_pair}), with {row['cpu_ratio']:.2f} times less processor time"
        )
    if options.checkout:
        return
    # Runs with non-default options get their own file.
    defaults = inspect.signature(options.work).parameters
    others = [f"{name}{value}" for name, value in arguments.items() if value != defaults[name].default]
    path = RESULTS / f"{'-'.join([options.name, *others])}.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(result, indent=1) + "\n")
    print(f"written to {path}")


def measure(benchmark, pythons, pairs):
    """Returns the rows of the benchmark, and the hardware and versions they were measured with."""
    with tempfile.TemporaryDirectory() as folder:
        facts = {}
        if benchmark.images:
            facts = {"images": benchmark.images, "bytes_per_image": scans.draw(Path(folder), benchmark.images)}
            sides = {
                name: side._replace(options={"files": folder, **side.options}) for name, side in benchmark.sides.items()
            }
            benchmark = benchmark._replace(sides=sides)
        load = [os.getloadavg()[0]]
        answers = runner.run_in_turn(benchmark, pythons, pairs)
        load.append(os.getloadavg()[0])
    return {
        **facts,
        "sides": {name: {key: of_side[0][key] for key in ("device", "versions")} for name, of_side in answers.items()},
        "cpu": runner.processor(),
        "cores": os.cpu_count(),
        "load": load,
        "rows": [ratios.compare(ours, theirs, answers, benchmark.measure) for ours, theirs in benchmark.rows],
    }


def _parser():
    parser = argparse.ArgumentParser(
        "python -m benchmarks", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = parser.add_subparsers(dest="name", required=True, metavar="NAME")
    defaults = argparse.ArgumentDefaultsHelpFormatter
    for work in WORKS:
        of_work = names.add_parser(work.__name__, help=work.__doc__, description=work.__doc__, formatter_class=defaults)
        of_work.set_defaults(work=work)
        of_work.add_argument("--pairs", type=positive, default=5, help="pairs to measure, after a warm-up")
        of_work.add_argument(
            "--python",
            type=peers.peer_and_path,
            action="append",
            default=[],
            metavar="PEER=PATH",
            help=f"run a peer in this Python instead of its own environment; one of {', '.join(peers.REQUIREMENTS)}",
        )
        of_work.add_argument("--checkout", type=_checkout, metavar="PATH", help="compare ours with that checkout's")
        for name, parameter in inspect.signature(work).parameters.items():
            of_work.add_argument(f"--{name}", type=positive, default=parameter.default, help=f"number of {name}")
    names.add_parser("docs", help="write the tables of docs/measured.md and docs/performance.md")
    return parser


def _checkout(text):
    if not Path(text, "benchmarks", "sides", "ours.py").exists():
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a checkout of this repository: it has no benchmarks/sides/ours.py"
        )
    return os.path.abspath(text)


def _command(name):
    """Returns the command line without paths on this machine."""
    arguments = iter(sys.argv[1:])
    kept = [each for each in arguments if each != "--python" or not next(arguments)]
    return shlex.join(["python", "-m", "benchmarks", *(each for each in kept if not each.startswith("--python="))])


if __name__ == "__main__":
    main()
