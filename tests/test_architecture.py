"""Rules that every module of the package keeps, checked in its syntax tree."""

import ast
import functools
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import estimator_train

_PACKAGE = Path(estimator_train.__file__).parent
_TESTS = Path(__file__).parent
_MAP = Path(__file__).parents[1] / "ARCHITECTURE.md"

# Files of these names wrap the private names of TensorFlow and Keras; no other file may use one.
_PRIVATE_NAMES = "private_*.py"

# The table of the paths that old programs import, which were TensorFlow's private ones.
_MOVED = "compat/drop_in/moved.py"

# Private attributes of the package's own classes that modules reach by name, and the documented one of a namedtuple.
_OWN = {
    "_create_tpu_estimator_spec",
    "_distribute_coordinator_mode",
    "_fields",
    "_head",
    "_labels",
    "_model_dir",
    "_params_in",
}

# The drop-in makes these modules below tensorflow.python, which are no longer TensorFlow's.
_MADE = r"estimator|distribute\.estimator_training|tpu\.(error_handling|tpu_config|tpu_context|tpu_estimator|util)"
_PRIVATE_MODULE = re.compile(
    rf"tensorflow\.(_(?!_)|python\b(?!\.({_MADE})\b))|tf_keras\.(api|src)\b"
    r"|.*\b__internal__\b"
)

_TAKING_ATTRIBUTES = {"attrgetter", "delattr", "getattr", "hasattr", "object", "setattr", "startswith"}
_TAKING_COLLECTIONS = {"add_to_collection", "add_to_collections", "get_collection", "get_collection_ref"}


@functools.cache
def _parsed(source):
    return ast.parse(source)


@functools.cache
def _modules():
    return {path.relative_to(_PACKAGE).as_posix(): path for path in sorted(_PACKAGE.rglob("*.py"))}


_MOST_FLAT_MODULES = 18

# Next to Python, or elsewhere on the path.
_RUFF = shutil.which("ruff", path=os.path.dirname(sys.executable)) or shutil.which("ruff")

_LONGEST_WITHOUT_TEST = 150
_LONGEST_TEST_NAME = 70
# A test is named after what holds; these words say that something happens, but not what.
_VAGUE_WORDS = re.compile(r"_(told|tells|goes_on|go_on|stays|serves|for_ever)(_|$)")


def _named_by_the_map():
    text = re.sub(r"```.*?```", "", _MAP.read_text(), flags=re.DOTALL)
    return set(re.findall(r"`([^`]+)`", text))


def test_few_modules_lie_flat_and_the_map_names_each():
    flat = {path.name for path in _PACKAGE.glob("*.py")}
    assert len(flat) <= _MOST_FLAT_MODULES
    assert flat <= _named_by_the_map()


def test_the_map_names_every_room():
    rooms = {f"{path.parent.name}/" for path in _PACKAGE.glob("*/__init__.py")}
    assert rooms <= _named_by_the_map()


def test_files_that_the_map_names_exist():
    named = [name for name in _named_by_the_map() if re.fullmatch(r"[\w./]+(\.py|\.toml|/)", name)]
    assert named and not [name for name in named if not ((_PACKAGE / name).exists() or (_MAP.parent / name).exists())]


def test_names_of_tests_are_short_and_without_vague_words():
    texts = [path.read_text() for path in sorted(_TESTS.rglob("*.py"))]
    tests = [name for text in texts for name in re.findall(r"^ *def (test_\w+)", text, re.MULTILINE)]
    assert tests and not [name for name in tests if len(name) > _LONGEST_TEST_NAME or _VAGUE_WORDS.search(name)]


def test_every_long_module_has_a_test_of_its_name():
    long = [path for path in _modules().values() if len(path.read_text().splitlines()) > _LONGEST_WITHOUT_TEST]
    assert long and not [str(path) for path in long if not _tests_of(path)]


def _tests_of(module):
    """Returns the test files of a module; any in the mirrored directory is one of an `__init__.py`."""
    room = _TESTS / module.parent.relative_to(_PACKAGE)
    return list(room.glob("test_*.py" if module.stem == "__init__" else f"test_{module.stem.lstrip('_')}.py"))


