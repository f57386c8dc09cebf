"""A kind without TensorFlow, for the tests of the frame: numbers above 20 fail, and two of them badly."""

import os
import signal
import time


def draw(rng):
    return {"number": rng.randrange(100), "unused": 1}


def check(case, directory):
    print("the checked code prints")
    assert not any(directory.iterdir())
    if case["number"] == 98:
        os.kill(os.getpid(), signal.SIGKILL)
    if case["number"] == 99:
        time.sleep(60)
    if case["number"] > 20:
        raise ValueError(f"{case['number']} is above 20")


def smaller(case):
    if "unused" in case:
        yield {"number": case["number"]}
    for number in (case["number"] // 2, case["number"] - 1):
        yield {**case, "number": number}
