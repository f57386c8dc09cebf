"""Training continues from existing checkpoints if the `checkpoint` file is lost."""

import os
import shutil

import pytest
import tensorflow as tf
from models import KINDS, approaching, label, receiver
from slow_cases import both_kinds

import estimator_train as et
from estimator_train._engine import checkpoints

input_fn, eval_input_fn = label(1.0), label(1.0, 1)


@pytest.fixture(params=KINDS, scope="module")
def kind(request):
    return request.param


@pytest.fixture(scope="module")
def estimator_in(kind):
    """Gives a new estimator in a folder."""

    def make(folder):
        quiet = {"save_summary_steps": None, "checkpoint_save_graph_def": False}
        return approaching(kind, et.RunConfig(folder, save_checkpoints_steps=1, keep_checkpoint_max=3, **quiet))

    return make


fast_keras = both_kinds("kind", "keras")
fast_model_fn = both_kinds("kind", "model_fn")


@pytest.fixture
def make_estimator(estimator_in, tmp_path):
    return lambda: estimator_in(tmp_path / "run")


@pytest.fixture(scope="module")
def trained(estimator_in, tmp_path_factory):
    folder = tmp_path_factory.mktemp("trained")
    estimator_in(folder).train(input_fn, max_steps=4)
    return folder


@pytest.fixture
def run(trained, tmp_path):
    """The directory of a run of 4 steps with checkpoints of steps 2, 3 and 4."""
    return shutil.copytree(trained, tmp_path / "run")


def steps_in(folder):
    return sorted(int(path.stem.rpartition("-")[2]) for path in folder.glob("model.ckpt-*.index"))


@pytest.mark.parametrize("kind", KINDS[:1], indirect=True)
@pytest.mark.parametrize(
    "content", [None, b"", b"\xff\xfe\x00garbage", b"no state", b"model_checkpoint_path: "], ids=repr
)
def test_a_missing_or_garbled_checkpoint_file_is_rebuilt(content, run, log_lines):
    (run / "checkpoint").unlink()
    if content is not None:
        (run / "checkpoint").write_bytes(content)
    assert checkpoints.latest_intact(run) == str(run / "model.ckpt-4")
    assert [line for line in log_lines if "the newest checkpoint in its directory is model.ckpt-4" in line]
    checkpoints.recover_state(run, keep_max=3)
    state = tf.train.get_checkpoint_state(run)
    assert [os.path.basename(path) for path in state.all_model_checkpoint_paths] == [
        f"model.ckpt-{step}" for step in (2, 3, 4)
    ]


@fast_model_fn
def test_training_resumes_with_a_garbled_checkpoint_file(run, make_estimator, log_lines):
    (run / "checkpoint").write_bytes(b"\xff\xfe\x00garbage")
    make_estimator().train(input_fn, max_steps=6)
    assert [line for line in log_lines if "the newest checkpoint in its directory is model.ckpt-4" in line]
    assert steps_in(run) == [4, 5, 6]  # it knows the older ones, and deletes them in their turn
    assert [os.path.basename(path) for path in checkpoints.kept_in(str(run))] == [
        f"model.ckpt-{step}" for step in (4, 5, 6)
    ]


def test_a_damaged_newest_checkpoint_is_passed_over_there_too(run, make_estimator):
    (run / "checkpoint").unlink()
    (run / "model.ckpt-4.index").write_bytes(b"")
    assert make_estimator().latest_checkpoint() == str(run / "model.ckpt-3")


@fast_keras
def test_evaluate_predict_and_export_find_the_checkpoint_and_write_nothing(run, make_estimator, tmp_path):
    (run / "checkpoint").write_bytes(b"\xff\xff")
    estimator = make_estimator()
    assert estimator.evaluate(eval_input_fn)["global_step"] == 4
    (prediction,) = estimator.predict(eval_input_fn)
    exported = tf.saved_model.load(estimator.export_saved_model(tmp_path / "export", receiver).decode())
    serve = exported.signatures["serving_default"]
    assert serve(tf.ones([1, 1]))["dense"].numpy().item() == pytest.approx(prediction["dense"].item())
    assert prediction["dense"].item() > 0
    assert (run / "checkpoint").read_bytes() == b"\xff\xff"


