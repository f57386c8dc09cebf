"""Type checkers and editors see the stub of public names, hints of public signatures, and completions."""

from __future__ import annotations

import ast
import functools
import importlib.util
import inspect
import pkgutil
import sys
import types
import typing
from pathlib import Path

import jedi
import pytest

import estimator_train as et
from estimator_train.app import datasets, models

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "estimator_train"


def _below(package):
    return [module.name for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}.")]


# The modules that users import names from.
PUBLIC = [
    "estimator_train",
    "estimator_train.canned.v1",
    "estimator_train.app.conversion",
    "estimator_train.distribution",
    "estimator_train.compat.drop_in",
    "estimator_train.compat.drop_in.keras_lib",
    "estimator_train.estimator_v1",
    "estimator_train.experimental",
    "estimator_train.export",
    "estimator_train.hooks",
    "estimator_train.input_fns",
    "estimator_train.inputs",
    "estimator_train.loggers",
    "estimator_train.memory_estimate",
    "estimator_train.app.metrics.classification",
    "estimator_train.app.report.diagnosis",
    "estimator_train.app.report.page",
    "estimator_train.app.report.scaling",
    "estimator_train.app.runs.thresholds",
    *(name for room in (datasets, models) for name in [room.__name__, *_below(room)]),
]

# The modules of the library and of its private room.
LIBRARY = [
    module.name
    for module in pkgutil.walk_packages(et.__path__, f"{et.__name__}.")
    if not module.name.startswith(("estimator_train.app", "estimator_train.compat")) and "__main__" not in module.name
]


def test_the_stub_has_every_public_name_from_its_home():
    stub = ast.parse((PACKAGE / "__init__.pyi").read_text())
    imports = [node for node in stub.body if isinstance(node, ast.ImportFrom)]
    homes = {alias.asname: node.module for node in imports for alias in node.names}
    assert all(alias.name == alias.asname for node in imports for alias in node.names)  # else it is not handed on
    expected = {name: f"estimator_train.{home}" for name, home in et._HOMES.items()}
    assert homes == expected | {
        name: f"estimator_train.{home}".rpartition(".")[0] for name, home in et._MODULES.items()
    }
    assert sorted(homes) == et.__all__


