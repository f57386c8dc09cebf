"""tf.contrib.opt: decoupled weight decay, Adam for sparse gradients, and averages of the trained variables."""

import tensorflow as tf

_v1 = tf.compat.v1


class DecoupledWeightDecayExtension:
    """A mixin for a tf.train optimizer: each step first subtracts weight_decay * variable (Loshchilov & Hutter 2019).

    The learning rate does not scale the decay. A sparse gradient decays its rows only.
    """

    def __init__(self, weight_decay, *arguments, **options):
        self._weight_decay = weight_decay
        self._names_to_decay = None
        super().__init__(*arguments, **options)

    def minimize(self, loss, *arguments, decay_var_list=None, **options):
        """Like the optimizer's; decays the variables in `decay_var_list`, or all that are trained."""
        self._choose(decay_var_list)
        return super().minimize(loss, *arguments, **options)

    def apply_gradients(self, grads_and_vars, global_step=None, name=None, decay_var_list=None):
        """Like the optimizer's; decays the variables in `decay_var_list`, or all that have a gradient."""
        self._choose(decay_var_list)
        return super().apply_gradients(grads_and_vars, global_step, name)

    # tf.train.Optimizer calls these, for variables of either kind and gradients of either kind.
    def _apply_dense(self, grad, var):
        with tf.control_dependencies(self._decays(var, grad)):
            return super()._apply_dense(grad, var)

    def _resource_apply_dense(self, grad, var):
        with tf.control_dependencies(self._decays(var, grad)):
            return super()._resource_apply_dense(grad, var)

    def _apply_sparse(self, grad, var):
        with tf.control_dependencies(self._decays(var, grad.values, grad.indices)):
            return super()._apply_sparse(grad, var)

    def _resource_apply_sparse(self, grad, var, indices):
        with tf.control_dependencies(self._decays(var, grad, indices)):
            return super()._resource_apply_sparse(grad, var, indices)

    def _choose(self, variables):
        if variables:
            self._names_to_decay = {variable.op.name for variable in variables}

    def _decays(self, var, grad, indices=None):
        """Returns a list of the op that decays the variable, or its rows `indices`; empty if it does not decay."""
        if self._names_to_decay is not None and var.op.name not in self._names_to_decay:
            return []
        decay = tf.cast(self._weight_decay, var.dtype.base_dtype)
        with tf.control_dependencies([grad]):  # else the gradient may be that of the decayed weights, and often was
            if indices is None:
                return [_v1.assign_sub(var, decay * var)]
            return [_v1.scatter_sub(var, indices, decay * tf.gather(var, indices))]


def extend_with_decoupled_weight_decay(base_optimizer):
    """Returns a subclass of a tf.train optimizer whose first argument is weight_decay."""

    class OptimizerWithDecoupledWeightDecay(DecoupledWeightDecayExtension, base_optimizer):
        pass

    return OptimizerWithDecoupledWeightDecay


class AdamWOptimizer(DecoupledWeightDecayExtension, tf.compat.v1.train.AdamOptimizer):
    def __init__(
        self, weight_decay, learning_rate=0.001, beta1=0.9, beta2=0.999, epsilon=1e-8, use_locking=False, name="AdamW"
    ):
        super().__init__(weight_decay, learning_rate, beta1, beta2, epsilon, use_locking, name)


class MomentumWOptimizer(DecoupledWeightDecayExtension, tf.compat.v1.train.MomentumOptimizer):
    def __init__(self, weight_decay, learning_rate, momentum, use_locking=False, name="MomentumW", use_nesterov=False):
        super().__init__(weight_decay, learning_rate, momentum, use_locking, name, use_nesterov)


class LazyAdamOptimizer(tf.compat.v1.train.AdamOptimizer):
    """Adam that leaves the moments of rows alone for which a sparse gradient has no values."""

    def __init__(self, learning_rate=0.001, beta1=0.9, beta2=0.999, epsilon=1e-8, use_locking=False, name="Adam"):
        super().__init__(learning_rate, beta1, beta2, epsilon, use_locking, name)
        self._settings = learning_rate, beta1, beta2, epsilon

    def _apply_sparse(self, grad, var):
        return self._update_rows(var, grad.indices, grad.values)

    def _resource_apply_sparse(self, grad, var, indices):
        return self._update_rows(var, indices, grad)

    def _update_rows(self, var, indices, grad):
        rate, beta1, beta2, epsilon, beta1_power, beta2_power = (
            tf.cast(value() if callable(value) else value, var.dtype.base_dtype)
            for value in (*self._settings, self._power("beta1_power"), self._power("beta2_power"))
        )
        slots = self.get_slot(var, "m"), self.get_slot(var, "v")
        m = beta1 * tf.gather(slots[0], indices) + (1 - beta1) * grad
        v = beta2 * tf.gather(slots[1], indices) + (1 - beta2) * tf.square(grad)
        step = rate * tf.sqrt(1 - beta2_power) / (1 - beta1_power) * m / (tf.sqrt(v) + epsilon)
        return tf.group(
            _v1.scatter_update(slots[0], indices, m),
            _v1.scatter_update(slots[1], indices, v),
            _v1.scatter_sub(var, indices, step),
        )

    def _power(self, name):
        """Returns the variable of AdamOptimizer that counts the powers of a beta."""
        found = [each for each in self.variables() if each.op.name.rpartition("/")[2].startswith(name)]
        return found[0].read_value()


