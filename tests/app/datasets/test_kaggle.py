"""oct2017 from Kaggle: the real client, over HTTP, against a server on loopback that answers as Kaggle does."""

import base64
import contextlib
import email.utils
import errno
import importlib.util
import io
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
import zipfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import filelock
import numpy as np
import pytest
from PIL import Image

from estimator_train.app import datasets
from estimator_train.app.cli import main
from estimator_train.app.datasets import archive, kaggle, oct2017

# Runs the command in a process whose client knows Kaggle by another address.
PROGRAM = """
from kagglesdk import kaggle_env
kaggle_env._env_to_endpoint[kaggle_env.KaggleEnv.PROD] = {url!r}
from estimator_train.app.cli import main
main()
"""
COUNTS = {"train": 3, "test": 2, "val": 1}
MEGABYTE = 1 << 20


class Kaggle(ThreadingHTTPServer):
    """Serves one dataset to user `me` with key `secret`, or to the token `token`.

    `answers` has (status, body, headers) to send instead of its next answers. A download stops after `pause` bytes
    until `go_on` is set.
    """

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server_port}"
        self.archive, self.answers, self.ranges, self.pause = b"", [], [], None
        self.go_on = threading.Event()

    def handle_error(self, request, client_address):
        """Says nothing of clients that are killed."""


class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])) or "{}")
        if self.path.endswith("/IntrospectToken"):
            accepted = body["token"] == "token"
            self.answer(200, {"active": accepted, **({"username": "me"} if accepted else {})})
        elif self.path.endswith("/DownloadDataset"):
            self.download(f"{body['ownerSlug']}/{body['datasetSlug']}")
        else:
            self.answer(404)

    def download(self, name):
        key = base64.b64encode(b"me:secret").decode()
        if self.server.answers:
            self.answer(*self.server.answers.pop(0))
        elif self.headers.get("Authorization") not in (f"Basic {key}", "Bearer token"):
            self.answer(401)
        elif name != "paultimothymooney/kermany2018":
            self.answer(404)
        else:
            self.answer(302, headers={"Location": f"{self.server.url}/storage/archive.zip"})

    def do_GET(self):
        size = len(self.server.archive)
        asked = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
        start = int(asked.group(1)) if asked else 0
        self.server.ranges.append(start)
        self.send_response(206 if asked else 200)
        self.send_header("Content-Length", str(size - start))
        self.send_header("Content-Range", f"bytes {start}-{size - 1}/{size}")
        for name, value in {
            "Accept-Ranges": "bytes",
            "Content-Type": "application/zip",
            "ETag": '"one"',
            "Last-Modified": "Fri, 01 Jun 2018 12:00:00 GMT",
        }.items():
            self.send_header(name, value)
        self.end_headers()
        pause = self.server.pause or size
        self.wfile.write(self.server.archive[start:pause])
        if pause < size:
            self.server.go_on.wait(120)
        self.wfile.write(self.server.archive[max(start, pause) :])

    def answer(self, status, body=None, headers=None):
        body = json.dumps(body or {}).encode()
        self.send_response(status)
        for name, value in {"Content-Length": len(body), "Content-Type": "application/json", **(headers or {})}.items():
            self.send_header(name, str(value))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        pass


@pytest.fixture
def server(monkeypatch, tmp_path):
    if importlib.util.find_spec("kagglesdk") is None:
        pytest.skip("client 1.6, the newest for Python 3.10, leaves threads and sockets open")
    with Kaggle() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        for name in [name for name in os.environ if name.startswith("KAGGLE_")]:
            monkeypatch.delenv(name)
        (tmp_path / "home").mkdir()
        variables = {
            "HOME": tmp_path / "home",
            "XDG_CACHE_HOME": tmp_path / "cache",
            "KAGGLE_CONFIG_DIR": tmp_path / "home" / ".kaggle",
            "KAGGLE_USERNAME": "me",
            "KAGGLE_KEY": "secret",
        }
        for name, value in variables.items():
            monkeypatch.setenv(name, str(value))
        set_address(monkeypatch, server.url)
        yield server
        server.go_on.set()
        server.shutdown()
        thread.join()


def set_address(monkeypatch, url):
    from kagglesdk import kaggle_env

    monkeypatch.setitem(kaggle_env._env_to_endpoint, kaggle_env.KaggleEnv.PROD, url)


def tree(top="OCT2017 /", counts=COUNTS):
    """{path in the archive: bytes of a JPEG}."""
    rng = np.random.default_rng(3)
    files = {}
    for split, number in counts.items():
        for level, class_name in enumerate(oct2017.CLASS_NAMES):
            for index in range(number):
                file = io.BytesIO()
                pixels = np.clip(rng.normal(40 + 50 * level, 9, (24, 24)), 0, 255).astype("uint8")
                Image.fromarray(pixels).save(file, "JPEG")
                files[f"{top}{split}/{class_name}/{class_name}-{len(files)}-{index}.jpeg"] = file.getvalue()
    return files


