"""The suite: which tests run when, that every process collects the same ones, and that they see no GPU unless asked."""

import os
import runpy
from pathlib import Path

import pytest
import warm_python

ROOT = Path(__file__).parent.parent
AFFECTED = runpy.run_path(str(ROOT / ".ci" / "affected"))
MATRIX = runpy.run_path(str(ROOT / ".ci" / "matrix"))


def chosen_by(*changed):
    """The files, and below tests/ the folders, of the slow tests that .ci/affected chooses."""
    tests = AFFECTED["slow_tests"](changed)
    return set(tests), {Path(test).parts[1] for test in tests}


def test_a_change_chooses_the_slow_tests_of_its_wing_and_those_above():
    assert chosen_by("estimator_train/app/models/head.py")[1] == {"app"}
    assert chosen_by("estimator_train/compat/doctor.py")[1] == {"app", "compat"}
    library, engine = chosen_by("estimator_train/hooks/timing.py"), chosen_by("estimator_train/_engine/errors.py")
    assert {"app", "compat", "hooks", "laws", "test_estimator.py"} < library[1] and "_engine" not in library[1]
    assert engine[1] == library[1] | {"_engine"}
    everything = chosen_by("setup.py", "CHANGELOG.md")
    assert everything == chosen_by("tests/helpers/models.py")
    application = {test for test in everything[0] if test.startswith("tests/app/")}
    assert everything == chosen_by("estimator_train/_engine/errors.py", "estimator_train/app/models/head.py")
    assert everything[0] - engine[0] == application - set(AFFECTED["WALKS"]) and application > set(AFFECTED["WALKS"])
    keras, graph = (chosen_by(f"estimator_train/_engine/{kind}/model.py")[0] for kind in ("keras", "graph"))
    assert keras | graph == engine[0] and keras - graph and graph - keras
    assert {test for test in engine[0] if test.startswith("tests/laws/")} <= keras & graph
    assert {Path(test).parts[1] for test in graph - keras} == {"_engine", "canned", "heads", "compat"}
    assert chosen_by("tests/hooks/test_timing.py")[0] == {"tests/hooks/test_timing.py"}
    assert chosen_by("CHANGELOG.md", ".ci/run") == (set(), set())


def test_tests_that_take_minutes_are_chosen_by_what_they_are_about():
    site, page = "tests/test_site.py", "tests/test_docs.py::test_a_page_can_be_followed_from_top_to_bottom[tutorial.md]"
    assert chosen_by("docs/tutorial.md")[0] == {site, page}
    assert chosen_by("docs/datasets.md")[0] == {site}  # no slow page
    assert chosen_by("examples/unet3d.py")[1] == {"examples", "test_docs.py"}
    assert chosen_by("tests/fuzz/toy.py")[0] == {"tests/fuzz/test_campaigns.py"}
    for rare, about in AFFECTED["RARE"].items():
        assert all((ROOT / path).exists() for path in (rare, *about))
        assert any(test.startswith(rare) for test in chosen_by(rare)[0])


def test_changed_private_names_or_requirements_run_more_of_the_matrix():
    rows = AFFECTED["rows"]
    assert rows(["docs/keras.md"]) == ["2.16"]
    private = "estimator_train/_engine/session/private_tensorflow.py"
    assert rows([private]) == rows(["setup.py"]) == ["2.16", "2.20", "library"]


@pytest.mark.slow
def test_a_later_collection_with_another_hash_seed_has_the_same_ids(request, tmp_path):
    """The server of warm_python has a seed of its own, unless one is set for all processes."""
    config = request.config
    options = ["-q", "--collect-only", "-n", "0", "-m", config.option.markexpr, "-k", config.option.keyword]
    again = warm_python.run(["-m", "pytest", *options, *config.args], tmp_path, cwd=ROOT)
    assert again.returncode == 0, again.stdout[-2000:]
    collected = [line for line in again.stdout.splitlines() if "::" in line]
    assert collected == [item.nodeid for item in request.session.items]


@pytest.mark.parametrize(("options", "seen"), [("", 0), ("'-m', 'gpu', ", 2)], ids=["default", "gpu"])
def test_gpus_are_hidden_unless_they_are_asked_for(options, seen, tmp_path):
    code = f"""
import os, pytest
pytest.main([{options}"-q", "--collect-only", "-n", "0", "tests/test_inputs.py"])
print(len(tf.config.get_visible_devices("GPU")), os.environ.get("CUDA_VISIBLE_DEVICES"))
print(os.environ.get("TF_FORCE_GPU_ALLOW_GROWTH"))
"""
    environment = {name: value for name, value in os.environ.items() if name != "CUDA_VISIBLE_DEVICES"}
    done = warm_python.run(["-m", "tests.helpers.pretended_gpus", 2, code], tmp_path, cwd=ROOT, env=environment)
    expected = ["2 None", "true"] if seen else ["0 -1", "None"]
    assert done.stdout.splitlines()[-2:] == expected, done.stderr[-2000:]


def test_the_nightlies_and_the_tests_that_fail_on_them_are_kept(tmp_path, monkeypatch):
    names = MATRIX["write_next"].__globals__
    comment, *pins = (ROOT / ".ci" / "next").read_text().splitlines()
    kept = tmp_path / "next"
    kept.write_text(f"{comment}\n")
    monkeypatch.setitem(names, "NEXT", kept)
    assert MATRIX["known_to_fail"]() == set()
    failed = {"tests/smoke.py::test_a[x-1]", "tests/test_private_b.py::test_c"}
    MATRIX["write_next"](["2.24", "3.13.0", "2.24.0.dev1", "3.17", "2.5", "7.37"], failed)
    lines = kept.read_text().splitlines()
    assert lines[:4] == [comment, "tf-nightly==2.24", "tf-keras-nightly==2.24.0.dev1", "keras-nightly==3.17"]
    assert [pin.partition("==")[0] for pin in pins if "==" in pin] == MATRIX["NIGHTLIES"]
    assert MATRIX["known_to_fail"]() == failed
