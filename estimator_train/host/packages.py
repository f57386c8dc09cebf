"""Whether optional packages are installed."""

from __future__ import annotations

import importlib.util


def check_installed(module: str, packages: str) -> None:
    """Looks for a module of another package, without importing it.

        check_installed("tf2onnx", "tf2onnx onnxruntime")

    Args:
      packages: what pip must install for it.

    Raises:
      ValueError: it is not installed; the message has the command that installs it.
    """
    spec = importlib.util.find_spec(module)
    if spec is None or spec.origin is None:  # Python finds a mere folder of that name, such as W&B's, too
        raise ValueError(f"{module} is not installed: pip install {packages}")
