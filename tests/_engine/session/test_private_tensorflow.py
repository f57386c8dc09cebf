"""Each private name of TensorFlow, used as in the package; docstrings say what breaks without it."""

import estimator_train  # noqa: F401, before TensorFlow, as users have it

# isort: split
import pytest
import tensorflow as tf

from estimator_train._engine.session import private_tensorflow

v1 = tf.compat.v1


@pytest.fixture
def graph():
    with tf.Graph().as_default() as graph:
        yield graph


def test_eager_mode_inside_a_v1_graph(graph):
    """Hooks run in v1 graphs: from there no Keras step could run, no checkpoint of a Keras model be saved."""
    with private_tensorflow.eager_mode():
        assert tf.constant(3).numpy() == 3
    assert not tf.executing_eagerly()


def test_hooks_read_the_global_step_by_one_tensor(graph):
    """The session of a Keras run would compute it in the hook graph at each step, or answer with another step."""
    step = v1.train.create_global_step()
    read = private_tensorflow.global_step_read()
    operations = len(graph.get_operations())
    for hook in [v1.train.StopAtStepHook(last_step=2), v1.train.StepCounterHook()]:
        hook.begin()
        assert hook.before_run(None).fetches is read
    assert len(graph.get_operations()) == operations
    with v1.Session() as session:
        session.run(v1.assign(step, 5))
        assert session.run(read) == 5


def test_random_ops_after_the_global_step_read_get_tf_estimators_seeds(graph):
    """A model_fn would draw other initial weights than under tf.estimator: a seed is the number of ops before it."""
    v1.train.create_global_step()
    private_tensorflow.global_step_read()
    assert len(graph.get_operations()) == 10


def test_the_timer_of_a_saver_hook(tmp_path):
    """Workers would not save at the same step, and so wait for each other for ever."""

    class Never(v1.train.SecondOrStepTimer):
        def should_trigger_for_step(self, step):
            return False

    hook = v1.train.CheckpointSaverHook(str(tmp_path), save_steps=1)
    private_tensorflow.set_timer(hook, Never(every_steps=1))
    hook.after_run(v1.train.SessionRunContext(None, None), v1.train.SessionRunValues(5, None, None))  # saves nothing


def test_the_writer_of_a_directory_for_two_spellings(tmp_path, monkeypatch):
    """A user's hook with a relative output_dir would write over the events of the training."""
    monkeypatch.chdir(tmp_path)
    with tf.Graph().as_default():
        private_tensorflow.share_event_writer(str(tmp_path / "run"), "run")
        assert v1.summary.FileWriterCache.get("run") is v1.summary.FileWriterCache.get(str(tmp_path / "run"))


def test_the_last_step_of_a_stop_hook():
    """A training that has reached its last step before would make one more."""
    assert private_tensorflow.last_step(v1.train.StopAtStepHook(last_step=7)) == 7
    assert private_tensorflow.last_step(v1.train.StopAtStepHook(num_steps=7)) is None


def test_what_stock_hooks_note_for_their_next_step(graph, tmp_path):
    """Their calls of many steps would end at other steps than those that they log and save."""
    step = v1.train.create_global_step()
    logging = v1.train.LoggingTensorHook([step], every_n_iter=5)
    saving = v1.train.SummarySaverHook(save_steps=7, output_dir=str(tmp_path), summary_op=tf.constant(b""))
    assert private_tensorflow.logs_now(logging) and private_tensorflow.requests_summary(saving)
    assert not private_tensorflow.logs_at_end(logging)
    for hook in (logging, saving):
        hook.begin()
        hook.before_run(None)
    assert [private_tensorflow.every_steps(private_tensorflow.timer(hook)) for hook in (logging, saving)] == [5, 7]
    assert private_tensorflow.logs_now(logging) and private_tensorflow.requests_summary(saving)
    private_tensorflow.add_calls(logging, 3)
    assert private_tensorflow.calls_counted(logging) == 3
    assert private_tensorflow.every_steps(v1.train.SecondOrStepTimer(every_secs=3)) is None
    at_end = private_tensorflow.timer(v1.train.LoggingTensorHook([step], at_end=True))
    assert (
        private_tensorflow.every_steps(at_end) is None
        and private_tensorflow.watched_tensor(v1.train.NanTensorHook("loss:0")) == "loss:0"
    )
