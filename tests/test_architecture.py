"""Rules that every module of the package keeps, checked in its syntax tree."""

import ast
import functools
import re
from pathlib import Path

import pytest

import estimator_train

_PACKAGE = Path(estimator_train.__file__).parent
_MAP = Path(__file__).parents[1] / "ARCHITECTURE.md"

# The one module that may use private names of TensorFlow and Keras.
_PRIVATE_NAMES = "_engine/session/private_names.py"

# The table of the paths that old programs import, which were TensorFlow's private ones.
_MOVED = "compat/drop_in/moved.py"

# Private attributes of the package's own classes that modules use on other objects than self, or set through vars().
_OWN = {
    "compat/drop_in/base_head.py": {"_check_is_sequence"},
    "compat/drop_in/canned_head.py": {"_serving_outputs", "_update", "_weigh"},
    "compat/drop_in/estimator.py": {"_config_with_model_dir"},
    "compat/drop_in/estimator_training.py": {"_distribute_coordinator_mode"},
    "compat/drop_in/export.py": {"_tensor_dict"},
    "compat/drop_in/exporter.py": {"_SavedModelExporter"},
    "compat/drop_in/keras_lib.py": {"_model"},
    "compat/drop_in/old_members.py": {
        "_call_input_fn",
        "_create_tpu_estimator_spec",
        "_get_features_and_labels_from_input_fn",
        "_labels",
        "_losses_and_weights",
        "_model",
        "_params_in",
        "_vocabulary",
    },
    "compat/drop_in/optimizers.py": {"_as_legacy"},
    "estimator.py": {"_assert_members_are_not_overridden", "_distribute_coordinator_mode"},
    "extenders.py": {"_model"},
    "_engine/graph/model.py": {"_metric_fns"},
    "heads/multi_head.py": {"_serving_outputs", "_summarize", "_summary_key"},
    "run_config.py": {"_model_dir", "_normalize_and_check"},
    "compat/tf1/contrib/estimator.py": {
        "_BinaryLogisticHeadWithSigmoidCrossEntropyLoss",
        "_MultiClassHeadWithSoftmaxCrossEntropyLoss",
        "_head",
        "_regression_head",
    },
    "training.py": {"_config", "_just_saved", "_newest_checkpoint", "_prepare"},
}

# Documented Python: namedtuple's methods, and the end of a process without its exit handlers.
_PYTHON = {"_asdict", "_exit", "_fields", "_make", "_replace"}

# tensorflow.python.estimator and distribute.estimator_training are no longer TensorFlow's: the drop-in makes them.
_PRIVATE_MODULE = re.compile(
    r"tensorflow\.(_(?!_)|python\b(?!\.(estimator|distribute\.estimator_training)\b))|tf_keras\.(api|src)\b"
    r"|.*\b__internal__\b"
)

_TAKING_ATTRIBUTES = {"attrgetter", "delattr", "getattr", "hasattr", "object", "setattr", "startswith"}
_TAKING_COLLECTIONS = {"add_to_collection", "add_to_collections", "get_collection", "get_collection_ref"}


def _modules():
    return {path.relative_to(_PACKAGE).as_posix(): path for path in sorted(_PACKAGE.rglob("*.py"))}


# Functions of more than seven parameters: the contract of tf.estimator, public input_fns, and the settings of
# recipes and commands. The signatures of tf1/ are those of TensorFlow 1.
_MANY_PARAMETERS = {
    "canned/dnn.py": {"DNNClassifier.__init__", "DNNEstimator.__init__", "DNNRegressor.__init__"},
    "canned/dnn_linear_combined.py": {
        "DNNLinearCombinedClassifier.__init__",
        "DNNLinearCombinedEstimator.__init__",
        "DNNLinearCombinedRegressor.__init__",
    },
    "canned/linear.py": {"LinearClassifier.__init__", "LinearRegressor.__init__"},
    "app/cli/commands/bench.py": {"bench"},
    "compat/drop_in/canned_head.py": {"_Head.create_estimator_spec"},
    "compat/drop_in/keras_lib.py": {"model_to_estimator"},
    "compat/drop_in/model_fns.py": {"_dnn_model_fn", "_linear_model_fn", "_linear_model_fn_v2", "dnn_model_fn_v2"},
    "compat/drop_in/sequential_head.py": {"SequentialHeadWrapper.create_estimator_spec"},
    "compat/drop_in/tpu/tpu_config.py": {"TPUConfig.__new__"},
    "compat/drop_in/tpu/tpu_estimator.py": {"TPUEstimator.__init__", "TPUEstimatorSpec.__new__"},
    "heads/head.py": {"Head.create_estimator_spec"},
    "heads/multi_label_head.py": {"MultiLabelHead.__init__"},
    "input_fns/arrays.py": {"arrays"},
    "input_fns/image_files.py": {"image_files", "labelled_images"},
    "inputs.py": {"pandas_input_fn"},
    "keras_estimator.py": {"model_to_estimator"},
    "_engine/model_fn.py": {"EstimatorSpec.__new__"},
    "app/models/__init__.py": {"build_model"},
    "app/recipes/cats_vs_dogs.py": {"train"},
    "app/recipes/cyclegan.py": {"train"},
    "app/recipes/segmentation.py": {"train"},
    "app/recipes/unet3d.py": {"train"},
    "training.py": {"EvalSpec.__new__"},
}

