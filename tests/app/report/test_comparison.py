"""Differences between runs are computed from their files, and shown on a terminal and as a page."""

import pytest
from pages import Page
from PIL import Image

from estimator_train.app.report.comparison import (
    Changes,
    ComparedRun,
    Prediction,
    changes,
    class_numbers,
    differing_facts,
    numbers,
    table,
)
from estimator_train.app.report.comparison_page import write_comparison


def run(name, accuracy, predicted, **facts):
    """A run that has predicted these classes of four examples, the first two of class A and the others of B."""
    of_class = {"precision": accuracy, "recall": 1.0, "f1": accuracy, "roc_auc": None, "support": 2}
    classification = {"accuracy": accuracy, "macro_f1": accuracy, "macro_roc_auc": None}
    classification["classes"] = {"<A>": of_class, "B": of_class}
    metrics = {"accuracy": accuracy, "loss": 1 - accuracy, "recalls": [1.0, None]}
    evaluation = {"checkpoint": "model.ckpt-9", "step": 9, "metrics": metrics, "classification": classification}
    predictions = {
        f"{true}/{index}.png": Prediction(true, of, "0.9000")
        for index, (true, of) in enumerate(zip(["<A>", "<A>", "B", "B"], predicted, strict=True))
    }
    curves = {"loss": {3: 1.0, 9: 1 - accuracy}, "loss of training": {1: 2.0, 8: 0.5}}
    return ComparedRun(name, {"model": "small_cnn", "image_size": [24, 32]} | facts, evaluation, curves, predictions)


@pytest.fixture
def runs():
    return [
        run("runs/a", 0.5, ["<A>", "B", "B", "<A>"], seed=1, git_commit=None),
        run("runs/b", 0.75, ["B", "<A>", "B", "B"], seed=2, git_commit=None, weights="imagenet"),
    ]


def test_only_differing_settings_are_listed(runs):
    assert differing_facts(runs) == {"seed": ["1", "2"], "weights": ["none", "imagenet"]}
    smaller = runs[0]._replace(facts=runs[0].facts | {"image_size": [16, 16], "log": ["csv", "wandb"]})
    assert differing_facts([runs[0], smaller]) == {"image_size": ["24x32", "16x16"], "log": ["none", "csv, wandb"]}


def test_numbers_are_those_of_the_last_evaluations(runs):
    assert numbers(runs) == {
        "checkpoint": ["model.ckpt-9", "model.ckpt-9"],
        "accuracy": [0.5, 0.75],
        "macro F1": [0.5, 0.75],
        "loss": [0.5, 0.25],
    }
    assert class_numbers(runs)["<A>"]["F1"] == [0.5, 0.75]


def changed(right, wrong, shared):
    """The changes of a run that got so many of the shared examples right or wrong, unlike the first run."""
    return Changes("b", shared, dict.fromkeys(map(str, range(right))), dict.fromkeys(map(str, range(wrong))))


def test_differences_have_the_interval_and_the_test_of_pairs():
    change = changed(10, 2, shared=100)
    assert change.difference == pytest.approx(0.08)
    # The normal approximation: 1.96 standard deviations of sqrt(12 - 8 * 8 / 100) / 100.
    assert change.interval == pytest.approx((0.014, 0.146), abs=0.011)
    assert change.p_value == pytest.approx(2 * (1 + 12 + 66) / 2**12)  # 0, 1 or 2 of 12 coins, on either side
    assert "of 100 shared examples, 10 changed from wrong to right and 2 from right to wrong" in str(change)


@pytest.mark.parametrize(
    ("right", "wrong", "verdict"),
    [
        (10, 2, "b is better than the first run: accuracy +8.0 points, McNemar's p 0.0386 (below 0.05 decides)"),
        (2, 10, "b is worse than the first run: accuracy -8.0 points, McNemar's p 0.0386 (below 0.05 decides)"),
        (3, 2, "b is neither better nor worse than the first run: accuracy +1.0 points, McNemar's p 1.0000 (below"),
        (50, 0, "b is better than the first run: accuracy +50.0 points, McNemar's p below 0.0001 (below 0.05"),
    ],
)
def test_one_test_decides_which_run_is_better(right, wrong, verdict):
    assert changed(right, wrong, shared=100).verdict.startswith(verdict)


def test_a_comparison_begins_with_the_verdict_and_has_differences(runs):
    lines = table(runs).splitlines()
    assert lines[0].startswith("runs/b is neither better nor worse than the first run: ")
    rows = [line.split() for line in lines]
    assert ["accuracy", "0.5000", "0.7500", "+0.2500"] in rows
    _, of_three, *_ = table([*runs, runs[0]._replace(name="runs/c")]).split("\n\n")
    assert "runs/c" in of_three and "difference" not in of_three


def test_a_metric_of_one_step_has_no_chart(runs, tmp_path):
    once = [run._replace(curves={"loss": {4: 0.5}}) for run in runs]
    write_comparison(tmp_path / "page.html", once)
    assert "over the global steps" not in (tmp_path / "page.html").read_text()


