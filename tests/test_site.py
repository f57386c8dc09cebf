"""The documentation site: its links, what its pages load, and its API reference. .ci/run builds it."""

import importlib.util
import re
from pathlib import Path

import pytest

import estimator_train as et
from estimator_train import input_fns
from estimator_train.app import datasets

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def site():
    spec = importlib.util.spec_from_file_location("mkdocs_hooks", ROOT / "docs" / "mkdocs_hooks.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("source", "written", "shown"),
    [
        ("README.md", "[hooks](docs/hooks.md#timing)", "[hooks](hooks.md#timing)"),
        ("README.md", "[SECURITY.md](SECURITY.md)", "[SECURITY.md](security.md)"),
        ("README.md", "![a report](docs/report.png)", "![a report](report.png)"),
        ("README.md", "[examples](examples)", "`examples`"),
        ("docs/hooks.md", "[the command](command.md)", "[the command](command.md)"),
        ("docs/hooks.md", "[README](../README.md)", "[README](index.md)"),
        ("docs/hooks.md", "[a script](../examples/unet3d.py)", "a script (`examples/unet3d.py`)"),
        ("docs/api/hooks.md", "[Hooks](../hooks.md)", "[Hooks](../hooks.md)"),
        (
            "docs/hooks.md",
            "[here](#timing), [there](https://example.org)",
            "[here](#timing), [there](https://example.org)",
        ),
        ("README.md", "```\n[x](docs/hooks.md)\n```", "```\n[x](docs/hooks.md)\n```"),
    ],
)
def test_links_lead_to_pages_and_other_files_become_paths(site, source, written, shown):
    assert site.with_links_of_the_site(written, source) == shown


@pytest.mark.parametrize(
    "text",
    [
        '<script async src="https://example.org/a.js"></script>',
        "<link rel=stylesheet href=//example.org/a.css>",
        '<img alt="" src="http://example.org/a.png">',
        "@font-face { src: url(https://example.org/a.woff2) }",
        '@import "https://example.org/a.css"',
    ],
)
def test_what_a_page_would_load_from_elsewhere_is_found(site, text):
    assert re.match("(https?:)?//example.org/a", *site.sources_elsewhere(text))


def test_own_files_and_links_to_follow_load_nothing_from_elsewhere(site):
    page = '<script src="a.js"></script><a href="https://example.org">x</a><link rel="canonical" href="https://x.org">'
    assert site.sources_elsewhere(f"{page} <style>a {{ background: url(a.png) }}</style>") == []


def test_the_api_reference_has_every_public_name():
    pages = "".join(path.read_text() for path in (ROOT / "docs" / "api").glob("*.md"))
    listed = set(re.findall(r"^::: estimator_train\.([\w.]+)$", pages, re.MULTILINE))
    own = {name for name in et._HOMES if getattr(et, name).__module__.startswith("estimator_train")}
    assert own - listed == set()
    # A function with the name of its module is not found among the names of the package.
    for package in (datasets, input_fns):
        room = package.__name__.partition(".")[2]
        hidden = [name for name in package.__all__ if importlib.util.find_spec(f"{package.__name__}.{name}")]
        assert {f"{room}.{name}.{name}" for name in hidden} - listed == set()