def zipped(files):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as packed:
        for name, content in files.items():
            packed.writestr(zipfile.ZipInfo(name), content)  # without the time, so that tests get equal bytes
    return file.getvalue()


def files_in(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


@pytest.fixture
def download(server, monkeypatch, capsys, tmp_path):
    """Runs `estimator_train datasets download oct2017 --data-dir data`; returns exit code, output and errors."""

    def run():
        flags = ["datasets", "download", "oct2017", "--data-dir", str(tmp_path / "data")]
        monkeypatch.setattr(sys, "argv", ["estimator_train", *flags])
        with pytest.raises(SystemExit) as end:
            main()
        return end.value.code or 0, *capsys.readouterr()

    return run


@pytest.fixture
def succeeds(download, server, tmp_path):
    """Checks that the command then downloads the dataset, and that it leaves nothing else behind."""

    def check():
        server.archive = server.archive or zipped(tree())
        code, output, errors = download()
        assert code == 0, errors
        assert re.search(r"DRUSEN +3 +2", output)
        expected = [re.sub("^OCT2017 ", "kermany2018", name) for name in tree()]
        left = set(files_in(tmp_path / "data")) - {".lock"}
        assert left == set(expected)

    return check


def last_line(errors):
    return errors.strip().splitlines()[-1]


def test_the_archive_is_downloaded_unpacked_and_found_again(server, succeeds, download, tmp_path):
    succeeds()
    assert download()[0] == 0
    assert server.ranges == [0]
    data = datasets.open_dataset("oct2017", tmp_path / "data")
    assert (data.train_examples, data.eval_examples) == (12, 8)
    (images, labels), *_ = data.eval_input_fn(image_size=(24, 24), batch_size=8)()
    np.testing.assert_allclose(images.numpy().mean((1, 2, 3)) * 255, 40 + 50 * labels.numpy().argmax(1), atol=6)


def test_without_a_folder_it_is_downloaded_on_first_use_into_the_cache(server, tmp_path):
    server.archive = zipped(tree())
    assert not oct2017.is_here()
    for _ in range(2):
        data = datasets.open_dataset("oct2017")
    assert oct2017.is_here()
    assert server.ranges == [0]
    assert data.train.paths[0].startswith(str(tmp_path / "cache" / "estimator_train" / "oct2017"))


@pytest.mark.slow
def test_a_killed_download_resumes_and_its_data_is_read(server, tmp_path):
    server.archive = zipped({"padding": os.urandom(4 * MEGABYTE), **tree()})
    server.pause = 5 * MEGABYTE // 2
    program = PROGRAM.format(url=server.url)
    flags = ["datasets", "download", "oct2017", "--data-dir", str(tmp_path / "data")]
    process = subprocess.Popen([sys.executable, "-c", program, *flags], stderr=subprocess.PIPE, text=True)
    partial = tmp_path / "data" / ".download" / "kermany2018.zip"
    deadline = time.monotonic() + 120
    while not partial.exists() or partial.stat().st_size < 2 * MEGABYTE:
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=120)
    server.pause = None

    with pytest.raises(ValueError, match="datasets download oct2017 --data-dir .*data fetches it"):
        datasets.open_dataset("oct2017", tmp_path / "data")
    second = subprocess.run(
        [sys.executable, "-c", program, *flags], capture_output=True, text=True, timeout=200, check=False
    )
    assert second.returncode == 0, second.stderr
    assert server.ranges[0] == 0 and server.ranges[-1] == 2 * MEGABYTE
    assert not (tmp_path / "data" / ".download").exists()
    assert len(files_in(tmp_path / "data" / "kermany2018")) == len(tree())

    data = datasets.open_dataset("oct2017", tmp_path / "data")
    assert (data.train_examples, data.eval_examples) == (12, 8)
    images, labels = next(iter(data.train_input_fn(image_size=(16, 16), batch_size=4, num_epochs=1)()))
    assert (images.shape, labels.shape) == ((4, 16, 16, 3), (4, 4))


@pytest.mark.parametrize(
    "variables", [{}, {"KAGGLE_USERNAME": "me", "KAGGLE_KEY": "wrong"}, {"KAGGLE_API_TOKEN": "no"}]
)
def test_missing_and_rejected_credentials_are_three_lines(server, download, succeeds, monkeypatch, variables):
    for name in ("KAGGLE_USERNAME", "KAGGLE_KEY"):
        monkeypatch.delenv(name)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    code, output, errors = download()
    assert (code, output) == (2, "")
    how, where, instead = errors.splitlines()[-3:]
    assert "credentials" in how and "https://www.kaggle.com/settings" in how
    assert "KAGGLE_API_TOKEN" in where and "kaggle.json" in where
    assert "--data-dir" in instead
    monkeypatch.delenv("KAGGLE_API_TOKEN", raising=False)
    monkeypatch.setenv("KAGGLE_USERNAME", "me")
    monkeypatch.setenv("KAGGLE_KEY", "secret")
    succeeds()


