"""`python -m tests.fuzz KIND --seed S --cases N`: checks random cases, and prints and shrinks those that fail.

The exit code is 1 if any failed.
"""

from __future__ import annotations

import argparse
import importlib
import json
import random
import sys
from pathlib import Path

from tests.fuzz.process import CheckingProcess

_SHRINKING = 60  # attempts per failure


def main() -> int:
    kinds = sorted(path.stem for path in Path(__file__).parent.glob("*.py") if _is_kind(path))
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__.partition("\n\n")[0])
    parser.add_argument("kind", metavar="KIND", help=f"of {', '.join(kinds)}")
    parser.add_argument("--seed", type=int, default=random.randrange(10**6), help="of all cases; default: random")
    parser.add_argument("--cases", type=int, default=100, help="default: %(default)s")
    parser.add_argument("--only", type=int, metavar="I", help="check case I alone")
    parser.add_argument("--limit", type=float, default=120, help="seconds for a case; default: %(default)s")
    options = parser.parse_args()
    if options.kind not in kinds:
        parser.error(f"there is no kind {options.kind!r}; there are {', '.join(kinds)}")
    kind = importlib.import_module(f"tests.fuzz.{options.kind}")
    print(f"seed {options.seed}", flush=True)
    numbers = range(options.cases) if options.only is None else [options.only]
    failures = 0
    with CheckingProcess(options.kind, options.limit) as process:
        for number in numbers:
            case = json.loads(json.dumps(case_of(kind, options.seed, number)))
            failure = process.failure(case)
            if failure is None:
                continue
            failures += 1
            again = f"python -m tests.fuzz {options.kind} --seed {options.seed} --only {number}"
            print(f"FAILED seed {options.seed}, case {number}: {failure.splitlines()[-1]}; {again}", flush=True)
            if _exception(failure) != "TimeoutError":  # shrinking it would take the limit again and again
                case, failure = shrink(case, failure, kind.smaller, process.failure)
            print(f"{json.dumps(case)}\n{failure}", flush=True)
    print(f"{len(numbers)} cases, {failures} failures")
    return 1 if failures else 0


def case_of(kind, seed, number):
    """Returns a case of the module `kind`, by its number in the campaign."""
    if hasattr(kind, "draw"):
        return kind.draw(random.Random(f"{seed}-{number}"))
    cases = kind.every()
    return random.Random(seed).sample(cases, len(cases))[number % len(cases)]


def shrink(case, failure, smaller, check):
    """Returns the simplest variant found that fails with the same exception, and its failure."""
    attempts = 0
    while True:
        for candidate in smaller(case):
            attempts += 1
            if attempts > _SHRINKING:
                return case, failure
            found = check(json.loads(json.dumps(candidate)))
            if found is not None and _exception(found) == _exception(failure):
                case, failure = candidate, found
                break
        else:
            return case, failure


def _exception(failure):
    return failure.splitlines()[-1].partition(":")[0]


def _is_kind(path):
    return "\ndef check(" in path.read_text()


if __name__ == "__main__":
    sys.exit(main())
