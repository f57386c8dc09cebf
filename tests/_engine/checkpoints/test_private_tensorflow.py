"""Each private name of TensorFlow, used as in the package; docstrings say what breaks without it."""

import estimator_train  # noqa: F401, before TensorFlow, as users have it

# isort: split
import tensorflow as tf
import tf_keras as keras

from estimator_train._engine.checkpoints import private_tensorflow

v1 = tf.compat.v1


def test_values_of_variables_that_never_come_are_forgotten(tmp_path):
    """Each restore of a checkpoint would leave 18 kB behind."""

    def build():
        model = keras.Sequential([keras.layers.Dense(1, input_shape=(1,))])
        model.compile("adam", "mse")
        return model

    trained, step = build(), tf.Variable(1)
    trained.optimizer.build(trained.trainable_variables)
    path = tf.train.Checkpoint(root=trained, step=step).save(str(tmp_path / "c"))
    model = build()
    tf.train.Checkpoint(root=model, step=step).read(path)
    parts = tf.train.TrackableView(model).descendants()
    assert len([part for part in parts if part._deferred_dependencies]) > 1  # of the model and of its optimizer
    private_tensorflow.forget_values_to_come(model)
    assert not [part for part in parts if part._deferred_dependencies]


def test_values_that_checkpoints_leave_out(tmp_path):
    """`load_weights` would overwrite the compiled learning rate."""
    module, other = tf.Module(), tf.Module()
    module.rate, other.rate = tf.Variable(1.0), tf.Variable(2.0)
    whole = tf.train.Checkpoint(module).write(str(tmp_path / "whole"))
    private_tensorflow.leave_out_of_checkpoints(module, [module.rate])
    partial = tf.train.Checkpoint(module).write(str(tmp_path / "partial"))
    tf.train.Checkpoint(other).read(partial).assert_existing_objects_matched()
    assert float(other.rate) == 2
    module.rate.assign(3.0)
    tf.train.Checkpoint(module).read(whole).expect_partial()
    assert float(module.rate) == 3


def test_the_listeners_of_a_saver_hook(tmp_path):
    """Listeners given to train() would not be called if the user also passes a CheckpointSaverHook."""
    begun = []

    class Listener(v1.train.CheckpointSaverListener):
        def begin(self):
            begun.append(self)

    first, second = Listener(), Listener()
    with tf.Graph().as_default():
        v1.train.create_global_step()
        hook = v1.train.CheckpointSaverHook(str(tmp_path), save_steps=1, listeners=[first])
        assert private_tensorflow.listeners(hook) == [first]
        private_tensorflow.set_listeners(hook, [first, second])
        hook.begin()
    assert begun == [first, second]
