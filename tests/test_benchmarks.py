"""Benchmarks: statistics, the processes that run in turn, and the tables in docs."""

import ast
import json
import os
import re
import shutil
import subprocess
import sys
import types
from pathlib import Path

import pytest
import tensorflow as tf
import warm_python

sys.path.append(str(Path(__file__).parent.parent))  # benchmarks is not installed

from benchmarks import compare_tf215, peers, performance_page, ratios, runner, scaling, works
from benchmarks.__main__ import main
from benchmarks.clients import __main__ as clients
from benchmarks.clients import shims
from benchmarks.gpu import __main__ as gpu
from benchmarks.gpu import machine
from benchmarks.gpu.lines import VGG16, all_lines
from benchmarks.sides.serve import serve
from estimator_train.compat.verify import NotVerifiedError

ANSWERS = {
    "ours": [{"wall": 2.0, "cpu": 1.0}, {"wall": 1.0, "cpu": 1.0}, {"wall": 2.0, "cpu": 2.0}],
    "theirs": [{"wall": 3.0, "cpu": 4.0}, {"wall": 4.0, "cpu": 2.0}, {"wall": 1.0, "cpu": 2.0}],
}


def test_a_row_has_the_ratio_of_each_pair_and_their_median():
    row = ratios.compare("ours", "theirs", ANSWERS, "wall")
    assert row["ratios"] == [1.5, 4.0, 0.5]
    assert row["ratio"] == 1.5
    assert row["cpu_ratio"] == 2.0
    assert (row["wall_ours"], row["wall_theirs"]) == ([2.0, 1.0, 2.0], [3.0, 4.0, 1.0])
    assert ratios.spread(row) == ("1.50", "0.50", "4.00", "3")


def test_the_page_gets_a_row_for_each_work_and_peer_and_keeps_its_prose(tmp_path):
    result = {
        "what": "an epoch of small_images",
        "command": "python -m benchmarks input_pipeline",
        "cpu": "a CPU",
        "cores": 2,
        "load": [0.04, 2.0],
        "sides": {name: {"device": "CPU", "versions": {"tensorflow": "2.21.0"}} for name in ANSWERS},
        "rows": [ratios.compare("ours", "theirs", ANSWERS, "wall")],
    }
    itself = {"device": "CPU", "versions": {"estimator_train": "0.1.0"}}
    beside_itself = result | {"what": "steps", "sides": dict.fromkeys(ANSWERS, itself)}
    (tmp_path / "of_ourselves.json").write_text(json.dumps(beside_itself))
    (tmp_path / "result.json").write_text(json.dumps(result))
    page = tmp_path / "page.md"
    marked = ["\n".join((begin, "old", end)) for begin, end in map(performance_page.markers, performance_page.PARTS)]
    page.write_text("\n".join(["before", *marked, "after\n"]))
    for _ in range(2):
        performance_page.write(
            dict.fromkeys(performance_page.PARTS, page), [tmp_path / "result.json", tmp_path / "of_ourselves.json"]
        )
    lines = page.read_text().splitlines()
    assert (lines[0], lines[-1]) == ("before", "after")
    assert "old" not in lines
    in_short, row = [line for line in lines if "small" in line]
    assert [cell.strip() for cell in in_short.strip("|").split("|")] == ["an epoch of small\\_images", "theirs", "1.50"]
    assert [cell.strip() for cell in row.strip("|").split("|")] == [
        *("an epoch of small\\_images", "ours", "theirs", "1.50", "0.50", "4.00", "3")
    ]
    assert len([line for line in lines if line.startswith("| steps")]) == 1  # only in the whole table
    circumstances, _ = [line for line in lines if line.startswith("- ")]
    assert circumstances == (
        "- `python -m benchmarks input_pipeline`: a CPU, 2 cores, load 0.0 to 2.0; on the CPU; tensorflow 2.21.0"
    )


