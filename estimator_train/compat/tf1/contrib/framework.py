"""tf.contrib.framework: argument scopes, the global step, variables and checkpoints."""

import contextlib
import functools
import inspect
import re

import tensorflow as tf

_v1 = tf.compat.v1

CriticalSection = tf.CriticalSection
argsort = tf.argsort
assert_global_step = _v1.train.assert_global_step
assert_same_float_dtype = _v1.debugging.assert_same_float_dtype
assert_scalar = _v1.debugging.assert_scalar
checkpoints_iterator = tf.train.checkpoints_iterator
create_global_step = _v1.train.create_global_step
get_global_step = _v1.train.get_global_step
get_or_create_global_step = _v1.train.get_or_create_global_step
init_from_checkpoint = _v1.train.init_from_checkpoint
is_tensor = tf.is_tensor
list_variables = tf.train.list_variables
load_checkpoint = tf.train.load_checkpoint
load_variable = tf.train.load_variable
nest = tf.nest
sort = tf.sort
zero_initializer = _v1.variables_initializer


# Argument scopes

_scopes: list[dict] = [{}]  # active defaults, innermost last: dicts of functions to dicts of arguments


def add_arg_scope(func):
    """Decorates a function so that `arg_scope` can set defaults for its arguments."""

    @functools.wraps(func)
    def with_defaults(*args, **kwargs):
        positional = list(inspect.signature(func).parameters)[: len(args)]
        defaults = _scopes[-1].get(with_defaults, {})
        given = {name for name in defaults if name in positional}
        return func(*args, **{name: value for name, value in defaults.items() if name not in given} | kwargs)

    _scoped.add(with_defaults)
    return with_defaults


_scoped: set = set()


@contextlib.contextmanager
def arg_scope(list_ops_or_scope, **kwargs):
    """Sets default arguments of functions inside the block, or restores those of an earlier scope."""
    if isinstance(list_ops_or_scope, dict):
        if kwargs:
            raise ValueError("When attempting to re-use a scope by suppling a dictionary, kwargs must be empty.")
        scope = dict(list_ops_or_scope)
    else:
        if not isinstance(list_ops_or_scope, (list, tuple)):
            raise TypeError("list_ops_or_scope must either be a list/tuple or reused scope (i.e. dict)")
        scope = dict(_scopes[-1])
        for op in list_ops_or_scope:
            if not has_arg_scope(op):
                raise ValueError(f"{op} is not decorated with @add_arg_scope")
            scope[op] = {**scope.get(op, {}), **kwargs}
    _scopes.append(scope)
    try:
        yield scope
    finally:
        _scopes.pop()


def has_arg_scope(func):
    return func in _scoped


def current_arg_scope():
    return _scopes[-1]


def arg_scoped_arguments(func):
    """Returns the names of the arguments that have a default, which `arg_scope` can set."""
    parameters = inspect.signature(func).parameters.values()
    return tuple(parameter.name for parameter in parameters if parameter.default is not parameter.empty)


# Variables


@add_arg_scope
def variable(
    name,
    shape=None,
    dtype=None,
    initializer=None,
    regularizer=None,
    trainable=True,
    collections=None,
    caching_device=None,
    device=None,
    partitioner=None,
    custom_getter=None,
    use_resource=None,
):
    with tf.device(device or ""):
        return _v1.get_variable(
            name,
            shape,
            dtype,
            initializer,
            regularizer,
            trainable,
            collections,
            caching_device,
            partitioner,
            use_resource=use_resource,
            custom_getter=custom_getter,
        )


@add_arg_scope
def model_variable(name, *args, collections=None, **kwargs):
    """Creates a `variable` that is also in the collection MODEL_VARIABLES."""
    keys = {*(collections or ()), _v1.GraphKeys.GLOBAL_VARIABLES, _v1.GraphKeys.MODEL_VARIABLES}
    return variable(name, *args, collections=sorted(keys), **kwargs)


