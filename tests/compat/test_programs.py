"""Programs in the way of well-known repositories run as they are."""

import json
from pathlib import Path

import pytest
import warm_python

PROGRAMS = Path(__file__).parents[1] / "data" / "programs"


def run(command, folder):
    return answer_of(["-m", "estimator_train", "run", *command], folder)


def answer_of(arguments, folder):
    done = warm_python.run(arguments, folder, cwd=folder)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.slow
def test_a_tagger_of_tensorflow_1_with_lstms_in_both_directions_and_a_crf(tmp_path):
    result = run(["--tf1", PROGRAMS / "tagger.py", tmp_path], tmp_path)
    assert result["metrics"]["acc"] == 1 and result["metrics"]["global_step"] == 100
    assert result["tags"][1] == ["O", "B-LOC"] and result["served"] == ["O", "B-PER", "O", "O", "B-LOC"]
    cells = [f"lstm_fused_cell{end}/{part}" for end in ("", "_1") for part in ("kernel", "bias")]
    assert {*cells, "crf", "dense/kernel", "embeddings"} < set(result["variables"])


@pytest.mark.slow
def test_a_recommender_that_reaches_into_the_old_modules(tmp_path):
    (tmp_path / "program.py").write_text(f"""
import sys
import estimator_train.install
sys.path.append({str(PROGRAMS)!r})
import ranker
ranker.main({str(tmp_path)!r})
""")
    result = answer_of([tmp_path / "program.py"], tmp_path)
    assert result["metrics"]["auc"] == 1 and result["metrics"]["clicks"] == 0.53125  # the labels' mean
    assert sorted(result["ranks"]) == list(range(16)) and result["trainings"] == 1
    assert result["exports"] == {"best": 2, "latest": 3}
    assert {"deep_0/dense/kernel", "linear_model/item/weights"} < set(result["variables"])


@pytest.mark.slow
def test_a_trainer_of_registered_models_by_an_experiment(tmp_path):
    result = run(["--tf1", PROGRAMS / "trainer.py", f"--output_dir={tmp_path}", "--hparams=filters=3"], tmp_path)
    assert result["accuracy"] == 1 and result["global_step"] == 60
    assert result["exports"] == ["export/Servo"]
    assert result["loaded_before"] == [] and result["cluster"] == {}
    # The layers under the scope of both slim and tf.contrib.layers. TensorFlow 1.15.5 printed these names and shapes
    # for the program with tf.data.Dataset in place of the one of tf.contrib.data, and without its resolver.
    shapes = {"conv/conv_1/weights": [3, 3, 1, 3], "conv/conv_1/LayerNorm/gamma": [3], "logits/biases": [2]}
    assert {f"small_net/{name}": shape for name, shape in shapes.items()}.items() <= result["shapes"].items()