def test_a_page_without_markers_is_refused(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("text")
    with pytest.raises(ValueError, match="must have the lines"):
        performance_page.write(dict.fromkeys(performance_page.PARTS, page), [])


@pytest.mark.parametrize("work", works.WORKS, ids=lambda work: work.__name__)
def test_every_side_of_a_benchmark_is_a_function_of_its_peer(work):
    benchmark = work()
    for side in benchmark.sides.values():
        assert side.peer in peers.REQUIREMENTS
        source = (Path(runner.__file__).parent / "sides" / f"{side.peer}.py").read_text()
        assert side.work in source
    for ours, theirs in benchmark.rows:
        assert benchmark.sides[ours].peer == "ours"
        assert theirs in benchmark.sides


@pytest.fixture
def side(tmp_path, monkeypatch):
    """A peer whose piece of work prints, and counts how often it ran in its process."""
    folder = tmp_path / "benchmarks" / "sides"
    folder.mkdir(parents=True)
    for package in (folder, folder.parent):
        (package / "__init__.py").touch()
    (folder / "serve.py").write_text(Path(sys.modules[serve.__module__].__file__).read_text())
    (folder / "counting.py").write_text(
        "from benchmarks.sides.serve import serve\n"
        "def count(by, fail=False):\n"
        "    total = 0\n"
        "    def piece():\n"
        "        nonlocal total\n"
        "        if fail:\n"
        "            raise ValueError('of the side')\n"
        "        print('in between')\n"
        "        total += by\n"
        "        return {'total': total}\n"
        "    return piece\n"
        "serve({'count': count}, ['pip'], lambda: 'CPU')\n"
    )
    monkeypatch.setattr(runner, "ROOT", tmp_path)
    return lambda **options: works.Side("counting", "count", options)


@pytest.mark.parametrize("fresh, totals", [(False, [2, 4, 6]), (True, [2, 2, 2])])
def test_sides_run_in_turn_in_processes_that_stay_or_are_fresh(side, fresh, totals):
    benchmark = works.Benchmark("counting", {"one": side(by=1), "two": side(by=2)}, [], fresh=fresh)
    answers = runner.run_in_turn(benchmark, {"counting": sys.executable}, pairs=3)
    assert [answer["total"] for answer in answers["two"]] == totals
    assert all(answer["wall"] > 0 and answer["device"] == "CPU" for answer in answers["one"])


def test_a_side_has_only_its_own_environment_and_none_of_the_users_choices(tmp_path, side, monkeypatch):
    for name in ("TF_ENABLE_ONEDNN_OPTS", "PYTHONDONTWRITEBYTECODE"):
        monkeypatch.setenv(name, "1")
    names = "[os.environ.get('TF_ENABLE_ONEDNN_OPTS'), os.environ.get('PYTHONDONTWRITEBYTECODE')]"
    (tmp_path / "benchmarks" / "sides" / "counting.py").write_text(
        "import os\nfrom benchmarks.sides.serve import serve\n"
        f"serve({{'count': lambda: lambda: {{'has': {names}}}}}, ['pip'], lambda: 'CPU')\n"
    )
    sides = {"as it comes": side(), "with": side()._replace(environment=works.ONEDNN)}
    answers = runner.run_in_turn(works.Benchmark("reading", sides, []), {"counting": sys.executable}, pairs=1)
    assert [answers[name][0]["has"] for name in sides] == [[None, None], ["1", None]]


def test_ours_can_be_compared_with_another_checkout(tmp_path, side):
    there = tmp_path / "there"
    shutil.copytree(tmp_path / "benchmarks", there / "benchmarks")
    counting = there / "benchmarks" / "sides" / "counting.py"
    counting.write_text(counting.read_text().replace("total += by", "total -= by"))
    one = side(by=1)._replace(checkout=str(there))
    answers = runner.run_in_turn(
        works.Benchmark("counting", {"here": side(by=1), "there": one}, []), {"counting": sys.executable}, pairs=1
    )
    assert [answers[name][0]["total"] for name in ("here", "there")] == [1, -1]

    benchmark = works.against_checkout(works.step_overhead(), str(there))
    assert {side.peer for side in benchmark.sides.values()} == {"ours"}
    assert all(
        benchmark.sides[theirs].checkout and not benchmark.sides[ours].checkout for ours, theirs in benchmark.rows
    )


ASSUMED = types.SimpleNamespace(**{name.replace("-", "_"): default for name, default, _ in scaling.ASSUMPTIONS})
COSTS = scaling.Costs({"tiny_cnn": 2e-3, "wide_network": 3e-2}, call=5e-4, message=2e-4, byte=1e-9)


def test_a_fit_finds_the_costs_that_the_steps_were_made_of():
    observations = [
        scaling.Observation(setting, workers, clock=1.0, processor=COSTS.step(setting, workers))
        for setting in scaling.SETTINGS
        for workers in scaling.WORKERS
    ]
    found = scaling.fit(observations)
    assert found.compute == pytest.approx(COSTS.compute)
    assert found[1:] == pytest.approx(COSTS[1:])
    report = scaling.report(observations, scaling.Measured(found, 1e-3, 1e-9), ASSUMED, [0.5, 2.0])
    assert "200 us a message" in report and "load 0.5 to 2.0" in report
    assert len([line for line in report.splitlines() if "+0%" in line or "-0%" in line]) == len(observations)


def test_the_table_of_forms_has_the_cores_and_the_bytes_a_second():
    forms = {"files": (1.6e-3, 50_000), "decoded": (2e-5, 200_704)}
    table = scaling.table_of_forms(forms, [0.5, 2.0])
    cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines()]
    assert cells[2:4] == [["files", "1.60", "32", "1000"], ["decoded", "0.02", "1", "4014"]]
    assert table.endswith("load 0.5 to 2.0.")


