"""Behavior that programs rely on; the expected values are what benchmarks/behaviour.py prints on TensorFlow 2.15.1."""

import pytest

import estimator_train as et
from benchmarks import behaviour

OF_TF215 = {
    "warm_start_from_a_path": [-0.35007187724113464, -0.35007187724113464],
    "warm_start_with_an_optimizer_of_v1": [
        0.5000001788139343,
        0.5000001788139343,
        0.09990014135837555,
        0.09990014135837555,
    ],
    "keras_model_of_a_graph": [
        179.87908935546875,
        11.7020902633667,
        72.9211654663086,
        7.4189276695251465,
        0.7710438370704651,
    ],
    "keras_model_with_trained_weights_of_a_graph": [26.428337891896565, 26.42833709716797],
    "keras_steps_that_are_no_whole_number": [3, 4, 5],
    "keras_input_fn_of_tensors": [0.5084249973297119, 1.03563392162323] * 2
    + [0.510325014591217, 1.035618543624878] * 3,
    "run_config_with_attributes_and_overrides": ["no", 17],
    "empty_model_dir": "True",
    "session_config": ["True", 1],
    "numpy_input_fn_unpacked": 10866.0,
    "logits_of_unknown_rank": [[[0.5, 0.5], [0.5, 0.5]], "InvalidArgumentError"],
    "spec_of_eager_tensors": 3.0,
    "arrays_reach_model_fn": ["ndarray", "list"],
    "initial_values_of_a_seed": [
        -1.7138785123825073,
        -0.6787022948265076,
        -0.3181459903717041,
        0.7029927968978882,
        -0.005850672721862793,
        -1.3691656589508057,
    ],
}


@pytest.fixture(autouse=True)
def installed():
    et.install()


# They train several Estimators; test_returned.py and test_graph_mode.py of _engine have the same in parts.
SLOW = (behaviour.keras_input_fn_of_tensors, behaviour.keras_model_of_a_graph)


@pytest.mark.parametrize(
    "function",
    [pytest.param(each, marks=[pytest.mark.slow] if each in SLOW else []) for each in behaviour.BEHAVIOURS],
    ids=lambda function: function.__name__,
)
def test_behaves_as_tensorflow_2_15(function):
    assert _flat(function()) == _flat(OF_TF215[function.__name__])


def _flat(value):
    if isinstance(value, list):
        return [leaf for part in value for leaf in _flat(part)]
    return [value if isinstance(value, str) else pytest.approx(value, rel=1e-5, abs=1e-6)]