_MOST_PARAMETERS = 7
_MOST_FLAT_MODULES = 18


def test_few_modules_lie_flat_and_the_map_names_each():
    flat = {path.name for path in _PACKAGE.glob("*.py")}
    assert len(flat) <= _MOST_FLAT_MODULES
    assert flat <= set(re.findall(r"`([^`]+)`", _MAP.read_text()))


def test_the_map_names_every_room():
    rooms = {f"{path.parent.name}/" for path in _PACKAGE.glob("*/__init__.py")}
    assert rooms <= set(re.findall(r"`([^`]+)`", _MAP.read_text()))


def test_files_that_the_map_names_exist():
    named = re.findall(r"`([\w./]+(?:\.py|\.toml|/))`", _MAP.read_text())
    assert named and not [name for name in named if not ((_PACKAGE / name).exists() or (_MAP.parent / name).exists())]


def test_only_contracts_and_settings_take_more_than_seven_parameters():
    found = {}
    for module, path in _modules().items():
        if module.startswith("compat/tf1/"):
            continue
        for name, function in _functions(ast.parse(path.read_text())):
            parameters = function.args
            names = [each.arg for each in [*parameters.posonlyargs, *parameters.args, *parameters.kwonlyargs]]
            if len([name for name in names if name not in ("self", "cls")]) > _MOST_PARAMETERS:
                found.setdefault(module, set()).add(name)
    assert found == _MANY_PARAMETERS


def test_the_loop_of_a_keras_model_is_made_of_program_strategy_and_global_step():
    functions = dict(_functions(ast.parse((_PACKAGE / "_engine/keras" / "loop.py").read_text())))
    parameters = [each.arg for each in functions["Loop.__init__"].args.args]
    assert parameters == ["self", "program", "strategy", "global_step"]


def test_no_attribute_is_set_on_a_function():
    assert list(_attributes_set_on_functions("def f():\n    pass\nf.x = 1"))
    assert list(_attributes_set_on_functions("def f():\n    def g():\n        pass\n    g.x: int = 1"))
    assert list(_attributes_set_on_functions("def f():\n    pass\nsetattr(f, 'x', 1)"))
    offences = [
        f"{module}:{line}"
        for module, path in _modules().items()
        for line in _attributes_set_on_functions(path.read_text())
    ]
    assert not offences