def test_the_keras_loop_is_made_of_program_strategy_and_global_step():
    functions = dict(_functions(_parsed((_PACKAGE / "_engine/keras" / "loop.py").read_text())))
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


def test_no_conditional_stands_in_a_comprehension_that_is_an_argument():
    assert list(_conditionals_in_arguments("f(a if a else b for a in c)"))
    assert list(_conditionals_in_arguments("f(*[g(a if a else b) for a in c])"))
    assert not list(_conditionals_in_arguments("a = [b if b else c for b in d]\nf(a)"))
    offences = [
        f"{module}:{line}"
        for module, path in _modules().items()
        for line in _conditionals_in_arguments(path.read_text())
    ]
    assert not offences


def _conditionals_in_arguments(source):
    """Yields the lines of comprehensions that are an argument of a call and hold a conditional expression."""
    calls = [node for node in ast.walk(_parsed(source)) if isinstance(node, ast.Call)]
    arguments = [argument for call in calls for argument in (*call.args, *(each.value for each in call.keywords))]
    for argument in arguments:
        value = argument.value if isinstance(argument, ast.Starred) else argument
        is_comprehension = isinstance(value, (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp))
        if is_comprehension and any(isinstance(node, ast.IfExp) for node in ast.walk(value)):
            yield value.lineno


def _functions(tree, prefix=""):
    """Yields (name with the classes and functions around it, node) of all functions."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            if isinstance(node, ast.FunctionDef):
                yield prefix + node.name, node
            yield from _functions(node, f"{prefix}{node.name}.")
        else:
            yield from _functions(node, prefix)


def _attributes_set_on_functions(source):
    """Yields the lines on which an attribute of what a `def` of the source has named is set."""
    tree = _parsed(source)
    methods = {id(each) for node in ast.walk(tree) if isinstance(node, ast.ClassDef) for each in node.body}
    named = {node.name for _, node in _functions(tree) if id(node) not in methods}
    for node in ast.walk(tree):
        stored = isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and node.value
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "setattr":
            stored = node.args[0]
        if isinstance(stored, ast.Name) and stored.id in named:
            yield node.lineno


_FLAG = re.compile(r"(^|[\s(])--[a-z]")
_WORDS = re.compile(r"\w ")
_WHOLE_COMMAND = re.compile(r"\b(estimator_train (datasets|run)|mkdir) ")  # may be advice, in Python too


def test_no_message_below_the_command_names_a_flag():
    """The library names the Python argument; in a run's messages, `app/errors.py` spells a setting for who reads it."""
    offences = [
        f"{module}:{line}: {text}"
        for module, path in _modules().items()
        if not module.startswith("app/cli/")
        for line, text in _texts(_parsed(path.read_text()))
        if _WORDS.search(text) and _FLAG.search(text) and not _WHOLE_COMMAND.search(text)
    ]
    assert not offences


def _texts(tree):
    """Yields (line, text) of the strings of a module that are no docstrings, and of f-strings, with {} for values."""
    statements = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    formatted = [node for node in ast.walk(tree) if isinstance(node, ast.JoinedStr)]
    for node in formatted:
        yield node.lineno, "{}".join(part.value for part in node.values if _is_text(part))
    within = {id(part) for node in formatted for part in node.values}
    for node in ast.walk(tree):
        if _is_text(node) and id(node) not in statements | within:
            yield node.lineno, node.value


def _is_text(node):
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def test_private_names_of_tensorflow_and_keras_are_used_in_files_for_them():
    """ruff finds attributes and imports (SLF001 and TID251 in pyproject.toml); here is what it does not see."""
    offences = [
        f"{module}:{line}: {what}"
        for module, path in _modules().items()
        if not path.match(_PRIVATE_NAMES) and module != _MOVED
        for line, what in sorted(_private_uses(path.read_text()))
    ]
    assert not offences, f"Put these behind functions of a file named {_PRIVATE_NAMES}:\n" + "\n".join(offences)


