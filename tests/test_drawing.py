"""ARCHITECTURE.md draws the layers of the import contracts; on a difference, the test prints the drawing to paste."""

import sys
from pathlib import Path

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # import-linter brings it

ROOT = Path(__file__).parent.parent


def rows(layers, container):
    """Yields the layers of a package, from the top; indented below it, those of a package that has layers itself."""
    for layer in layers[container]:
        names = layer.replace(":", " ").replace("|", " ").split()
        yield "   ".join(names)
        inside = f"{container}.{names[0]}"
        if inside in layers:
            yield from (f"      {row}" for row in rows(layers, inside))


def test_the_map_draws_the_contracts():
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    layers = {each["containers"][0]: each["layers"] for each in contracts if each["type"] == "layers"}
    drawing = "\n".join(rows(layers, "estimator_train"))
    assert f"```text\n{drawing}\n```" in (ROOT / "ARCHITECTURE.md").read_text(), drawing