@pytest.mark.parametrize("file", ["kaggle.json", "access_token"])
def test_credentials_of_files_serve(server, succeeds, monkeypatch, tmp_path, file):
    for name in ("KAGGLE_USERNAME", "KAGGLE_KEY"):
        monkeypatch.delenv(name)
    folder = tmp_path / "home" / ".kaggle"
    folder.mkdir(exist_ok=True)
    (folder / file).write_text('{"username": "me", "key": "secret"}' if file == "kaggle.json" else "token")
    (folder / file).chmod(0o600)
    from kaggle.api.kaggle_api_extended import KaggleApi

    monkeypatch.setattr(KaggleApi, "config_dir", str(folder))
    monkeypatch.setattr(KaggleApi, "config", str(folder / "kaggle.json"))  # read when the client was imported
    succeeds()


@pytest.mark.parametrize(
    ("status", "headers", "message"),
    [
        (403, {}, "403 Forbidden.*accept its terms"),
        (404, {}, "404 Not Found.*--data-dir"),
        (503, {}, "answered 503.*run the command again to resume"),
        (429, {"Retry-After": 4000}, "429 Too Many Requests.*in 4000 s"),
    ],
)
def test_refusals_of_kaggle_are_one_line(server, download, succeeds, status, headers, message):
    server.answers = [(status, None, headers)]
    code, output, errors = download()
    assert (code, output) == (2, "")
    assert re.search(message, last_line(errors))
    assert last_line(errors).startswith("estimator_train: ")
    succeeds()


def test_too_many_requests_are_waited_for_as_long_as_kaggle_asks(server, succeeds, monkeypatch):
    waits = []
    monkeypatch.setattr(kaggle.time, "sleep", waits.append)
    soon = email.utils.formatdate(time.time() + 100, usegmt=True)
    server.answers = [(429, None, {"Retry-After": value}) for value in (7, soon)] + [(429, None, {})]
    succeeds()
    assert waits[0] == 7 and 60 < waits[1] <= 100 and waits[2] == 30


def test_too_many_requests_are_not_waited_for_without_end(server, download, succeeds, monkeypatch):
    waits = []
    monkeypatch.setattr(kaggle.time, "sleep", waits.append)
    server.answers = [(429, None, {"Retry-After": 1})] * 5
    code, _, errors = download()
    assert code == 2 and "429 Too Many Requests" in last_line(errors)
    assert len(waits) == 4
    succeeds()


def test_a_kaggle_out_of_reach_is_one_line(server, download, succeeds, monkeypatch):
    closed = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    closed.server_close()
    set_address(monkeypatch, f"http://127.0.0.1:{closed.server_port}")
    code, _, errors = download()
    assert code == 2 and re.search("cannot be reached.*run the command again", last_line(errors))
    set_address(monkeypatch, server.url)
    succeeds()


def test_a_full_disk_is_reported_before_the_download(server, download, succeeds, monkeypatch, tmp_path):
    server.archive = zipped(tree())
    usage = archive.shutil.disk_usage(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr("shutil.disk_usage", lambda _: usage._replace(free=len(server.archive)))
        code, _, errors = download()
    assert code == 2 and re.search("needs .* GB of disk.* left; free some", last_line(errors))
    assert "kermany2018.zip" not in " ".join(files_in(tmp_path / "data"))
    succeeds()


@pytest.mark.parametrize("full_at", ["download", "unpacking"])
def test_a_disk_that_gets_full_is_one_line(server, download, succeeds, monkeypatch, full_at):
    def no_room(*args, **kwargs):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    server.archive = zipped(tree())
    with monkeypatch.context() as patch:
        if full_at == "download":
            from kaggle.api.kaggle_api_extended import KaggleApi

            patch.setattr(KaggleApi, "download_file", no_room)
        else:
            patch.setattr(archive.shutil, "copyfileobj", no_room)
        code, _, errors = download()
    assert code == 2 and re.search("the disk of .* is full; free some space and run", last_line(errors))
    succeeds()
    assert server.ranges == ([0, 0] if full_at == "download" else [0])


def damaged(content):
    """Returns the bytes of a zip file with a changed byte in an image."""
    place = content.index(b"JFIF")
    return content[:place] + b"X" + content[place + 1 :]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (zipped(tree())[:-300], "truncated"),
        (damaged(zipped(tree())), "damaged: Bad CRC-32"),
        (zipped({**tree(), "OCT2017 /../../evil.jpeg": b""}), "not safe: 'OCT2017 /../../evil.jpeg' leads out"),
        (zipped({**tree(), "/etc/evil.jpeg": b""}), "not safe: '/etc/evil.jpeg' leads out"),
        (b"  <!DOCTYPE html><html>Sign in</html>", "is a web page, not a zip file: perhaps one that asks to sign in"),
    ],
    ids=["truncated", "damaged", "outside", "absolute", "web page"],
)
def test_a_bad_archive_is_one_line_and_is_not_kept(server, download, succeeds, tmp_path, content, message):
    server.archive = content
    code, output, errors = download()
    assert (code, output) == (2, "")
    assert message in last_line(errors) and "run again to download it again" in last_line(errors)
    assert not list(tmp_path.rglob("evil*")) and not list(tmp_path.rglob("*.zip"))
    server.archive = zipped(tree())
    succeeds()