def _functions(tree, of=""):
    """Yields (name with the classes and functions around it, node) of all functions."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            if isinstance(node, ast.FunctionDef):
                yield of + node.name, node
            yield from _functions(node, f"{of}{node.name}.")
        else:
            yield from _functions(node, of)


def _attributes_set_on_functions(source):
    """Yields the lines on which an attribute of what a `def` of the source has named is set."""
    tree = ast.parse(source)
    methods = {id(each) for node in ast.walk(tree) if isinstance(node, ast.ClassDef) for each in node.body}
    named = {node.name for _, node in _functions(tree) if id(node) not in methods}
    for node in ast.walk(tree):
        stored = isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and node.value
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "setattr":
            stored = node.args[0]
        if isinstance(stored, ast.Name) and stored.id in named:
            yield node.lineno


def test_private_names_of_tensorflow_and_keras_are_used_in_one_module():
    offences = [
        f"{module}:{line}: {what}"
        for module, path in _modules().items()
        if module not in (_PRIVATE_NAMES, _MOVED)
        for line, what in sorted(_private_uses(path.read_text(), _OWN.get(module, set())))
    ]
    assert not offences, "Put these behind functions of _engine/session/private_names.py:\n" + "\n".join(offences)


def test_every_function_of_private_names_has_a_test():
    path = Path(__file__).parent / "_engine/session" / "test_private_names.py"
    tested = {node.attr for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Attribute)}
    tree = ast.parse((_PACKAGE / _PRIVATE_NAMES).read_text())
    functions = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    assert {name for name in functions if not name.startswith("_")} <= tested


@pytest.mark.parametrize(
    "source",
    [
        "hook._timer",
        "hook._timer = 1",
        "class Hook(Base):\n    def begin(self):\n        return self._timer",
        "class Hook(Base):\n    def begin(self):\n        return super()._begin()",
        "getattr(metric, '_call_result', None)",
        "vars(optimizer)['_slots']",
        "name.startswith('_self_')",
        "mock.patch.object(metric, '_call_result')",
        "graph.get_collection('global_step_read_op_cache')",
        "import tensorflow.python.eager.context",
        "from tensorflow import python",
        "from tensorflow.python.eager import context",
        "from tf_keras.src.engine.functional import Functional",
        "from tf_keras import __internal__",
        "import tensorflow as tf\ntf.__internal__.eager_context.eager_mode()",
        "import tensorflow as tf\ntf.python.eager.context",
        "import tf_keras as keras\nkeras.src.engine",
        "importlib.import_module('tf_keras.src.engine')",
        "importlib.import_module(f'tensorflow._api.v2.compat.{version}')",
        "from tensorflow.keras import _private",
    ],
)
def test_a_use_of_a_private_name_is_found(source):
    assert len(list(_private_uses(source, {"_own"}))) == 1


@pytest.mark.parametrize(
    "source",
    [
        "model._own",
        "class Hook(Base):\n    def __init__(self):\n        self._timer = 1\n    def end(self):\n        self._timer",
        "class Hook(Base):\n    _timer = 1\n    def _run(self):\n        return self._run, self._timer",
        "spec._replace(loss=1)",
        "tf.__version__",
        "graph.get_collection(tf.compat.v1.GraphKeys.LOSSES)",
        "name.startswith('_')",
        "importlib.import_module('tensorflow.python.estimator.canned')",
        "from estimator_train.app.cli import _own",
    ],
)
def test_other_names_are_left_alone(source):
    assert not list(_private_uses(source, {"_own"}))


def _private_uses(source, own):
    """Pairs (line, source) of what may be a private name of TensorFlow or Keras.

    A private attribute is the package's own if it is among `own`. On self and cls it also is if a class of the source
    defines or sets it, or a class of the package that one of them inherits from.
    """
    tree = ast.parse(source)
    own = own | _PYTHON
    own_on_self = own | _own_attributes(tree)
    imported = _imported(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            allowed = own_on_self if ast.unparse(node.value) in ("self", "cls", "super()") else own
            found = _is_private(node.attr) and node.attr not in allowed or _enters_private_module(node, imported)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            found = any(map(_is_private_import, _paths(node)))
        elif isinstance(node, ast.Call):
            found = _takes_private_name(node, own)
        elif isinstance(node, ast.Subscript):
            is_namespace = re.search(r"^vars\(|\.__dict__$", ast.unparse(node.value))
            found = is_namespace and _is_private_literal(node.slice, own)
        else:
            found = isinstance(node, ast.Constant) and isinstance(node.value, str) and _is_private_path(node.value)
        if found:
            yield node.lineno, ast.unparse(node)


def _is_private(name):
    return len(name) > 1 and name.startswith("_") and not name.startswith("__")


def _is_private_literal(node, own):
    if not isinstance(node, ast.Constant) or not isinstance(node.value, str):
        return False
    name = node.value.partition(".")[0]
    return _is_private(name) and name not in own


def _is_private_path(path):
    return " " not in path and bool(_PRIVATE_MODULE.match(path))


def _takes_private_name(call, own):
    function = ast.unparse(call.func).rpartition(".")[2]
    if function in _TAKING_COLLECTIONS:
        return any(isinstance(argument, ast.Constant) for argument in call.args[:1])
    return function in _TAKING_ATTRIBUTES and any(_is_private_literal(argument, own) for argument in call.args)


def _paths(node):
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    return [f"{node.module}.{alias.name}" for alias in node.names]


def _is_private_import(path):
    of_theirs = path.startswith(("tensorflow.", "tf_keras.", "keras."))
    return _is_private_path(path) or (of_theirs and _is_private(path.rpartition(".")[2]))


def _imported(tree):
    """Maps local names of modules and their members to their paths."""
    return {
        alias.asname or alias.name: path
        for node in ast.walk(tree)
        if isinstance(node, (ast.Import, ast.ImportFrom))
        for alias, path in zip(node.names, _paths(node), strict=True)
    }


def _enters_private_module(node, imported):
    """Returns whether this attribute is where a chain of attributes enters a private module."""
    if node.attr == "__internal__":
        return True
    root, dot, rest = ast.unparse(node.value).partition(".")
    path = imported.get(root, root) + dot + rest
    return not _is_private_path(path) and _is_private_path(f"{path}.{node.attr}")


def _own_attributes(tree):
    """Returns names that a module's classes and their bases in the package define or set on self and cls."""
    classes = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    found, seen = set(), set()
    for of_class in classes:
        found |= _defined(of_class) | _set_on_self(of_class)
        bases = {ast.unparse(base).rpartition(".")[2] for base in of_class.bases} - seen
        seen |= bases
        classes += [base for base in _package_classes() if base.name in bases]
    return found


@functools.cache
def _package_classes():
    trees = [ast.parse(path.read_text()) for path in _modules().values()]
    return [node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]


def _defined(of_class):
    names = {node.name for node in of_class.body if isinstance(node, ast.FunctionDef)}
    targets = [target for node in of_class.body if isinstance(node, ast.Assign) for target in node.targets]
    targets += [node.target for node in of_class.body if isinstance(node, ast.AnnAssign)]
    return names | {target.id for target in targets if isinstance(target, ast.Name)}


def _set_on_self(of_class):
    return {
        node.attr
        for node in ast.walk(of_class)
        if isinstance(node, ast.Attribute)
        and isinstance(node.ctx, ast.Store)
        and ast.unparse(node.value) in ("self", "cls")
    }
