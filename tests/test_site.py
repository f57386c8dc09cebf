"""The documentation site: its links, what its pages load, its API reference, and its search."""

import functools
import http.server
import importlib.util
import json
import queue
import re
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import estimator_train as et
from estimator_train import input_fns
from estimator_train.app import datasets

ROOT = Path(__file__).parent.parent
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")

# Searches, and the page of docs/questions that each of them must find first.
QUESTIONS = {
    "module 'tensorflow' has no attribute 'estimator'": "no_attribute_estimator",
    "tf.estimator on TensorFlow 2.16": "no_attribute_estimator",
    "Adam(lr=1e-4)": "adam_lr",
    "resume training from checkpoint": "resume",
    "why does evaluate use an old checkpoint": "old_checkpoint",
    "loss is NaN": "nan_loss",
    "my accuracy is low": "low_accuracy",
    "overfitting": "low_accuracy",
    "few images, a small dataset": "low_accuracy",
    "subfolder": "low_accuracy",
    "phone": "low_accuracy",
    "corrupt": "low_accuracy",
    "k-fold": "low_accuracy",
    "DICOM": "low_accuracy",
    "labels of generators": "generator_labels",
    "slow input pipeline": "slow_input",
    "predict is slow": "slow_predict",
    "why is it not faster on two GPUs": "two_gpus",
    "out of memory": "out_of_memory",
    "ResourceExhaustedError": "out_of_memory",
}
# Asks the search of the site's own theme, in its worker, and sends the first page of each answer to the server.
ASKING = """
<script>
const questions = QUESTIONS, found = [], worker = new Worker("WORKER")
const ask = () => worker.postMessage({type: 2, data: questions[found.length]})
worker.onmessage = ({data}) => {
  if (data.type == 3) found.push(data.data.items.slice(0, 3).map(([first]) => first.location))
  if (found.length < questions.length) ask()
  else fetch("found", {method: "POST", body: JSON.stringify(found)})
}
fetch("search/search_index.json").then(answer => answer.json()).then(
  index => worker.postMessage({type: 0, data: {...index, options: {suggest: false}}}))
</script>
"""
# Measures each page in a frame of each width: how many blocks of code and tables there are, and the pages of those that
# are too wide.
MEASURING = """
<body><script>
const pages = PAGES, isWide = element => element.scrollWidth > element.clientWidth + 1
const found = WIDTHS.map(width => ({width, blocks: 0, cut: [], tables: 0, scrolling: []}))
const measure = async () => {
  for (const page of pages) {
    const frame = document.createElement("iframe")
    frame.style = "width: 1280px; height: 800px"
    await new Promise(loaded => { frame.onload = loaded; frame.src = page; document.body.append(frame) })
    for (const at of found) {
      frame.style.width = at.width + "px"
      for (const code of frame.contentDocument.querySelectorAll("pre > code"))
        at.blocks += 1, (isWide(code) || isWide(code.parentElement)) && at.cut.push(page)
      at.tables += frame.contentDocument.querySelectorAll(".md-typeset table").length
      for (const table of frame.contentDocument.querySelectorAll(".md-typeset__scrollwrap, table:not([class])"))
        isWide(table) && at.scrolling.push(page)
    }
    frame.remove()
  }
  fetch("found", {method: "POST", body: JSON.stringify(found)})
}
measure()
</script></body>
"""


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
        ("README.md", "[SECURITY.md](SECURITY.md)", "[Security](security.md)"),
        ("docs/command.md", "[gpu.md](gpu.md)", "[Measuring on GPUs](gpu.md)"),
        ("docs/gpu.md", "[hooks.md](hooks.md#logging)", "[Hooks: Logging](hooks.md#logging)"),
        ("README.md", "![a report](docs/report.png)", "![a report](report.png)"),
        ("README.md", '<img alt="a" src="docs/images/a.png" width="9">', '<img alt="a" src="images/a.png" width="9">'),
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
        ("README.md", "```text\n[x](docs/hooks.md)\n```", "```text\n[x](docs/hooks.md)\n```"),
        ("README.md", "```\nestimator_train\n```", "```sh\nestimator_train\n```"),
    ],
)
def test_links_show_titles_of_pages_and_paths_of_other_files(site, source, written, shown):
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


def test_cells_show_bars_and_keep_room_for_sentences(site):
    cells = "<td><code>a\\|b</code></td><td>" + "word " * 8 + "</td>"
    shown = site.on_page_content(f"{cells}<code>a\\|b</code>", None, None, None)
    assert re.findall(r"a.{1,2}b", shown) == ["a|b", r"a\|b"]
    assert shown.count("<td>") == shown.count('<td class="text">word') == 1


def test_cells_name_their_columns_where_a_phone_shows_rows_as_cards(site):
    table = "<table><thead><tr><th>a</th><th>b</th></tr></thead><tr><td>1</td><td>2</td></tr></table>"
    shown = site.on_page_content(table, None, None, None)
    assert re.findall(r'data-column="(.)">(.)', shown) == [("a", "1"), ("b", "2")]


def test_flags_and_short_code_are_kept_on_one_line(site):
    html = "<code>--data-dir</code> <code>estimator_train " + "x" * 30 + " --a-b</code> x--y <!-- z -->"
    shown = site.on_page_content(html, None, None, None)
    assert re.findall(r'class="whole">([^<]+)<', shown) == ["--data-dir", "--a-b"]


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


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The folder of the built site."""
    folder = tmp_path_factory.mktemp("built") / "site"
    build = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", folder]
    done = subprocess.run(build, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def sent_by(page, site, tmp_path):
    """Opens a page in headless Chromium, within the site, and returns what it sends to the server."""
    found = queue.Queue()
    (site / "asking.html").write_text(page)

    class Handler(http.server.SimpleHTTPRequestHandler):
        def do_POST(self):
            found.put(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Handler, directory=site)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        flags = ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path}/profile"]
        flags += ["--remote-debugging-port=0", f"http://127.0.0.1:{server.server_port}/asking.html"]
        with subprocess.Popen([CHROMIUM, *flags], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as browser:
            try:
                return found.get(timeout=240)
            finally:
                browser.terminate()
                server.shutdown()


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium to search with")
def test_the_search_finds_the_answer_to_each_question_first(built, tmp_path):
    (worker,) = (built / "assets" / "javascripts" / "workers").glob("search.*.js")
    page = ASKING.replace("QUESTIONS", json.dumps(list(QUESTIONS))).replace("WORKER", str(worker.relative_to(built)))
    answers = sent_by(page, built, tmp_path)
    first = {question: pages[:1] for question, pages in zip(QUESTIONS, answers, strict=True)}
    assert first == {question: [f"questions/{page}/"] for question, page in QUESTIONS.items()}, answers


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium to look at the site with")
def test_no_code_is_cut_and_few_tables_scroll(built, tmp_path):
    pages = sorted(str(page.relative_to(built)) for page in built.rglob("index.html"))
    page = MEASURING.replace("PAGES", json.dumps(pages)).replace("WIDTHS", json.dumps([1280, 390]))
    for found in sent_by(page, built, tmp_path):
        assert found["blocks"] > 300 and found["tables"] > 60
        assert found["cut"] == [], found["width"]
        assert len(found["scrolling"]) <= 5, found
