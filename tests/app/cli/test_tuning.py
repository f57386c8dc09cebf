"""The most used tuning flags in training, resuming, evaluating and exporting."""

import json
import shlex

import numpy as np
import pytest
import tf_keras as keras

from estimator_train.app.report import learning_rates


@pytest.fixture
def flags(scans, tmp_path):
    return [
        *("--dataset", "images", "--data-dir", scans, "--model", "small_cnn", "--image-size", "16"),
        *("--batch-size", "4", "--seed", "1", "--model-dir", tmp_path / "run"),
    ]


EVERY_FLAG = (
    "--learning-rate 0.001 --optimizer adamw --schedule cosine --warmup-steps 1 --weight-decay 0.01 --clip-norm 1 "
    "--ema 0.5 --label-smoothing 0.1 --dropout 0.3 --class-weights balanced --augment medium,mixup "
    "--scale-learning-rate --replicas 2"
)


@pytest.mark.slow
def test_a_run_of_every_flag_is_resumed_evaluated_and_exported(command, flags, tmp_path):
    code, output, _ = command(*flags, *shlex.split(EVERY_FLAG), "--max-steps", "4")
    assert code == 0
    assert "optimizer    adamw, weight decay 0.01, gradients clipped to 1, averages with momentum 0.5, labels" in output
    assert "rate         0.001, times 2 replicas: 0.002, cosine, 1 steps of warm-up" in output
    assert "augmentation medium,mixup" in output
    assert "class weight bright 1, dark 1" in output

    # No schedule, and another rate: the rest stays.
    resume = ["--model-dir", tmp_path / "run", "--resume", "--max-steps"]
    code, output, errors = command(*resume, "6", "--schedule", "constant", "--learning-rate", "0.1")
    assert code == 0, errors
    assert "optimizer    adamw, weight decay 0.01" in output
    last = output.strip().splitlines()[-1]
    training = json.loads((tmp_path / "run" / "run.json").read_text())["training"]
    assert (training["learning_rate"], training["augment"]) == (0.1, "medium,mixup")

    _, output, _ = command("evaluate", "--model-dir", tmp_path / "run", "--json")
    metrics = json.loads(output)[0]["metrics"]
    assert f"loss {metrics['loss']:.4f}"[:9] in last

    code, *_ = command("export", "--model-dir", tmp_path / "run", "--format", "keras", "--out", tmp_path / "out")
    assert code == 0
    model = keras.models.load_model(tmp_path / "out" / "model.keras")
    optimizer = model.optimizer.get_config()
    assert (optimizer["name"], optimizer["use_ema"], optimizer["ema_momentum"]) == ("AdamW", True, 0.5)
    assert model.loss.get_config()["label_smoothing"] == pytest.approx(0.1)
    assert [layer.rate for layer in model.layers if isinstance(layer, keras.layers.Dropout)] == [0.3]

    code, _, errors = command(*resume, "9", "--ema", "0.9")
    assert (code, errors.split(": ")[1]) == (
        2,
        f"the run in {tmp_path}/run has ema 0.5, not 0.9; continue with the same, or give another --model-dir\n",
    )


def test_a_model_of_the_users_own_is_compiled_anew(command, own_flags, tmp_path):
    flags = [*own_flags, "--model-dir", tmp_path / "run", "--max-steps", "1"]
    code, output, _ = command(*flags, "--learning-rate", "0.1")
    assert code == 0
    assert "loss 0.36" in output.splitlines()[-1]  # (1 - 4 * 0.1) ** 2
    code, _, errors = command(*flags[:-3], tmp_path / "a", "--dropout", "0.2")
    assert (code, errors) == (
        2,
        f"estimator_train: --dropout: {tmp_path}/own.py:build takes no argument dropout; add it, and apply it\n",
    )
    code, _, errors = command(*flags[:-3], tmp_path / "b", "--label-smoothing", "0.2")
    assert code == 2
    assert "label_smoothing is for categorical and binary cross-entropy, and the model is compiled with 'mse'" in errors


@pytest.mark.slow
def test_a_learning_rate_is_found_and_nothing_else_is_kept(command, flags, tmp_path, monkeypatch):
    plotted, plot = [], learning_rates.plot
    monkeypatch.setattr(learning_rates, "plot", lambda test, path: plotted.append(test) or plot(test, path))
    code, output, _ = command(*flags, "--find-learning-rate", "--weight-decay", "0.01")
    assert code == 0
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["learning_rate.png"]
    (test,) = plotted
    lowest = np.argmin(test.averages)
    assert test.rates[0] == 1e-7 and test.averages[lowest] < test.averages[0]
    assert output.splitlines()[-1].startswith(f"--learning-rate {test.rates[lowest] / 10:.1e} is suggested")