@pytest.mark.parametrize(
    ("changes", "gives_way"),
    [
        ({"network_gbit": 1.0}, "bandwidth"),
        ({"network_us": 1e4, "network_gbit": 1e4}, "latency"),
        ({"cores": 1}, "input"),
        ({"checkpoint_secs": 1.0, "network_gbit": 1e4}, "checkpoint"),
    ],
)
def test_more_hosts_are_less_efficient_by_what_is_slow(changes, gives_way):
    assumed = types.SimpleNamespace(**vars(ASSUMED) | changes)
    measured = scaling.Measured(COSTS, image=1e-3, checkpoint_byte=1e-9)
    predictions = [scaling.predict(measured, assumed, hosts) for hosts in scaling.HOSTS]
    efficiencies = [each.efficiency for each in predictions]
    assert efficiencies == pytest.approx(sorted(efficiencies, reverse=True)) and efficiencies[-1] < 0.9
    assert f"The first to give way is {gives_way}" in scaling.first_to_give_way(predictions)


@pytest.mark.parametrize("text", ["0", "-1", "two"])
def test_a_number_that_is_not_positive_is_refused(text, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["benchmarks", "startup", "--pairs", text])
    with pytest.raises(SystemExit):
        main()
    assert f"argument --pairs: '{text}' is not a positive number, such as 5" in capsys.readouterr().err


def test_a_side_that_fails_ends_the_benchmark_with_its_error(side):
    benchmark = works.Benchmark("counting", {"one": side(by=1, fail=True)}, [])
    with pytest.raises(SystemExit, match="(?s)counting.*of the side"):
        runner.run_in_turn(benchmark, {"counting": sys.executable}, pairs=1)


def test_ours_runs_where_the_benchmark_does():
    assert os.path.samefile(peers.set_up("ours"), sys.executable)


def test_every_client_has_its_program_its_shims_and_a_row_of_the_page():
    page = clients.PAGE.read_text()
    for name, client in clients.CLIENTS.items():
        assert Path(clients.__file__).with_name(f"{name}.py").exists()
        assert all(getattr(shims, shim).__doc__ for shim in client.shims)
        assert f"| {client.name}" in page


def test_a_python_without_pip_or_tensorflow_is_named_with_the_remedy(tmp_path, monkeypatch):
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "bare"], check=True)
    python = str(tmp_path / "bare" / "bin" / "python")
    monkeypatch.setattr(clients.platformdirs, "user_cache_path", lambda name: tmp_path / name)
    with pytest.raises(SystemExit, match="bare/bin/python has no pip to install deepctr==0.9.4; run: .* ensurepip"):
        clients.installed(clients.CLIENTS["ctr"], python)
    with pytest.raises(NotVerifiedError, match=r"bare/bin/python has no TensorFlow: .*=2\.15\.1; .*=1\.15\.5"):
        clients.tensorflow_version(python)


def test_a_clients_row_has_the_progress_of_each_side_and_their_difference():
    old = {"trains": 3, "evaluates": {"loss": 2.0}, "predicts": [[1.0]], "exports": {"signatures": ["predict"]}}
    assert clients.row("ctr", "Some", old, old | {"predicts": [[1.5]]})[2:] == [
        *["trains, evaluates, predicts, exports"] * 2,
        *("2", "2", 4, "5.0e-01"),
    ]
    stopped = {"trains": 3, "error": "ValueError: no"}
    assert clients.row("ctr", "Some", old, stopped)[2:] == [
        *("trains, evaluates, predicts, exports", "trains, ValueError: no", "2", "", 4, "inf")
    ]
    absent = {"error": "ImportError: no"}
    assert clients.row("ctr", "its import", absent, absent)[2:] == [*["ImportError: no"] * 2, "", "", 0, "0.0e+00"]


