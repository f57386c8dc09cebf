"""tf.contrib.summary: summaries that ops write themselves, which have become TensorFlow 2's tf.summary."""

import tensorflow as tf

_v1, _v2 = tf.compat.v1, tf.compat.v2.summary


def create_file_writer(logdir, max_queue=None, flush_millis=None, filename_suffix=None, name=None):
    if logdir is None:
        return _v2.create_noop_writer()
    return _v2.create_file_writer(logdir, max_queue, flush_millis, filename_suffix, name)


def always_record_summaries():
    return _v2.record_if(True)


def never_record_summaries():
    return _v2.record_if(False)


def record_summaries_every_n_global_steps(n, global_step=None):
    step = _v1.train.get_or_create_global_step() if global_step is None else global_step
    return _v2.record_if(lambda: tf.equal(step % n, 0))


def scalar(name, tensor, family=None, step=None):
    return _v2.scalar(_tag(name, family), tensor, _step(step))


def histogram(name, tensor, family=None, step=None):
    return _v2.histogram(_tag(name, family), tensor, _step(step))


def image(name, tensor, bad_color=None, max_images=3, family=None, step=None):
    """Writes images; `bad_color` is ignored."""
    return _v2.image(_tag(name, family), tensor, _step(step), max_images)


def audio(name, tensor, sample_rate, max_outputs, family=None, step=None):
    return _v2.audio(_tag(name, family), tensor, sample_rate, _step(step), max_outputs)


def generic(name, tensor, metadata=None, family=None, step=None):
    return _v2.write(_tag(name, family), tensor, _step(step), metadata)


def _tag(name, family):
    return f"{family}/{name}" if family else name


def _step(step):
    return _v1.train.get_or_create_global_step() if step is None else step
