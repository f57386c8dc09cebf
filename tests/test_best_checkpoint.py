"""BestCheckpointExporter: the best checkpoint is kept, whole, through restarts and kills."""

import functools
import json
import os

import numpy as np
import pytest
import tensorflow as tf
import tf_keras as keras
from models import KINDS, one_weight
from slow_cases import both_kinds

import estimator_train as et
from estimator_train._engine import checkpoints

v1 = tf.compat.v1


def train_input_fn():
    return tf.data.Dataset.from_tensors((tf.ones([1, 1]), tf.constant([[2.0]]))).repeat()


def eval_input_fn():
    return tf.data.Dataset.from_tensors((tf.ones([1, 1]), tf.constant([[1.0]])))


def model_fn(features, labels, mode):
    weight = v1.get_variable("weight", [], initializer=v1.zeros_initializer())
    loss = tf.reduce_mean((features * weight - labels) ** 2)
    train_op = v1.train.GradientDescentOptimizer(0.05).minimize(loss, v1.train.get_global_step())
    return et.EstimatorSpec(mode, loss=loss, train_op=train_op)


@pytest.fixture(params=KINDS)
def estimator(request, tmp_path):
    """Overshoots its best loss: of the evaluations at steps 2, 4, ..., step 6 is best."""
    config = et.RunConfig(str(tmp_path / "run"), save_checkpoints_steps=2, save_summary_steps=None)
    if request.param == "keras":
        return et.model_to_estimator(one_weight(keras.optimizers.SGD(0.05), "mse"), config=config)
    return et.Estimator(model_fn, config=config)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """An Estimator with the checkpoints of steps 2 and 4, for exporters that write elsewhere."""
    config = et.RunConfig(tmp_path_factory.mktemp("run"), save_checkpoints_steps=2)
    return et.Estimator(model_fn, config=config).train(train_input_fn, max_steps=4)


# Hooks and exporters see the same with both kinds of models; this is the faster one.
of_model_fn = pytest.mark.parametrize("estimator", ["model_fn"], indirect=True)
fast_keras = both_kinds("estimator", "keras")


def train_and_evaluate(estimator, max_steps, exporter):
    eval_spec = et.EvalSpec(eval_input_fn, steps=None, exporters=exporter, every_steps=2)
    return et.train_and_evaluate(estimator, et.TrainSpec(train_input_fn, max_steps), eval_spec)


def result_of(path):
    with open(f"{path}.eval_result.json") as file:
        return json.load(file)


@fast_keras
def test_the_best_is_kept_alone_and_is_evaluated_as_it_was(estimator):
    _, (exported,) = train_and_evaluate(estimator, 10, et.BestCheckpointExporter())
    assert exported is None  # the last is not the best
    folder = os.path.join(estimator.model_dir, "export", "best_checkpoint")
    best = tf.train.latest_checkpoint(folder)
    assert best == os.path.join(folder, "model.ckpt-6")
    assert all(name.startswith("model.ckpt-6.") for name in set(os.listdir(folder)) - {"checkpoint"})
    original = {name for name in os.listdir(estimator.model_dir) if name.startswith("model.ckpt-6.")}
    assert set(os.listdir(folder)) == original | {"checkpoint", "model.ckpt-6.eval_result.json"}
    metrics = estimator.evaluate(eval_input_fn, checkpoint_path=best)
    assert result_of(best) == {name: pytest.approx(value) for name, value in metrics.items()}
    assert metrics["global_step"] == 6


@pytest.mark.slow
@of_model_fn
def test_a_restarted_training_remembers_the_best(estimator):
    _, (exported,) = train_and_evaluate(estimator, 6, et.BestCheckpointExporter())
    assert exported.decode().endswith("export/best_checkpoint/model.ckpt-6")
    train_and_evaluate(estimator, 12, et.BestCheckpointExporter())
    assert tf.train.latest_checkpoint(os.path.dirname(exported.decode())) == exported.decode()


@pytest.mark.slow
@of_model_fn
def test_any_compare_fn_decides(estimator):
    exporter = et.BestCheckpointExporter(
        "largest", lambda best_eval_result, current_eval_result: best_eval_result["loss"] < current_eval_result["loss"]
    )
    train_and_evaluate(estimator, 8, exporter)
    assert tf.train.latest_checkpoint(os.path.join(estimator.model_dir, "export", "largest")).endswith("model.ckpt-2")


def test_a_result_without_a_loss_is_refused(trained, tmp_path):
    exporter, newest = et.BestCheckpointExporter(), trained.latest_checkpoint()
    exporter.export(trained, str(tmp_path / "best"), newest, {"loss": np.float32(1)}, False)
    with pytest.raises(ValueError, match="current_eval_result has no loss"):
        exporter.export(trained, str(tmp_path / "best"), newest, {"mae": np.float32(1)}, False)


