"""Errors of the user's input_fn end as one line."""

import re

GENERATORS = """
import numpy as np
import tf_keras as keras
from estimator_train import input_fns

def examples():
    yield np.ones(2, "float32"), np.ones(1, "float32")
    raise KeyError("lost sample 7")

in_process = input_fns.generator(examples, batch_size=1)
in_worker = input_fns.generator(examples, batch_size=1, workers=1)

def build():
    model = keras.Sequential([keras.layers.Dense(1, input_shape=(2,))])
    model.compile("sgd", "mse")
    return model
"""


def test_what_a_generator_raises_is_told_with_its_place(command, tmp_path):
    (tmp_path / "own.py").write_text(GENERATORS)
    for name in ("in_process", "in_worker"):
        flags = ["--input-fn", f"own.py:{name}", "--eval-input-fn", f"own.py:{name}", "--model", "own.py:build"]
        code, _, errors = command(*flags, "--model-dir", name)
        assert code == 2
        line = r"estimator_train: the input_fn's generator raised KeyError: 'lost sample 7' \(\S+own.py, line 8\)"
        assert re.fullmatch(line, errors.splitlines()[-1])
