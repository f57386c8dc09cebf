"""Markers tell the tasks of a cluster that training has ended."""

import json
import time

import pytest

import estimator_train as et
from estimator_train._engine.cluster import completion
from estimator_train._engine.cluster.completion import CompletionMarkers, marking_completion
from estimator_train._engine.cluster.synchronous import LostWorkerError
from estimator_train._engine.remedies import InterruptedRunError

CLUSTER = {"chief": ["127.0.0.1:1"], "worker": ["127.0.0.1:2", "127.0.0.1:3"], "ps": ["127.0.0.1:4"]}


@pytest.fixture
def config_of(monkeypatch, tmp_path):
    """Returns the RunConfig of a task in a cluster."""

    def config_of(task_type, index=0, cluster=CLUSTER):
        task = {"type": task_type, "index": index}
        monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": cluster, "task": task}))
        return et.RunConfig(tmp_path)

    return config_of


@pytest.fixture
def markers_of(config_of, monkeypatch):
    """Returns the markers of a task that starts now."""
    return lambda task_type, index=0: CompletionMarkers(config_of(task_type, index))


def outcomes(directory):
    return {path.name: path.read_text().split()[0] for path in (directory / "ended").iterdir()}


def test_the_chief_and_all_workers_are_done_when_each_has_left_its_marker(markers_of, tmp_path):
    server = markers_of("ps")
    assert not server.chief_done()
    with markers_of("worker", 1).mark_on_exit():
        assert not (tmp_path / "ended").exists()
    assert not server.all_done()
    with markers_of("chief").mark_on_exit():
        pass
    assert server.chief_done() and not server.all_done()
    with markers_of("worker", 0).mark_on_exit():
        pass
    assert server.all_done()
    server.check_chief()
    assert outcomes(tmp_path) == {"chief": "done", "worker-0": "done", "worker-1": "done"}


def test_a_chief_that_fails_ends_the_others(markers_of, tmp_path):
    worker = markers_of("worker", 0)
    with pytest.raises(KeyboardInterrupt), markers_of("chief").mark_on_exit():
        raise KeyboardInterrupt
    assert outcomes(tmp_path) == {"chief": "failed"}
    assert worker.chief_done()
    with pytest.raises(InterruptedRunError, match="Start all tasks again"):
        worker.check_chief()


def test_a_chief_that_has_lost_a_worker_is_not_marked(markers_of):
    worker, chief = markers_of("worker"), markers_of("chief")
    with pytest.raises(LostWorkerError), chief.mark_on_exit():
        raise LostWorkerError
    assert not worker.chief_done()
    worker.check_chief()


def test_a_chief_that_starts_again_clears_its_marker(markers_of):
    worker, chief = markers_of("worker"), markers_of("chief")
    chief.clear()
    with chief.mark_on_exit():
        pass
    assert worker.chief_done()
    markers_of("chief").clear()
    assert not worker.chief_done()


def test_an_earlier_runs_marker_counts_after_the_chief_had_time_to_return(markers_of, monkeypatch, log_lines):
    with markers_of("chief").mark_on_exit():
        pass
    evaluator = markers_of("evaluator")
    assert not evaluator.chief_done()
    monkeypatch.setattr(completion, "_STALE_SECS", 0)
    assert evaluator.chief_done()
    assert any("has not restarted within 0 secs" in line for line in log_lines)


def test_a_chief_that_ends_in_the_second_in_which_a_task_starts_has_ended(markers_of, monkeypatch):
    monkeypatch.setattr(time, "time", lambda: 1700000000.25)
    before = markers_of("worker", 0)
    monkeypatch.setattr(time, "time", lambda: 1700000000.5)
    with markers_of("chief").mark_on_exit():
        pass
    monkeypatch.setattr(time, "time", lambda: 1700000000.75)
    assert before.chief_done()
    assert not markers_of("worker", 1).chief_done()


def test_a_lone_training_process_writes_a_marker_only_in_a_cluster(config_of, monkeypatch, tmp_path):
    with marking_completion(config_of("chief", cluster={"chief": ["127.0.0.1:1"]})):
        pass
    assert outcomes(tmp_path) == {"chief": "done"}
    monkeypatch.delenv("TF_CONFIG")
    with marking_completion(et.RunConfig(tmp_path / "alone")):
        pass
    assert not (tmp_path / "alone").exists()
