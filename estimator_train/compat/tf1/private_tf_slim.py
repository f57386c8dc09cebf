"""Argument scopes of tf_slim that belong to one thread.

tf_slim has one list of scopes for the whole process. MirroredStrategy switches between the threads of replicas in the
middle of a model_fn, so a scope that one replica has opened would count in the others.
"""

import threading

from tf_slim.ops import arg_scope

_scopes_of_main = arg_scope._get_arg_stack
_of_thread = threading.local()


def _scopes():
    """Returns the scopes of this thread; those of a replica start inside the scope that the main thread is in."""
    if threading.current_thread() is threading.main_thread():
        return _scopes_of_main()
    if not getattr(_of_thread, "scopes", None):  # tf_slim empties the list when it refuses a scope
        _of_thread.scopes = [_scopes_of_main()[-1]]
    return _of_thread.scopes


arg_scope._get_arg_stack = _scopes  # tf_slim reads its list through this function alone, and has no public one