@pytest.mark.parametrize("device_count", [1, 3, 8])
def test_every_line_of_gpus_is_one_and_so_is_what_it_is_compared_with(device_count):
    lines = all_lines(device_count)
    keys = [(line.name, line.devices) for line in lines]
    assert len(set(keys)) == len(keys)
    assert all(line.baseline is None or (line.baseline, line.devices) in keys for line in lines)
    assert sorted({devices for _, devices in keys}) == [1, 2, 4, 8][: device_count.bit_length()]
    assert any(line.training.all_reduce == "nccl" for line in lines) == (device_count > 1)


@pytest.fixture
def gpu_command(monkeypatch, capsys):
    """Runs `python -m benchmarks.gpu`, whose processes `run` makes; gives the cells of its rows, and its last line."""

    def command(run, *arguments):
        monkeypatch.setattr(gpu, "_run", run)
        monkeypatch.setattr(gpu.importlib.util, "find_spec", lambda name: None)
        monkeypatch.setattr(sys, "argv", ["gpu", *map(str, arguments)])
        gpu.main()
        _, _, *rows, _, circumstances = capsys.readouterr().out.splitlines()
        return [[cell.strip() for cell in re.split(r"(?<!\\)\|", row)[1:-1]] for row in rows], circumstances

    return command


def test_a_failed_training_leaves_its_error_in_the_table_and_others_run(gpu_command, tmp_path):
    rates = iter([100.0, 110.0, 150.0, 198.0])

    def run(module, environment):
        told = {"gpus": 2, "names": ["A GPU"], "versions": {"TensorFlow": "2"}}
        if module[0].endswith("training"):
            training, _, data_dir, _ = json.loads(module[1])
            assert data_dir == str(tmp_path)
            if training["all_reduce"] == "nccl":
                raise subprocess.TimeoutExpired(module, 1)
            if training["all_reduce"]:
                return subprocess.CompletedProcess(module, 1, "", "Error:\n OOM when allocating 1 | 2\n\t [[node]]\n")
            if training["settings"] or training["images"] != "files" or training["side"] == "step" or environment:
                # As from an H100: XLA's compilation of VGG16, in a MirroredStrategy of one GPU.
                of_graph = "2 root error(s) found.\n  (0) INVALID_ARGUMENT:  feed it\n  (1) INVALID\n0 errors ignored."
                return subprocess.CompletedProcess(module, 1, "", of_graph if training["settings"] else "")
            told = {"examples_per_second": next(rates), "peak_bytes": 2e9, "estimated_bytes": None, "idle_share": 0.25}
        return subprocess.CompletedProcess(module, 0, f"a note\n{json.dumps(told)}\n", "")

    rows, circumstances = gpu_command(run, "--only", VGG16, "--data-dir", tmp_path)
    assert rows[0] == [f"{VGG16}, Keras fit", "1", "100.0", "", "", "", "", "25%", "2.00", "", ""]
    assert rows[3] == [VGG16, "2", "198.0", f"{VGG16}, Keras fit", "1.32", "90%", "", "25%", "2.00", "", ""]
    told = {row[0]: row[2] for row in rows}
    assert told[f"{VGG16}, NCCL"] == "failed: it had not ended after 20 minutes"
    assert told[f"{VGG16}, hierarchical copy"] == r"failed: OOM when allocating 1 \| 2"
    assert told[f"{VGG16}, jit_compile=True"] == "failed: (0) INVALID_ARGUMENT:  feed it"
    assert told[f"{VGG16}, PyTorch"] == "needs torch and torchvision"
    assert told[f"{VGG16}, all memory at the start"] == "failed: exit code 1"
    assert circumstances.startswith(f"- `python -m benchmarks.gpu --data-dir FOLDER --only {VGG16}`: 2 x A GPU; ")
    with pytest.raises(SystemExit, match="no line has that in its name"):
        gpu_command(run, "--only", "VGG17")