@pytest.mark.parametrize(
    ("files", "message"),
    [
        (
            {"readme.txt": b"nothing", "scans/CNV/1.jpeg": b"moved"},
            "none of the files of the dataset; it is kept: unpack",
        ),
        (
            {"OCT2017.zip": b"zip"},
            "unpack the zip file within it, OCT2017.zip, by hand; it is kept: unpack it, and give",
        ),
    ],
)
def test_an_archive_of_another_layout_is_kept_and_not_sent_again(files, message, server, download, tmp_path):
    server.archive = zipped(files)
    for _ in range(2):
        code, output, errors = download()
        assert (code, output) == (2, "") and message in last_line(errors)
    (archive,) = tmp_path.rglob("*.zip")
    assert archive.read_bytes() == server.archive and str(archive) in last_line(errors)
    assert server.ranges == [0]


def test_the_doubled_tree_is_unpacked_once(server, succeeds):
    mac = {f"__MACOSX/{name}": b"resource fork" for name in tree()}
    server.archive = zipped({**mac, **tree(), **tree("oct2017/OCT2017 /")})
    succeeds()


def test_a_half_unpacked_tree_is_finished(tmp_path, monkeypatch):
    (tmp_path / "kermany2018.zip").write_bytes(zipped(tree()))
    extract, extracted = archive._extract, []

    def break_off(source, entry, path, part):
        if len(extracted) == 5:
            part.write_bytes(b"half")
            raise KeyboardInterrupt
        extract(source, entry, path, part)
        extracted.append(path)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(archive, "_extract", break_off)
        datasets.open_dataset("oct2017", tmp_path)
    monkeypatch.setattr(archive, "_extract", lambda *args: (extracted.append(args[2]), extract(*args)))
    assert datasets.open_dataset("oct2017", tmp_path).train_examples == 12
    assert len(extracted) == len(set(extracted)) == len(tree())
    assert files_in(tmp_path / "kermany2018") == sorted(name.removeprefix("OCT2017 /") for name in tree())


@pytest.mark.parametrize("name", ["kermany2018.zip", "archive.zip"])
def test_a_zip_file_or_its_folder_is_a_data_dir(tmp_path, name):
    file = tmp_path / name
    file.write_bytes(zipped(tree()))
    for data_dir in (file, tmp_path, file.with_suffix("")):
        assert datasets.open_dataset("oct2017", data_dir).eval_examples == 8
    assert file.exists()


def test_a_part_of_a_zip_file_is_refused_and_kept(tmp_path):
    (tmp_path / "archive.zip").write_bytes(zipped(tree())[:-300])
    with pytest.raises(ValueError, match="archive.zip is not a zip file, or is truncated"):
        datasets.open_dataset("oct2017", tmp_path / "archive.zip")
    (tmp_path / "page.zip").write_text("<html>")
    with pytest.raises(ValueError, match="page.zip is a web page, not a zip file"):
        datasets.open_dataset("oct2017", tmp_path / "page.zip")
    assert files_in(tmp_path) == ["archive.zip", "page.zip"]


def test_one_process_at_a_time_downloads(server, download, tmp_path):
    server.archive = zipped(tree())
    (tmp_path / "data").mkdir()
    waiting = threading.Event()

    class Errors(io.StringIO):
        def write(self, text):
            if "waiting for another process" in text:
                waiting.set()
            return super().write(text)

    with contextlib.redirect_stderr(Errors()):
        with filelock.FileLock(tmp_path / "data" / ".lock"):
            other = threading.Thread(target=datasets.download, args=("oct2017", tmp_path / "data"))
            other.start()
            assert waiting.wait(120)
            assert server.ranges == []
        other.join(120)
    assert server.ranges == [0]
    assert Path(tmp_path, "data", "kermany2018").is_dir()
