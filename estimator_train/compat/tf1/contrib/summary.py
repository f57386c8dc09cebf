"""tf.contrib.summary: summaries that ops write themselves, which have become TensorFlow 2's tf.summary."""

import contextlib
import re

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
    with _tag(name, family) as tag:
        return _v2.scalar(tag, tensor, _step(step))


def histogram(name, tensor, family=None, step=None):
    with _tag(name, family) as tag:
        return _v2.histogram(tag, tensor, _step(step))


def image(name, tensor, bad_color=None, max_images=3, family=None, step=None):
    """Writes images; `bad_color` is ignored."""
    with _tag(name, family) as tag:
        return _v2.image(tag, tensor, _step(step), max_images)


def audio(name, tensor, sample_rate, max_outputs, family=None, step=None):
    with _tag(name, family) as tag:
        return _v2.audio(tag, tensor, sample_rate, _step(step), max_outputs)


def generic(name, tensor, metadata=None, family=None, step=None):
    with _tag(name, family) as tag:
        return _v2.write(tag, tensor, _step(step), metadata)


@contextlib.contextmanager
def _tag(name, family):
    """Gives what tf.summary completes to the tag of TensorFlow 1, which had a family twice, around the name scope."""
    name = re.sub(r"[^-/\w.]", "_", name)
    if not family:
        yield name
        return
    scope = _v1.get_default_graph().get_name_scope()
    with _v1.name_scope(None):
        yield "/".join(filter(None, [family, scope, family, name]))


def _step(step):
    return _v1.train.get_or_create_global_step() if step is None else step
