"""Uses of TensorFlow's names are found behind the names that code gives them."""

import ast

import pytest

from estimator_train.compat.scan.uses import uses_in

IMPORT = "import tensorflow as tf\n"


def used(*codes):
    """Returns the names below tensorflow that code uses, sorted; alternatives with | between, ? for something else."""
    names = (
        "|".join(each.name.removeprefix("tensorflow.") if each else "?" for each in use.references)
        for use in uses_in(map(ast.parse, codes))
    )
    return sorted(name for name in names if name != "tensorflow")


@pytest.mark.parametrize(
    ("code", "names"),
    [
        ("import tensorflow\ntensorflow.a.b", ["a.b"]),
        ("import tensorflow.x.y\ntensorflow.a", ["a", "x.y"]),
        ("import tensorflow.x as x\nx.a", ["x", "x.a"]),
        ("from tensorflow.x import y as z\nz(1)", ["x.y", "x.y"]),
        ("from tensorflow.x import *", ["x"]),
        (f"{IMPORT}tf = tf.compat.v1\ntf.a", ["compat.v1", "compat.v1.a"]),
        (f"{IMPORT}e = tf.e\ndef f(): return e.a", ["e", "e.a"]),
        (f"def f(): return tf.a\n{IMPORT}", ["a"]),
        (f"def f():\n  {IMPORT}  def g(): tf.a\ntf.b", ["a"]),
    ],
)
def test_a_name_is_followed(code, names):
    assert used(code) == names


@pytest.mark.parametrize(
    "code",
    [
        "tf.a(1).x[tf.b](y=tf.c, **tf.d)",
        "@tf.a\ndef f(x=tf.b, *, y: tf.c = 1) -> tf.d: pass",
        "class A(tf.a, metaclass=tf.b):\n  x = tf.c\n  async def m(self): tf.d",
        "[lambda x=tf.a: tf.b for x in tf.c if tf.d]",
        "with tf.a() as x:\n  for y in tf.b: x[tf.c] = f'{tf.d}'",
        "if tf.a: tf.b\nelif tf.c: pass\nelse: tf.d",
        "match tf.a:\n  case 1 if tf.b: tf.c\n  case tf.d: pass",
        "try: tf.a\nexcept tf.b: tf.c\nelse: pass\nfinally: tf.d",
        "while (x := tf.a): assert tf.b, tf.c\nx: tf.d = 1",
        "a.x = tf.a.b, tf.b\ntf.c.x = 1\ndel tf.d.x",
    ],
)
def test_names_are_found_anywhere_in_a_statement(code):
    assert [name.partition(".")[0] for name in used(IMPORT + code)] == ["a", "b", "c", "d"]


@pytest.mark.parametrize(
    "code",
    [
        "tf = 1\ntf.a",
        "def f(tf): tf.a",
        "lambda tf: tf.a",
        "for tf in x: pass\nelse: pass\nprint(tf)",
        "import other as tf\ntf.a",
        "from .tensorflow import tf\ntf.a",
        "x.tf.a",
        "'tf.a'",
    ],
)
def test_other_things_of_the_same_name_are_no_uses(code):
    assert used(IMPORT + code) == []


def test_a_methods_names_are_not_those_of_its_class():
    assert used(f"{IMPORT}class A:\n  tf = 1\n  def m(self): return tf.a") == ["a"]


def test_branches_give_a_name_alternatives():
    code = "try:\n  import tensorflow.x as x\nexcept ImportError:\n  import tensorflow.y as x\nx.a"
    assert used(code) == ["x", "x.a|y.a", "y"]
    code = "try:\n  from tensorflow import x\nexcept ImportError:\n  x = None\nx.a"
    assert used(code) == ["x", "x.a|?"]


def test_a_use_whose_absence_is_caught_is_optional():
    code = "try: tf.a\nexcept (KeyError, AttributeError): tf.b\ntry: tf.c\nexcept KeyError: pass"
    optional = {use.references[0].name: use.is_optional for use in uses_in([ast.parse(IMPORT + code)])}
    assert optional == {
        "tensorflow": False, "tensorflow.a": True, "tensorflow.b": False, "tensorflow.c": False
    }  # fmt: skip


def test_a_use_has_its_line_its_cell_and_the_names_of_arguments():
    uses = uses_in(map(ast.parse, ["import tensorflow as tf", "\ntf.a(1, lr=2)"]))
    assert (uses[1].part, uses[1].line, uses[1].keywords) == (1, 2, {"lr"})


def test_code_nested_deeper_than_python_calls_is_read():
    chain = "".join(f"elif x: tf.a{number}\n" for number in range(1500))
    deep = "+".join(["tf.b"] * 900)
    assert len(used(f"{IMPORT}if x: pass\n{chain}{deep}")) == 2400
