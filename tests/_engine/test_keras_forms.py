"""Arguments in the form of Keras' fit are taken, or refused in one line that says what to write here."""

import copy
import inspect

import numpy as np
import pytest
import tf_keras as keras

import estimator_train as et
from estimator_train._engine.keras_forms import ARGUMENTS, MEMBERS, shown
from estimator_train.input_fns import arrays, class_weighted, generator

X, Y = np.ones((8, 4), np.float32), np.arange(8) % 3
DATA = arrays(X, Y, batch_size=4)
CALLBACK = keras.callbacks.TerminateOnNaN()

FUNCTIONS = {
    "train": et.Estimator.train,
    "evaluate": et.Estimator.evaluate,
    "predict": et.Estimator.predict,
    "TrainSpec": et.TrainSpec,
    "EvalSpec": et.EvalSpec,
    "train_and_evaluate": et.train_and_evaluate,
    "RunConfig": et.RunConfig,
    "model_to_estimator": et.model_to_estimator,
    "CallbacksHook": et.CallbacksHook,
    "arrays": arrays,
    "class_weighted": class_weighted,
    "frozen_features": et.input_fns.frozen_features,
    "generator": generator,
    "image_files": et.input_fns.image_files,
    "labelled_images": et.input_fns.labelled_images,
    "numpy_input_fn": et.inputs.numpy_input_fn,
    "BestCheckpointExporter": et.BestCheckpointExporter,
    "stop_if_no_decrease_hook": et.experimental.stop_if_no_decrease_hook,
}


class Rows(keras.utils.Sequence):
    def __len__(self):
        return 2

    def __getitem__(self, index):
        return X[:4], Y[:4]


@pytest.fixture(scope="module")
def model():
    model = keras.Sequential([keras.layers.Dense(3, "softmax", input_shape=(4,))])
    model.compile("sgd", "sparse_categorical_crossentropy")
    return model


@pytest.fixture(scope="module")
def estimator(model, tmp_path_factory):
    return et.model_to_estimator(model, model_dir=tmp_path_factory.mktemp("model"))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_each_argument_of_fit_is_taken_or_named_in_one_line(name):
    function = FUNCTIONS[name]
    for argument in ARGUMENTS.keys() - inspect.signature(function).parameters.keys():
        with pytest.raises(TypeError) as raised:
            function(**{argument: 1})
        assert str(raised.value).endswith(f"{name}() has no argument {argument!r}; {ARGUMENTS[argument]}.")
        assert "\n" not in ARGUMENTS[argument]


def test_other_unknown_arguments_are_refused_as_by_python():
    with pytest.raises(TypeError, match=r"RunConfig.__init__\(\) got an unexpected keyword argument 'epoch'"):
        et.RunConfig(epoch=1)
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'input_fn'"):
        et.TrainSpec()


def test_fit_and_other_members_of_a_model_name_the_way(estimator):
    for name, way in MEMBERS.items():
        assert not hasattr(estimator, name)
        with pytest.raises(AttributeError) as raised:
            getattr(estimator, name)
        assert str(raised.value) == f"'Estimator' object has no attribute {name!r}; {way}"
    with pytest.raises(AttributeError, match="'Estimator' object has no attribute 'other'$"):
        _ = estimator.other
    assert copy.copy(estimator).model_dir == estimator.model_dir


def test_a_subclass_may_define_the_members_of_a_model(model, tmp_path):
    class Fitting(et.Estimator):
        def fit(self, x, y):
            return self.train(arrays(x, y))

        @property
        def broken(self):
            return None.value

    fitting = Fitting(lambda features, labels, mode: None, tmp_path)
    assert hasattr(fitting, "fit")
    with pytest.raises(AttributeError, match="'NoneType' object has no attribute 'value'"):
        _ = fitting.broken


def test_a_model_in_place_of_its_estimator_names_model_to_estimator(model, estimator):
    way = r"; pass what et\.model_to_estimator returns for it"
    with pytest.raises(TypeError, match=way):
        et.train_and_evaluate(model, et.TrainSpec(DATA), et.EvalSpec(DATA))
    with pytest.raises(TypeError, match=way):
        et.add_metrics(model, lambda labels: {})
    for metrics in (["accuracy"], keras.metrics.AUC()):
        with pytest.raises(TypeError, match="metric_fn must be a function .*; compile a Keras model with its metrics"):
            et.add_metrics(estimator, metrics)
    with pytest.raises(TypeError, match="`eval_spec` must have type .* Got: tuple$"):
        et.train_and_evaluate(estimator, et.TrainSpec(DATA), (X, Y))


def test_long_values_are_shown_by_their_type():
    assert [shown(value) for value in (3, "a", X, [X, X], "a" * 400)] == ["3", "'a'", "ndarray", "list", "str"]
