"""Printed lines are compared by their text and numbers, without versions, dates, speeds and temporary paths."""

from collections import Counter

import pytest

from estimator_train.compat.verify.printed import read

DATES, VERSIONS, SPEEDS = "printed dates and times", "printed versions", "printed durations and speeds"


def read_line(line):
    """Returns the text of a line, the numbers in it, and what is left out."""
    left_out = Counter()
    ((text, numbers),) = read([line], "/runs/old", left_out)
    return text, numbers, dict(left_out)


@pytest.mark.parametrize(
    ("line", "text", "numbers"),
    [
        ("step 3: loss = 0.5, nan", "step #: loss = #, #", [3, 0.5, pytest.approx(float("nan"), nan_ok=True)]),
        ("loss -1.5e-3, lr .1", "loss #, lr #", [-0.0015, 0.1]),
        ("<Estimator object at 0x7f12ab>", "<Estimator object at ...>", []),
        ("dense_1 of float32", "dense_1 of float32", []),
        ("{'loss': np.float32(0.25), 'global_step': np.int64(5)}", "{'global_step': #, 'loss': #}", [5, 0.25]),
        ("saved in /runs/old/model", "saved in ./model", []),
        ("['/runs/old/tmp/tmp_a1b2c3d/x.csv', 2]", "['./tmp/.../x.csv', #]", [2]),
    ],
)
def test_a_line_is_its_text_and_its_numbers(line, text, numbers):
    assert read_line(line) == (text, numbers, {})


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("TensorFlow 2.15.1", "TensorFlow 2.21.0-rc1"),
        ("TF version: 2.15", "TF version: 2.21"),
        ("1.15.5", "2.16.0rc0"),
        ("v2.15.0-11-g63f5a65c7cd", "v2.21.0-rc1-0-ga481b10260d"),
        (
            "Python 3.7.16 (default, Jan 17 2023, 22:20:44) [GCC 11.2.0]",
            "Python 3.11.7 (main, Dec  5 2023) [GCC 14.2.0]",
        ),
    ],
)
def test_versions_are_no_difference(old, new):
    assert read_line(old)[:2] == read_line(new)[:2] or "GCC" in old
    assert VERSIONS in read_line(old)[2] and not read_line(old)[1]


@pytest.mark.parametrize(
    "date",
    [
        "2026-11-29 23:18:45.123456",
        "2026-11-29T23:18:45Z",
        "2026/11/29",
        "Sun Nov 29 23:18:45 2026",
        "Sun Nov 29 23:18:45 UTC 2026",
        "29 Nov 2026",
        "Nov 29, 2026",
        "23:18:45",
        "12:30",
        "0:00:03.123456",
        "2 days, 1:00:03",
        "20261129-231845",
        "20261129",
        "1764458325.123",
        "1764458325123",
    ],
)
def test_dates_are_no_difference_and_hide_no_loss(date):
    assert read_line(f"[{date}] step 3 loss 0.5") == ("[...] step # loss #", [3, 0.5], {DATES: 1})


@pytest.mark.parametrize(
    ("line", "text", "numbers"),
    [
        ("step 10 loss 0.5 (0.123 sec)", "step # loss # (...)", [10, 0.5]),
        ("trained 3 epochs in 3.2 minutes, loss 0.25", "trained # epochs in ..., loss #", [3, 0.25]),
        ("3 hours loss 0.5", "... loss #", [0.5]),
        ("loss 0.5 at 2.5 images/s", "loss # at ...", [0.5]),
        ("loss 0.5 at 1,234.5 steps/sec", "loss # at ...", [0.5]),
        ("40 examples per second, loss 0.5", "..., loss #", [0.5]),
        ("1/1 [====] - 0s 5ms/step - loss: 0.5", "#/# [====] - ... ... - loss: #", [1, 1, 0.5]),
        ("Time: 4", "Time: ...", []),
        ("time for epoch 3: 4.2, loss 0.5", "time for epoch ..., loss #", [0.5]),
        ("time 4.2 loss 0.5", "time ... loss #", [0.5]),
        ("train_time=4.2 loss=0.5", "train_time=... loss=#", [0.5]),
        ("{'loss': 0.5, 'global_step/sec': 4.2}", "{'global_step/sec': ..., 'loss': #}", [0.5]),
        ("step time [0.1, 0.2] loss 0.3", "step time ... loss #", [0.3]),
    ],
)
def test_speeds_are_no_difference_and_hide_no_loss(line, text, numbers):
    assert read_line(line)[:2] == (text, numbers) and SPEEDS in read_line(line)[2]


@pytest.mark.parametrize(
    "line",
    ["time_steps = 10", "step 10:25.5", "min 0.5 max 0.7", "first 0.5 second 0.7", "Time per epoch loss 0.5", "1.25 3",
     "mAP 0.5:0.95", "20251345 examples", "version of the data: 0.5"],
)  # fmt: skip
def test_numbers_beside_words_of_time_are_kept(line):
    text, numbers, left_out = read_line(line)
    assert numbers and text.count("#") == len(numbers) and not left_out


def test_dicts_are_printed_alike_on_both_sides_in_any_order():
    first, second = (read_line(f"metrics: {text}") for text in ("{'b': 2, 'a': [1]}", '{"a": [1], "b": 2}'))
    assert first == second == ("metrics: {'a': [#], 'b': #}", [1, 2], {})
