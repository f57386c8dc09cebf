"""HParams: settings that keep their types, from texts, JSON and dicts.

TensorFlow 1.15.5 (Python 3.7, tensorflow==1.15.5 with protobuf<3.21) ran these tests once with its
tf.contrib.training.HParams. All hold there, but it refuses "layers=3" and "layers[1]=5" for a list, and functions in
to_json, and it has other messages for "fast=yes" and for texts with an index.
"""

import json

import pytest

from estimator_train.compat.tf1.contrib.training import HParams


@pytest.fixture
def hparams():
    return HParams(rate=0.1, steps=3, name="a", fast=False, layers=[1, 2], cell=None)


def test_texts_set_values_of_the_settings_types(hparams):
    assert hparams.parse("rate=1e-3, steps=5,name=b c,fast=True,layers=[7, 8,9]") is hparams
    assert hparams.values() == {
        "rate": 1e-3,
        "steps": 5,
        "name": "b c",
        "fast": True,
        "layers": [7, 8, 9],
        "cell": None,
    }
    hparams.parse("layers[1]=5,fast=0,layers[0]=4")
    assert hparams.layers == [4, 5, 9] and hparams.fast is False
    assert hparams.parse("layers=[1 2]").layers == [1, 2]
    assert hparams.parse("layers=3").layers == [3] and hparams.parse("").layers == [3]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("speed=1", "Unknown hyperparameter type for speed"),
        ("rate", "Malformed hyperparameter value: rate"),
        ("steps=1.5", "Could not parse hparam 'steps' of type 'int' with value '1.5'"),
        ("fast=yes", "Could not parse 'yes' as bool for hyperparameter fast"),
        ("rate=[1]", "Must not pass a list for single-valued parameter: rate"),
        ("rate[0]=1", r"Must pass a value for an index of a list: rate\[0\]"),
        ("layers[5]=1", r"layers has 2 values, none at \[5\]"),
        ("rate=1,rate=2", "Multiple assignments to variable 'rate'"),
    ],
)
def test_a_wrong_text_is_named(hparams, text, message):
    with pytest.raises(ValueError, match=message):
        hparams.parse(text)


def test_values_are_cast_where_nothing_is_lost(hparams):
    assert isinstance(hparams.override_from_dict({"rate": 1}).rate, float)
    hparams.set_hparam("cell", "lstm")
    for name, value in [("steps", 1.5), ("steps", True), ("rate", "0.1"), ("fast", 1), ("name", 3)]:
        with pytest.raises(ValueError, match=f"Could not cast hparam '{name}'"):
            hparams.set_hparam(name, value)
    with pytest.raises(ValueError, match="Must pass a list for multi-valued parameter: layers"):
        hparams.set_hparam("layers", 3)
    with pytest.raises(KeyError):
        hparams.override_from_dict({"speed": 1})


def test_settings_are_added_removed_and_looked_up(hparams):
    hparams.add_hparam("decay", 0.5)
    assert "decay" in hparams and hparams.decay == 0.5 and hparams.get("decay") == 0.5
    hparams.del_hparam("decay")
    assert "decay" not in hparams and hparams.get("decay", 7) == 7 and not hasattr(hparams, "decay")
    with pytest.raises(ValueError, match="Hyperparameter name is reserved: parse"):
        hparams.add_hparam("parse", 1)
    with pytest.raises(ValueError, match="cannot be empty: empty"):
        HParams(empty=[])
    with pytest.raises(ValueError, match="Could not cast hparam 'steps'"):
        hparams.get("steps", "many")


def test_json_goes_both_ways(hparams):
    hparams.add_hparam("function", len)
    values = json.loads(hparams.to_json(sort_keys=True))
    assert "function" not in values and values["layers"] == [1, 2]
    assert hparams.parse_json('{"layers": [3], "name": "z"}').layers == [3]


def test_they_are_printed_in_their_order_and_represented_sorted():
    hparams = HParams(b=1, a="x", sizes=[1, 2])
    assert str(hparams) == "b=1,a=x,sizes=[1, 2]"
    assert repr(hparams) == "HParams([('a', 'x'), ('b', 1), ('sizes', [1, 2])])"