def test_every_function_for_private_names_has_a_test():
    for module in _PACKAGE.rglob(_PRIVATE_NAMES):
        trees = [_parsed(path.read_text()) for path in _tests_of(module)]
        tested = {node.attr for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
        functions = {node.name for node in _parsed(module.read_text()).body if isinstance(node, ast.FunctionDef)}
        assert {name for name in functions if not name.startswith("_")} <= tested


@pytest.mark.parametrize(
    "source",
    [
        "getattr(metric, '_call_result', None)",
        "vars(optimizer)['_slots']",
        "name.startswith('_self_')",
        "mock.patch.object(metric, '_call_result')",
        "graph.get_collection('global_step_read_op_cache')",
        "importlib.import_module('tf_keras.src.engine')",
        "importlib.import_module(f'tensorflow._api.v2.compat.{version}')",
        "from tensorflow.keras import _private",
    ],
)
def test_a_use_of_a_private_name_is_found(source):
    assert len(list(_private_uses(source))) == 1


@pytest.mark.parametrize(
    "source",
    [
        "getattr(spec, '_labels')",
        "graph.get_collection(tf.compat.v1.GraphKeys.LOSSES)",
        "name.startswith('_')",
        "importlib.import_module('tensorflow.python.estimator.canned')",
        "from estimator_train.app.cli import _own",
    ],
)
def test_other_names_are_left_alone(source):
    assert not list(_private_uses(source))


_RUFF_FINDS = {
    "hook._timer": "SLF001",
    "hook._timer = 1": "SLF001",
    "import tensorflow.python.eager.context": "TID251",
    "from tensorflow import python": "TID251",
    "from tensorflow.python.eager import context": "TID251",
    "from tf_keras.src.engine.functional import Functional": "TID251",
    "from tf_keras import __internal__": "TID251",
    "import tensorflow as tf; tf.__internal__.eager_context.eager_mode()": "TID251",
    "import tensorflow as tf; tf.python.eager.context": "TID251",
    "import tf_keras as keras; keras.src.engine": "TID251",
    "def f(a, b, c, d, e, f, g, h): ...": "PLR0913",
}


@pytest.mark.skipif(not _RUFF, reason="ruff is not installed")
@pytest.mark.parametrize(("file", "is_for_them"), [("hooks/timing.py", False), ("_engine/private_keras.py", True)])
def test_ruff_finds_private_names_outside_of_the_files_for_them(file, is_for_them):
    command = [_RUFF, "check", "--output-format=concise", "--stdin-filename", _PACKAGE / file, "-"]
    checked = subprocess.run(command, input="\n".join(_RUFF_FINDS), capture_output=True, text=True, cwd=_MAP.parent)
    for number, code in enumerate(_RUFF_FINDS.values(), start=1):
        found = re.search(rf":{number}:\d+: {code} ", checked.stdout)
        assert bool(found) == (code == "PLR0913" or not is_for_them), checked.stdout


def _private_uses(source):
    """Yields (line, source) of names by which code may reach what is private to TensorFlow or Keras."""
    for node in ast.walk(_parsed(source)):
        if isinstance(node, ast.ImportFrom):
            found = any(_is_private(alias.name) for alias in node.names) and _is_theirs(node.module)
        elif isinstance(node, ast.Call):
            found = _takes_private_name(node)
        elif isinstance(node, ast.Subscript):
            is_namespace = re.search(r"^vars\(|\.__dict__$", ast.unparse(node.value))
            found = is_namespace and _is_private_literal(node.slice)
        else:
            found = isinstance(node, ast.Constant) and isinstance(node.value, str) and _is_private_path(node.value)
        if found:
            yield node.lineno, ast.unparse(node)


def _is_theirs(module):
    return module is not None and module.partition(".")[0] in ("tensorflow", "tf_keras", "keras")


def _is_private(name):
    return len(name) > 1 and name.startswith("_") and not name.startswith("__")


def _is_private_literal(node):
    if not isinstance(node, ast.Constant) or not isinstance(node.value, str):
        return False
    name = node.value.partition(".")[0]
    return _is_private(name) and name not in _OWN


def _is_private_path(path):
    return " " not in path and bool(_PRIVATE_MODULE.match(path))


def _takes_private_name(call):
    function = ast.unparse(call.func).rpartition(".")[2]
    if function in _TAKING_COLLECTIONS:
        return any(isinstance(argument, ast.Constant) for argument in call.args[:1])
    return function in _TAKING_ATTRIBUTES and any(map(_is_private_literal, call.args))
