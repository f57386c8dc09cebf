"""Checks whether optional packages are installed."""

import importlib.util


def check_installed(module: str, packages: str) -> None:
    """Raises ValueError, with the pip packages that provide a module, if it is not installed; does not import it."""
    spec = importlib.util.find_spec(module)
    if spec is None or spec.origin is None:  # a mere directory of that name, such as W&B's, is no package
        raise ValueError(f"{module} is not installed: pip install {packages}")
