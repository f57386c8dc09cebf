"""The names of the old modules."""

import importlib.util

import pytest
import tensorflow as tf

import estimator_train as et
from estimator_train.compat.drop_in import names


def test_the_module_paths_of_the_old_library_can_be_found_and_listed():
    prefix = "tensorflow_estimator.python.estimator"
    for path in [
        "estimator", "model_fn", "run_config", "training", "exporter", "early_stopping", "keras_lib", "export.export",
        "export.export_output", "inputs.numpy_io", "inputs.pandas_io", "canned.baseline", "canned.dnn",
        "canned.dnn_linear_combined", "canned.head", "canned.linear", "canned.metric_keys", "canned.prediction_keys",
        "canned.parsing_utils", "head.base_head", "head.binary_class_head", "head.multi_class_head", "head.multi_head",
        "head.multi_label_head", "head.regression_head", "hooks.basic_session_run_hooks", "hooks.hooks",
        "hooks.session_run_hook", "util", "gc", "mode_keys", "estimator_lib", "extenders",
    ]:  # fmt: skip
        assert importlib.util.find_spec(f"{prefix}.{path}") is not None, path
    assert importlib.util.find_spec("tensorflow_estimator") is not None
    assert {"Estimator", "RunConfig", "export", "experimental"} <= set(dir(tf.estimator))
    assert "inputs" in dir(tf.compat.v1.estimator) and "inputs" not in dir(tf.estimator)
    assert "estimator" in dir(tf) and "estimator" in dir(tf.compat.v1)


@pytest.mark.smoke
def test_every_name_of_every_old_module_is_there():
    for module in names.MODULES:
        for name in names.MODULES[module]:
            assert getattr(importlib.import_module(module), name) is not None, f"{module}.{name}"


def test_code_that_derives_from_the_old_classes_is_imported():
    code = """
import tensorflow as tf
from tensorflow_estimator.python.estimator.hooks import session_run_hook, basic_session_run_hooks

class Hook(session_run_hook.SessionRunHook): ...
class Logging(tf.estimator.LoggingTensorHook): ...
class Listener(basic_session_run_hooks.CheckpointSaverListener): ...
class Ours(tf.estimator.Estimator): ...
class Older(tf.compat.v1.estimator.Estimator): ...
"""
    found = {}
    exec(code, found)
    assert issubclass(found["Hook"], tf.compat.v1.train.SessionRunHook)
    assert issubclass(found["Older"], et.Estimator)


def test_the_tpu_modules_of_tensorflow_2_15_lead_to_the_old_library():
    from tensorflow.python.tpu import error_handling, tpu_config, tpu_context, tpu_estimator, util  # noqa: F401
    from tensorflow_estimator.python.estimator import tpu

    for module, name in [("tpu_config", "RunConfig"), ("tpu_estimator", "TPUEstimatorSpec")]:
        assert getattr(locals()[module], name) is getattr(getattr(tpu, module), name)
    with pytest.raises(AttributeError, match=r"'TPUContext': use TPUEstimator\(use_tpu=False\)"):
        _ = tpu_context.TPUContext


def test_the_builders_of_logits_have_their_names_of_tensorflow_1():
    from tensorflow.python.estimator.canned import dnn, linear

    columns = [tf.feature_column.numeric_column("x")]
    with tf.Graph().as_default():
        features = {"x": tf.ones([3, 1])}
        logit_fn = dnn._dnn_logit_fn_builder(2, [4], columns, tf.nn.relu, None, None)  # no batch_norm before 1.10
        assert logit_fn(features, "train").shape == (3, 2)
        assert linear._linear_logit_fn_builder(2, columns)(features).shape == (3, 2)


@pytest.mark.parametrize(
    ("path", "name", "message"),
    [
        ("tensorflow.estimator", "Estimatr", "module 'tensorflow.estimator' has no attribute 'Estimatr'.*'Estimator'"),
        ("tensorflow.estimator", "Hamster", "has no attribute 'Hamster'$"),
        ("tensorflow.estimator", "inputs", "use tf.compat.v1.estimator.inputs"),
        ("tensorflow.estimator", "BoostedTreesClassifier", "'BoostedTreesClassifier': use .*ydf"),
        ("tensorflow.estimator.experimental", "RNNClassifier", "use model_to_estimator"),
        ("tensorflow.estimator.experimental", "LinearSDCA", "use .*Ftrl"),
        ("tensorflow.compat.v1.estimator.experimental", "KMeans", "use scikit-learn"),
        ("tensorflow_estimator.python.estimator.canned.linear", "LinearModel", "use linear_logit_fn_builder"),
        ("tensorflow.estimator", "tpu", "use tf.compat.v1.estimator.tpu"),
        ("tensorflow_estimator.python.estimator.tpu.tpu_estimator", "BatchConfig", "TPUEstimator.use_tpu=False"),
    ],
)
def test_an_absent_name_is_named_with_the_nearest_or_with_what_to_use(path, name, message):
    module = importlib.import_module(path)
    assert not hasattr(module, name)
    with pytest.raises(AttributeError, match=message):
        getattr(module, name)


def test_an_absent_module_is_not_found():
    with pytest.raises(ModuleNotFoundError, match="boosted_trees"):
        importlib.import_module("tensorflow_estimator.python.estimator.canned.boosted_trees")