class LARSOptimizer(tf.compat.v1.train.MomentumOptimizer):
    """Momentum with a learning rate for each variable, by the norms of its weights and gradient (You et al. 2017).

    The rate is multiplied by eeta * |w| / (|g| + weight_decay * |w| + epsilon), and weight_decay * w is added to the
    gradient. Variables whose names contain an entry of `skip_list`, and sparse gradients, get neither.
    """

    def __init__(
        self,
        learning_rate,
        momentum=0.9,
        weight_decay=0.0001,
        eeta=0.001,
        epsilon=0.0,
        name="LARSOptimizer",
        skip_list=None,
        use_nesterov=False,
    ):
        if momentum < 0:
            raise ValueError(f"momentum should be positive: {momentum}")
        super().__init__(learning_rate, momentum, name=name, use_nesterov=use_nesterov)
        self._weight_decay, self._eeta, self._epsilon = weight_decay, eeta, epsilon
        self._skip_list = skip_list or ()

    def compute_lr(self, grad, var):
        """Returns (learning rate of the variable, gradient with weight decay)."""
        rate = tf.convert_to_tensor(self._learning_rate_tensor)
        if any(part in var.name for part in self._skip_list):
            return rate, grad
        weights, gradient = tf.norm(var), tf.norm(grad)
        ratio = self._eeta * weights / (gradient + self._weight_decay * weights + self._epsilon)
        trust = tf.where((weights > 0) & (gradient > 0), ratio, tf.ones_like(ratio))
        return rate * trust, grad + self._weight_decay * var

    def _apply_dense(self, grad, var):
        return self._apply(super()._apply_dense, grad, var)

    def _resource_apply_dense(self, grad, var):
        return self._apply(super()._resource_apply_dense, grad, var)

    def _apply(self, apply, grad, var):
        """Lets the momentum add up gradients that have been multiplied by the rate of their step, as 1.15 did."""
        rate, grad = self.compute_lr(grad, var)
        whole_rate = self._learning_rate_tensor
        self._learning_rate_tensor = tf.ones([])
        try:
            return apply(rate * grad, var)
        finally:
            self._learning_rate_tensor = whole_rate


class _WrappingOptimizer(tf.compat.v1.train.Optimizer):
    """Leaves to another optimizer what a subclass does not change."""

    def __init__(self, optimizer, name):
        super().__init__(use_locking=False, name=name)
        self._wrapped = optimizer

    def compute_gradients(self, *arguments, **options):
        return self._wrapped.compute_gradients(*arguments, **options)

    def get_slot(self, var, name):
        return self._wrapped.get_slot(var, name)

    def get_slot_names(self):
        return self._wrapped.get_slot_names()

    def variables(self):
        return self._wrapped.variables()


class MovingAverageOptimizer(_WrappingOptimizer):
    """Wraps an optimizer and averages the variables that it trains; `swapping_saver` saves the averages instead."""

    def __init__(self, opt, average_decay=0.9999, num_updates=None, sequential_update=True):
        super().__init__(opt, name="MovingAverageOptimizer")
        self._averages = tf.train.ExponentialMovingAverage(average_decay, num_updates)
        self._sequential_update = sequential_update
        self._averaged = None

    def apply_gradients(self, grads_and_vars, global_step=None, name=None):
        grads_and_vars = list(grads_and_vars)
        train_op = self._wrapped.apply_gradients(grads_and_vars, global_step, name)
        self._averaged = [variable for gradient, variable in grads_and_vars if gradient is not None]
        with tf.control_dependencies([train_op] if self._sequential_update else []):
            average_op = self._averages.apply(self._averaged)
        return tf.group(train_op, average_op, name="train_with_avg")

    def swapping_saver(self, var_list=None, name="swapping_saver", **options):
        """Returns a tf.train.Saver that exchanges the names of the trained variables and of their averages."""
        if self._averaged is None:
            raise RuntimeError("call apply_gradients or minimize before swapping_saver: they create the averages")
        variables = var_list if isinstance(var_list, dict) else _by_name(var_list or _v1.global_variables())
        pairs = [(variable, self._averages.average(variable)) for variable in self._averaged]
        others = _by_name(variable for variable, _ in pairs)
        swaps = {average.op.name: others[variable.op.name] for variable, average in pairs}
        swaps |= {variable.op.name: average for variable, average in pairs}
        swapped = {key: swaps.get(variable.op.name, variable) for key, variable in variables.items()}
        return _v1.train.Saver(swapped, name=name, **options)


def _by_name(variables):
    return {variable.op.name: variable for variable in variables}