def add_model_variable(var):
    if var not in _v1.get_collection(_v1.GraphKeys.MODEL_VARIABLES):
        _v1.add_to_collection(_v1.GraphKeys.MODEL_VARIABLES, var)


def get_variables(scope=None, suffix=None, collection=_v1.GraphKeys.GLOBAL_VARIABLES):
    scope = getattr(scope, "name", scope)
    if suffix is not None:
        scope = f"{scope or ''}.*{re.escape(suffix)}"
    return _v1.get_collection(collection, scope)


def get_trainable_variables(scope=None, suffix=None):
    return get_variables(scope, suffix, _v1.GraphKeys.TRAINABLE_VARIABLES)


def get_model_variables(scope=None, suffix=None):
    return get_variables(scope, suffix, _v1.GraphKeys.MODEL_VARIABLES)


def get_variables_by_suffix(suffix, scope=None):
    return get_variables(scope, suffix)


def get_variables_by_name(given_name, scope=None):
    named = re.compile(rf"(?:.*/)?{re.escape(given_name)}")
    return [var for var in get_variables(scope) if named.fullmatch(var.op.name)]


def get_unique_variable(var_op_name):
    found = [var for var in get_variables() if var.op.name == var_op_name]
    if len(found) != 1:
        raise ValueError(f"Variable {var_op_name} does not uniquely identify a variable: found {len(found)}")
    return found[0]


def filter_variables(var_list, include_patterns=None, exclude_patterns=None, reg_search=True):
    """Returns the variables that match an include pattern, or all, except those that match an exclude pattern."""
    find = re.search if reg_search else re.match
    if include_patterns:
        var_list = [var for var in var_list if any(find(pattern, var.op.name) for pattern in include_patterns)]
    if exclude_patterns:
        var_list = [var for var in var_list if not any(find(pattern, var.op.name) for pattern in exclude_patterns)]
    return list(var_list)


def get_variables_to_restore(include=None, exclude=None):
    """Returns the variables in the scopes `include`, or all, except those in the scopes `exclude`."""
    kept = [var for scope in include or [None] for var in get_variables(scope)]
    dropped = {var.op.name for scope in exclude or () for var in get_variables(scope)}
    return [var for var in dict.fromkeys(kept) if var.op.name not in dropped]


# Checkpoints


def assign_from_checkpoint(model_path, var_list, ignore_missing_vars=False):
    """Returns (op that restores the variables, its feed_dict)."""
    feeds, assignments = {}, []
    for var, value in _values(model_path, var_list, ignore_missing_vars):
        placeholder = _v1.placeholder(var.dtype.base_dtype, var.shape)
        feeds[placeholder] = value
        assignments.append(var.assign(placeholder).op)
    return tf.group(*assignments), feeds


def assign_from_checkpoint_fn(model_path, var_list, ignore_missing_vars=False, reshape_variables=False):
    """Returns a function of a session that restores the variables, or None if the checkpoint has none of them."""
    named = _by_name(var_list)
    if ignore_missing_vars:
        there = dict(tf.train.list_variables(model_path))
        for name in named.keys() - there.keys():
            tf.get_logger().warning("Variable %s missing in checkpoint %s", name, model_path)
        named = {name: var for name, var in named.items() if name in there}
        if not named:
            tf.get_logger().warning("No Variables to restore")
            return None
    saver = _v1.train.Saver(named, reshape=reshape_variables)
    return lambda session: saver.restore(session, model_path)


def _by_name(var_list):
    return dict(var_list) if isinstance(var_list, dict) else {var.op.name: var for var in var_list}


def _values(model_path, var_list, ignore_missing_vars):
    reader = tf.train.load_checkpoint(model_path)
    for name, var in _by_name(var_list).items():
        if reader.has_tensor(name):
            yield var, reader.get_tensor(name).reshape(var.shape.as_list())
        elif not ignore_missing_vars:
            raise ValueError(f"Checkpoint is missing variable [{name}]")
