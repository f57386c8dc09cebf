"""Random cases: `python -m tests.fuzz KIND --seed S --cases N` looks where no test does.

Each kind is a module here with three functions:

    draw(rng: random.Random) -> dict                      a random case, which json can write; or:
    every() -> list[dict]                                 all cases, which a campaign checks in a random order
    check(case: dict, directory: Path) -> None            raises if the case fails; the directory is empty
    smaller(case: dict) -> Iterator[dict]                 simpler variants, the boldest first
    prepare() -> None                                     optional: called once in the process of `check`

`check` runs in a process of its own, which imports TensorFlow once for many cases. A case that kills that process, or
exceeds its time limit, fails like any other, and the campaign goes on. The shrunk case is printed as JSON, so that a
test can call `check` with it.
"""
