"""Types of the arguments of the benchmarks' command lines."""

import argparse
import os


def positive(text):
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no positive number; e.g. 5")
    return int(text)


def folder(text):
    if not os.path.isdir(text):
        raise argparse.ArgumentTypeError(f"there is no folder {text}")
    return os.path.abspath(text)
