"""PLACEHOLDER for the merge."""

from __future__ import annotations


def set_timer(hook, timer):
    """Replaces the `SecondOrStepTimer` of a CheckpointSaverHook, whose constructor takes only its numbers."""
    hook._timer = timer


def listeners(hook):
    """The listeners of a CheckpointSaverHook."""
    return hook._listeners


def set_listeners(hook, listeners):
    """Replaces the listeners of a CheckpointSaverHook, which it takes in its constructor alone."""
    hook._listeners = listeners


def last_step(hook):
    """The global step at which a StopAtStepHook stops; None before its session is created, if it counts from there."""
    return hook._last_step