@pytest.mark.parametrize("shared", [0, 50])
def test_runs_without_changes_do_not_differ(shared):
    change = changed(0, 0, shared)
    assert (change.difference, change.interval, change.p_value) == (0, (0, 0), 1)
    assert ("shares no examples with the first run" in str(change)) == (not shared)


def test_examples_that_changed_sides_are_shown_as_thumbnails(runs, tmp_path):
    images = {"B/3.png": Image.new("L", (20, 10), 90)}
    page = Page(write_comparison(tmp_path / "page.html", runs, images.get))
    assert [image["alt"] for image in page.images() if "png" in image["alt"]] == ["B/3.png: B"]
    assert "runs/b: B 0.9000" in page.text


def test_a_notebook_shows_a_run_as_a_table(runs):
    assert repr(runs[0]) == "<run runs/a>"
    table = runs[0]._repr_html_()
    assert "<tr><th>accuracy</th><td>0.5000</td></tr>" in table
    assert "<tr><th>model</th><td>small_cnn</td></tr>" in table


def test_images_that_changed_sides_are_found_among_those_that_both_have(runs):
    first, second = runs
    del first.predictions["B/3.png"]
    (change,) = changes(runs)
    assert (change.shared, list(change.right_now), list(change.wrong_now)) == (3, ["<A>/1.png"], ["<A>/0.png"])
    assert change.right_now["<A>/1.png"] == (("<A>", "B", "0.9000"), ("<A>", "<A>", "0.9000"))
    assert changes([first, second._replace(predictions=None)]) == []


def numbered(run, **facts):
    """The run with numbers as the names of its examples, and other facts."""
    predictions = dict(zip("0123", run.predictions.values(), strict=True))
    return run._replace(predictions=predictions, facts=run.facts | facts)


@pytest.mark.parametrize(
    "facts, other, pairs",
    [
        ({}, {}, 4),  # the runs have different seeds
        ({"limit": 4, "seed": None}, {"limit": 4, "seed": 0}, 4),
        ({"limit": 4}, {"limit": 4}, None),
        ({"limit": 4}, {"limit": 8, "seed": 1}, None),
        ({"data_dir": "/a.npz"}, {"data_dir": "/b.npz"}, None),
        ({"dataset": "tfds:a"}, {"dataset": "tfds:b"}, None),
        ({"eval_input_fn": "/a.py:rows"}, {"eval_input_fn": "/b.py:rows"}, None),
    ],
)
def test_numbered_examples_are_paired_only_in_the_same_data(runs, facts, other, pairs):
    found = changes([numbered(runs[0], **facts), numbered(runs[1], **other)])
    assert [change.shared for change in found] == ([] if pairs is None else [pairs])


def test_images_of_one_name_in_different_classes_are_not_paired(runs):
    first, second = runs
    first.predictions["B/3.png"] = first.predictions["B/3.png"]._replace(true_class="<A>")
    (change,) = changes([first, second])
    assert change.shared == 3 and "B/3.png" not in {**change.right_now, **change.wrong_now}


def test_a_terminal_gets_tables_in_its_width(runs):
    long = runs[1]._replace(name="runs/of/a/very/long/name/of/a/folder", facts={"command": "x" * 100})
    text = table([runs[0], long])
    _, _, *tables, _ = text.splitlines()
    assert max(map(len, tables)) <= 80 and "...long/name/of/a/folder" in tables[0]
    for part in ("0.7500", "setting", f"{long.name}: of 4 shared examples, 2 changed from wrong to right and 1"):
        assert part in text


def test_a_run_without_evaluations_can_be_compared(runs):
    begun = runs[0]._replace(name="runs/begun", evaluation=None, predictions=None, curves={})
    assert numbers([runs[0], begun])["accuracy"] == [0.5, None]
    assert class_numbers([runs[0], begun]) == {}
    assert "examples" not in table([runs[0], begun])


def test_the_page_has_all_of_it_and_needs_nothing_else(runs, tmp_path):
    path = write_comparison(tmp_path / "comparison.html", runs)
    page = Page(path)
    for text in ("runs/a and runs/b", "imagenet", "0.7500", "<A>/1.png", "B/3.png", "Right only in runs/b: 2"):
        assert text in page.text
    images = page.images()
    assert [image["alt"].split(" over")[0] for image in images] == ["loss", "loss of training"]
    assert all(image["src"].startswith("data:image/png;base64,") for image in images)
    assert not [value for _, attributes in page.tags for value in attributes.values() if value and "://" in value]


def test_the_page_says_what_is_not_known(runs, tmp_path):
    begun = runs[0]._replace(name="runs/begun", evaluation=None, predictions=None, curves={})
    page = Page(write_comparison(tmp_path / "comparison.html", [begun, begun._replace(name="runs/other")]))
    for text in ("There are none.", "no metric at two steps", "no metrics per class", "are not known"):
        assert text in page.text
