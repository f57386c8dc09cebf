"""Argument types for the benchmarks' command lines."""

import argparse
import os


def positive(text):
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive number, such as 5")
    return int(text)


def folder(text):
    if not os.path.isdir(text):
        raise argparse.ArgumentTypeError(f"there is no folder {text}")
    return os.path.abspath(text)
