"""Checks whether optional packages are installed."""

from __future__ import annotations

import importlib.util


def check_installed(module: str, packages: str) -> None:
    """Checks that a module is installed, which the pip packages `packages` provide, without importing it.

        check_installed("tf2onnx", "tf2onnx onnxruntime")

    Raises ValueError if the module is not installed; the message has the command that installs it.
    """
    spec = importlib.util.find_spec(module)
    if spec is None or spec.origin is None:  # a mere directory of that name, such as W&B's, is no package
        raise ValueError(f"{module} is not installed: pip install {packages}")