def test_a_wheel_has_the_stub_and_the_mark_that_there_are_hints():
    (call,) = (
        node
        for node in ast.walk(ast.parse((ROOT / "setup.py").read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "setup"
    )
    package_data = ast.literal_eval(next(word.value for word in call.keywords if word.arg == "package_data"))
    found = {path.name for pattern in package_data["estimator_train"] for path in PACKAGE.glob(pattern)}
    assert found == {"__init__.pyi", "py.typed"}


@pytest.mark.parametrize("module", PUBLIC)
def test_every_public_signature_has_hints_that_name_what_is_there(module):
    functions = _public_functions(importlib.import_module(module))
    incomplete = {name: missing for name, function in functions.items() if (missing := _without_hints(function))}
    assert not incomplete
    for function in functions.values():
        home = inspect.unwrap(function).__globals__["__name__"]
        typing.get_type_hints(function, _names_in(home))  # raises NameError or AttributeError


def test_nearly_every_function_of_the_library_has_all_its_hints():
    functions = [(module, function) for module in LIBRARY for function in _functions(_syntax_tree(module))]
    incomplete = [f"{module}:{node.lineno} {node.name}" for module, node in functions if None in _hints(node)]
    share = 1 - len(incomplete) / len(functions)
    shown = ", ".join(incomplete[:20])
    assert share >= 0.95, f"{share:.1%} of {len(functions)} functions have all hints; among the others are {shown}"


# Importing install or install_tf1 changes TensorFlow for the whole process.
@pytest.mark.parametrize("module", [name for name in LIBRARY if not name.startswith("estimator_train.install")])
def test_hints_of_the_library_name_what_is_there(module):
    importlib.import_module(module)
    for node in _functions(_syntax_tree(module)):
        for hint in filter(None, _hints(node)):
            eval(compile(ast.Expression(hint), module, "eval"), _names_in(module))  # raises NameError or AttributeError


def test_few_hints_for_keras_models_are_any():
    """Any counts wherever it stands in a hint: alone, as an element, as an alternative, or in the alias of a type.

    Names of `_engine/types.py`, such as Nest, say what they stand for.
    """
    trees = [ast.parse(path.read_text()) for path in (PACKAGE / "_engine/keras").rglob("*.py")]
    hints = [hint for tree in trees for hint in _hints_in(tree)]
    with_any = [hint for hint in hints if "Any" in {node.id for node in ast.walk(hint) if isinstance(node, ast.Name)}]
    assert len(hints) > 1000
    assert len(with_any) / len(hints) < 0.05


def _hints_in(tree):
    """Yields the hints of parameters, results and assignments, and the types that aliases stand for."""
    for node in ast.walk(tree):
        if isinstance(node, ast.AnnAssign):
            is_alias = ast.unparse(node.annotation) == "TypeAlias"
            yield node.value if is_alias else node.annotation
        elif isinstance(node, ast.arg) and node.annotation:
            yield node.annotation
        elif isinstance(node, ast.FunctionDef) and node.returns:
            yield node.returns


def _functions(tree):
    """Yields the nodes of all functions, nested ones and methods included."""
    return (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def _hints(function):
    """Returns the hint, or None, of each parameter but self and cls, and of what a function's node returns."""
    parameters = function.args
    named = [*parameters.posonlyargs, *parameters.args, *parameters.kwonlyargs, parameters.vararg, parameters.kwarg]
    hints = [each.annotation for each in named if each is not None and each.arg not in ("self", "cls")]
    return [*hints, function.returns]


@functools.cache
def _syntax_tree(module):
    path = PACKAGE.joinpath(*module.split(".")[1:])
    return ast.parse((path / "__init__.py" if path.is_dir() else path.with_suffix(".py")).read_text())


def _public_functions(module):
    """Returns {qualified name: function} of a module's public functions and methods, without TensorFlow's."""
    names = getattr(module, "__all__", None) or [
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and getattr(value, "__module__", "") == module.__name__
    ]
    functions = {}
    for name in names:
        value = getattr(module, name)
        if isinstance(value, type):
            functions |= {f"{name}.{member}": function for member, function in _methods(value).items()}
        elif _is_ours(value):
            functions[name] = value
    return functions


def _methods(kind):
    """Returns a class's public methods, properties and constructors, including inherited ones."""
    members = {name: inspect.getattr_static(kind, name) for name in dir(kind)}
    functions = {
        name: member.fget if isinstance(member, property) else getattr(member, "__func__", member)
        for name, member in members.items()
        if not name.startswith("_") or name in ("__init__", "__new__", "__call__")
    }
    return {name: function for name, function in functions.items() if _is_ours(function)}


def _is_ours(value):
    return isinstance(value, types.FunctionType) and value.__module__.startswith("estimator_train")


def _without_hints(function):
    """Returns a function's parameters without a hint, and "return" if that has none."""
    signature = inspect.signature(function)
    parameters = list(signature.parameters.values())
    if parameters and parameters[0].name in ("self", "cls"):
        parameters = parameters[1:]
    missing = [parameter.name for parameter in parameters if parameter.annotation is parameter.empty]
    if signature.return_annotation is signature.empty and function.__name__ != "__init__":
        missing.append("return")
    return missing


@functools.cache
def _names_in(module):
    """Returns the names of a module, including those it imports only for type checkers."""
    path = sys.modules[module].__file__
    names = dict(vars(sys.modules[module]))
    for node in ast.parse(Path(path).read_text()).body:
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            exec(compile(ast.Module(node.body, []), path, "exec"), names)
    return names


@pytest.fixture(scope="module")
def project():
    return jedi.Project(ROOT)


def test_editors_complete_the_public_names_with_their_signatures(project):
    script = jedi.Script("import estimator_train as et\net.", project=project)
    completions = {completion.name: completion for completion in script.complete()}
    assert set(et.__all__) <= completions.keys()
    for name in ("Estimator", "RunConfig", "model_to_estimator", "TimingHook", "train_and_evaluate"):
        shown = [parameter.name for parameter in completions[name].get_signatures()[0].params]
        assert shown == [parameter for parameter in inspect.signature(getattr(et, name)).parameters], name


def test_editors_complete_the_methods_of_what_model_to_estimator_returns(project):
    script = jedi.Script("import estimator_train as et\ne = et.model_to_estimator(m)\ne.", project=project)
    completions = {completion.name: completion for completion in script.complete()}
    for name in ("train", "evaluate", "predict", "export_saved_model"):
        (signature,) = completions[name].get_signatures()
        expected = list(inspect.signature(getattr(et.Estimator, name)).parameters)[1:]
        assert [parameter.name for parameter in signature.params] == expected, name


@pytest.mark.parametrize("module", ["experimental", "export", "hooks", "input_fns", "inputs"])
def test_editors_complete_the_names_of_the_public_modules(project, module):
    script = jedi.Script(f"import estimator_train as et\net.{module}.", project=project)
    names = {completion.name for completion in script.complete()}
    assert names >= set(getattr(getattr(et, module), "__all__", ["numpy_input_fn", "pandas_input_fn"]))