def test_an_empty_model_dir_starts_at_0(make_estimator, tmp_path, log_lines):
    (tmp_path / "run").mkdir()
    assert make_estimator().latest_checkpoint() is None
    assert checkpoints.kept_in(str(tmp_path / "run")) == []
    assert not log_lines[1:]  # only the config


@fast_keras
def test_a_kill_while_the_first_checkpoint_is_written_loses_nothing(run, make_estimator, log_lines):
    (run / "checkpoint").unlink()
    for path in run.glob("model.ckpt-[1-9]*"):
        path.unlink()
    index = run / "model.ckpt-0.index"
    index.write_bytes(index.read_bytes()[:40] if index.exists() else b"torn")
    (run / "model.ckpt-0.data-00000-of-00001").write_bytes(b"")
    make_estimator().train(input_fn, steps=1)
    assert any("model.ckpt-0 is damaged; trying the one before" in line for line in log_lines)
    assert make_estimator().get_variable_value("global_step") == 1


def test_a_rebuilt_checkpoint_file_omits_checkpoints_kept_for_good(run):
    (run / "checkpoint").unlink()
    checkpoints.recover_state(str(run), keep_max=2)
    assert [os.path.basename(path) for path in checkpoints.kept_in(str(run))] == ["model.ckpt-3", "model.ckpt-4"]
    (run / "checkpoint").unlink()
    checkpoints.recover_state(str(run), keep_max=0)
    assert len(checkpoints.kept_in(str(run))) == 3


@fast_model_fn
def test_a_folder_in_place_of_the_checkpoint_file_is_refused_for_training(run, make_estimator):
    (run / "checkpoint").unlink()
    (run / "checkpoint").mkdir()
    estimator = make_estimator()
    assert estimator.evaluate(eval_input_fn)["global_step"] == 4
    with pytest.raises(checkpoints.CheckpointError, match="checkpoint is a directory.*remove it"):
        estimator.train(input_fn, steps=1)


def test_a_checkpoint_file_that_names_what_lies_elsewhere_is_refused(run, make_estimator):
    (run / "checkpoint").write_text('model_checkpoint_path: "/was/there/model.ckpt-9"\n')
    with pytest.raises(checkpoints.CheckpointError, match=r"names /was/there/model.ckpt-9.*delete the file"):
        make_estimator().train(input_fn, steps=1)


@fast_model_fn
def test_checkpoints_of_another_run_that_the_file_lists_are_not_deleted(run, make_estimator, tmp_path):
    other = shutil.copytree(run, tmp_path / "other")
    for path in [*other.glob("model.ckpt-2.*")]:
        path.rename(path.with_name(path.name.replace("-2", "-1")))
    listed = ["/../other/model.ckpt-1", "/../other/model.ckpt-3", "/model.ckpt-4"]
    lines = [f'all_model_checkpoint_paths: "{run}{path}"\n' for path in listed]
    (run / "checkpoint").write_text(f'model_checkpoint_path: "{run}/model.ckpt-4"\n{"".join(lines)}')
    make_estimator().train(input_fn, steps=4)
    assert steps_in(other) == [1, 3, 4]
    assert steps_in(run)[-3:] == [6, 7, 8]


@fast_model_fn
def test_a_moved_run_resumes_with_a_checkpoint_file_naming_the_old_path(run, make_estimator):
    state = (run / "checkpoint").read_text()
    (run / "checkpoint").write_text(state.replace('"model.ckpt', '"/was/there/model.ckpt'))
    make_estimator().train(input_fn, steps=1)
    assert make_estimator().latest_checkpoint() == str(run / "model.ckpt-5")