def test_without_gpus_the_benchmark_of_gpus_says_what_to_do(gpu_command):
    told = json.dumps({"gpus": 0, "names": [], "versions": {}})
    with pytest.raises(SystemExit, match="TensorFlow sees no GPU: .* --devices cpu --quick needs none"):
        gpu_command(lambda *module: subprocess.CompletedProcess(module, 0, told, ""))


def test_the_names_and_the_memory_of_gpus_are_read(monkeypatch, tmp_path):
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: ["first", "second"])
    monkeypatch.setattr(tf.config.experimental, "get_device_details", lambda gpu: {"device_name": "A GPU"})
    monkeypatch.setattr(tf.config.experimental, "get_memory_info", lambda name: {"peak": 10 + int(name[-1])})
    monkeypatch.setattr(tf.sysconfig, "get_build_info", lambda: {"cuda_version": "12.5"})
    gpus = ["GPU:0", "GPU:1"]
    monkeypatch.setenv("PATH", str(tmp_path))
    assert machine.describe()["versions"]["driver"] == "unknown" and machine.taken_bytes(gpus) is None
    program = tmp_path / "nvidia-smi"
    program.write_text("#!/bin/sh\ncase $1 in *driver*) echo 550.54;; *) echo 1000; echo 3000;; esac\n")
    program.chmod(0o755)
    told = machine.describe()
    assert (told["gpus"], told["names"]) == (2, ["A GPU"])
    assert {"CUDA": "12.5", "driver": "550.54"}.items() <= told["versions"].items()
    assert (machine.peak_bytes(gpus), machine.taken_bytes(gpus)) == (11, 3000 * 2**20)
    assert machine.peak_bytes(["CPU:0"]) is machine.taken_bytes(["CPU:0"]) is None


def test_the_idle_share_of_a_profile_is_the_time_without_kernels(tmp_path):
    from tensorflow.tsl.profiler.protobuf import xplane_pb2

    space = xplane_pb2.XSpace()
    streams = {"Stream #1": [(0, 10), (40, 20), (50, 50)], "Stream #2": [(20, 10)], "XLA Ops": [(0, 100)]}
    for number, idle in ((0, False), (1, True)):
        plane = space.planes.add(name=f"/device:GPU:{number}")
        plane.event_metadata[1].name, plane.event_metadata[2].name = "a kernel", "MemcpyH2D"
        for name, events in streams.items():
            line = plane.lines.add(name=name, timestamp_ns=7)
            for begin, duration in events:
                copies = idle and name == "Stream #2"
                line.events.add(metadata_id=1 + copies, offset_ps=begin, duration_ps=duration)
    space.planes.add(name="/host:CPU")
    (tmp_path / "plugins").mkdir()
    (tmp_path / "plugins" / "host.xplane.pb").write_bytes(space.SerializeToString())
    # From 10 to 20 and from 30 to 40, and where the second stream only copies, from 10 to 40.
    assert machine.idle_share(tmp_path) == pytest.approx((0.2 + 0.3) / 2)


@pytest.mark.slow
def test_lines_of_gpus_run_on_cpus(gpu_command, tmp_path):
    def run(module, environment):
        environment = os.environ | environment | {"CUDA_VISIBLE_DEVICES": ""}
        return warm_python.run(["-m", *module], tmp_path, cwd=runner.ROOT, env=environment)

    rows, _ = gpu_command(run, "--devices", "cpu", "--quick", "--only", "VGG16, hierarchical copy")
    ((name, devices, rate, _, _, _, wait, *of_gpus),) = rows
    assert (name, devices) == (f"{VGG16}, hierarchical copy", "2")
    assert float(rate) > 0 and re.fullmatch(r"\d+%", wait)
    idle, peak, estimated, taken = of_gpus
    assert [idle, peak, taken] == ["needs a GPU"] * 3 and float(estimated) > 0.05


def test_the_port_of_each_tensorflow_1_script_needs_no_contrib(tmp_path):
    scripts = [script for script in compare_tf215.SCRIPTS if script.parent.name == "tf1"]
    assert len(scripts) == len(list(compare_tf215.BY_HAND.glob("*.patch"))) == 4
    for script in scripts:
        assert "contrib" in ast.unparse(_without_docstring(script))
        assert "contrib" not in ast.unparse(_without_docstring(compare_tf215.ported(script, tmp_path)))


def _without_docstring(script):
    tree = ast.parse(script.read_text())
    return ast.Module(tree.body[1:], [])