def test_only_checkpoints_that_it_wrote_are_deleted(trained, tmp_path):
    folder = tmp_path / "best"
    (folder / "mine").mkdir(parents=True)
    (folder / "notes.txt").write_text("keep")
    for step, loss in ((2, 2.0), (4, 1.0)):
        checkpoint = os.path.join(trained.model_dir, f"model.ckpt-{step}")
        et.BestCheckpointExporter().export(trained, str(folder), checkpoint, {"loss": loss}, False)
    names = {name for name in os.listdir(folder) if not name.startswith("model.ckpt-4.")}
    assert names == {"checkpoint", "mine", "notes.txt"}


def test_the_best_is_found_where_its_checkpoint_file_is_lost(trained, tmp_path):
    exporter, folder = et.BestCheckpointExporter(), str(tmp_path / "best")
    older, newer = (os.path.join(trained.model_dir, f"model.ckpt-{step}") for step in (2, 4))
    exporter.export(trained, folder, older, {"loss": 1.0}, False)
    (tmp_path / "best" / "checkpoint").write_bytes(b"\xff")
    assert exporter.export(trained, folder, newer, {"loss": 2.0}, False) is None
    (tmp_path / "best" / "model.ckpt-2.eval_result.json").write_text('{"loss": 1')
    with pytest.raises(checkpoints.CheckpointError, match=r"model.ckpt-2.eval_result.json cannot be read.*move .*best"):
        exporter.export(trained, folder, newer, {"loss": 0.5}, False)
    assert checkpoints.damage_of(os.path.join(folder, "model.ckpt-2")) is None


class Killed(BaseException):
    pass


@pytest.fixture
def killed_before(monkeypatch):
    """Calls a function that is killed before a file operation; returns whether it came to that one."""
    operations = [(tf.io.gfile, name) for name in ("copy", "rename", "remove", "makedirs")]
    operations = [(module, name, getattr(module, name)) for module, name in [*operations, (os, "replace")]]

    def call(operation, export):
        count = iter(range(operation, -1, -1))

        def or_killed(function):
            def run(*arguments, **options):
                if next(count) == 0:
                    raise Killed
                return function(*arguments, **options)

            return run

        with monkeypatch.context() as patch:
            for module, name, function in operations:
                patch.setattr(module, name, or_killed(function))
            try:
                export()
            except Killed:
                return True
        return False

    return call


def test_a_kill_during_the_first_export_is_gone_on_from(trained, killed_before, tmp_path):
    exporter, checkpoint = et.BestCheckpointExporter(), os.path.join(trained.model_dir, "model.ckpt-2")
    for operation in range(100):
        folder = str(tmp_path / f"killed-before-{operation}")
        export = functools.partial(exporter.export, trained, folder, checkpoint, {"loss": 2.0}, False)
        killed = killed_before(operation, export)
        exporter.export(trained, folder, checkpoint, {"loss": 1.0}, False)
        assert result_of(tf.train.latest_checkpoint(folder)) == {"loss": 1.0}
        if not killed:
            break
    assert operation > 5


def test_a_kill_at_any_moment_leaves_a_whole_best_and_its_result(trained, killed_before, tmp_path):
    older, newer = (os.path.join(trained.model_dir, f"model.ckpt-{step}") for step in (2, 4))
    results = {"model.ckpt-2": {"loss": 2.0}, "model.ckpt-4": {"loss": 1.0}}
    exporter = et.BestCheckpointExporter()

    kept = []
    for operation in range(100):
        folder = str(tmp_path / f"killed-before-{operation}")
        exporter.export(trained, folder, older, results["model.ckpt-2"], False)
        export = functools.partial(exporter.export, trained, folder, newer, results["model.ckpt-4"], False)
        killed = killed_before(operation, export)
        best = tf.train.latest_checkpoint(folder)
        kept.append(os.path.basename(best))
        assert checkpoints.damage_of(best) is None
        assert result_of(best) == results[kept[-1]]
        # A restart exports the next best, and nothing is left behind.
        et.BestCheckpointExporter().export(trained, folder, newer, {"loss": 0.5}, False)
        files = [name for name in os.listdir(folder) if not name.startswith("model.ckpt-4.")]
        assert files == ["checkpoint"]
        if not killed:
            break
    assert kept == sorted(kept) and set(kept) == set(results) and len(kept) > 8


@pytest.mark.parametrize(
    ("direction", "best", "current", "is_better"),
    [
        ("min", 1.0, 0.5, True),
        ("min", 0.5, 0.5, False),
        ("max", 0.5, 1.0, True),
        ("max", 1.0, 0.5, False),
        ("max", np.nan, 0.5, True),
        ("min", 0.5, np.nan, False),
        ("min", np.nan, np.nan, False),
    ],
)
def test_compare_by_goes_by_one_metric(direction, best, current, is_better):
    compare_fn = et.compare_by("auc", direction)
    et.BestExporter(compare_fn=compare_fn)
    assert compare_fn(best_eval_result={"auc": best}, current_eval_result={"auc": current}) is is_better
    with pytest.raises(ValueError, match="current_eval_result has no auc"):
        compare_fn(best_eval_result={"auc": best}, current_eval_result={"loss": 1.0})


def test_compare_by_knows_two_directions():
    with pytest.raises(ValueError, match='must be "min" or "max", given: \'up\''):
        et.compare_by("auc", "up")
