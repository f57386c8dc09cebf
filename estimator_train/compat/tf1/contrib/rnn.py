"""tf.contrib.rnn: the cells of tf.nn.rnn_cell and the functions of tf.nn that run them."""

import tensorflow as tf

_v1 = tf.compat.v1
_LSTMStateTuple = _v1.nn.rnn_cell.LSTMStateTuple


def LSTMBlockCell(
    num_units, forget_bias=1.0, cell_clip=None, use_peephole=False, dtype=None, reuse=None, name="lstm_cell"
):
    """Returns an LSTMCell, whose variables have the same layout."""
    options = {"forget_bias": forget_bias, "reuse": reuse, "name": name, "dtype": dtype}
    return _v1.nn.rnn_cell.LSTMCell(num_units, use_peephole, _clip(cell_clip), **options)


def GRUBlockCellV2(num_units=None, reuse=None, name="gru_cell"):
    return _v1.nn.rnn_cell.GRUCell(num_units, reuse=reuse, name=name)


class LSTMBlockFusedCell(tf.compat.v1.layers.Layer):
    """Runs an LSTM over [time, batch, features] inputs with a single op, whose gates are ordered i, c, f, o."""

    def __init__(
        self,
        num_units,
        forget_bias=1.0,
        cell_clip=None,
        use_peephole=False,
        reuse=None,
        dtype=None,
        name="lstm_fused_cell",
    ):
        super().__init__(_reuse=reuse, name=name, dtype=dtype)
        self.num_units = num_units
        self._forget_bias = forget_bias
        self._cell_clip = cell_clip
        self._use_peephole = use_peephole

    def build(self, inputs_shape):
        units = self.num_units
        self._kernel = self.add_weight("kernel", [inputs_shape[2] + units, units * 4])
        self._bias = self.add_weight("bias", [units * 4], initializer=_v1.zeros_initializer())
        if self._use_peephole:
            self._peepholes = [self.add_weight(f"w_{gate}_diag", [units]) for gate in "ifo"]
        super().build(inputs_shape)

    def call(self, inputs, initial_state=None, dtype=None, sequence_length=None):
        """Returns (outputs [time, batch, num_units], final LSTMStateTuple)."""
        time, batch = tf.unstack(tf.shape(inputs)[:2])
        zeros = tf.zeros([batch, self.num_units], inputs.dtype)
        first = _LSTMStateTuple(*initial_state or (zeros, zeros))
        peepholes = self._peepholes if self._use_peephole else [tf.zeros([self.num_units], inputs.dtype)] * 3
        run = tf.raw_ops.BlockLSTM(
            seq_len_max=tf.cast(time if sequence_length is None else tf.reduce_max(sequence_length), tf.int64),
            x=inputs,
            cs_prev=first.c,
            h_prev=first.h,
            w=self._kernel,
            **dict(zip(("wci", "wcf", "wco"), peepholes, strict=True)),
            b=self._bias,
            forget_bias=self._forget_bias,
            cell_clip=_clip(self._cell_clip) or -1,
            use_peephole=self._use_peephole,
        )
        if sequence_length is None:
            return run.h, _LSTMStateTuple(run.cs[-1], run.h[-1])
        # The op goes on after the end of short sequences.
        inside = tf.transpose(tf.sequence_mask(sequence_length, time, inputs.dtype))[:, :, None]
        state = _at(sequence_length, first.c, run.cs), _at(sequence_length, first.h, run.h)
        return run.h * inside, _LSTMStateTuple(*state)


class LayerNormBasicLSTMCell(tf.compat.v1.nn.rnn_cell.RNNCell):
    """An LSTM with layer normalization (Ba et al. 2016) and dropout of the new values (Semeniuta et al. 2016)."""

    def __init__(
        self,
        num_units,
        forget_bias=1.0,
        input_size=None,
        activation=tf.tanh,
        layer_norm=True,
        norm_gain=1.0,
        norm_shift=0.0,
        dropout_keep_prob=1.0,
        dropout_prob_seed=None,
        reuse=None,
    ):
        super().__init__(_reuse=reuse)
        self._num_units = num_units
        self._forget_bias = forget_bias
        self._activation = activation
        self._layer_norm = layer_norm
        self._norm_gain = norm_gain
        self._norm_shift = norm_shift
        self._keep_prob = dropout_keep_prob
        self._seed = dropout_prob_seed

    @property
    def state_size(self):
        return _LSTMStateTuple(self._num_units, self._num_units)

    @property
    def output_size(self):
        return self._num_units

    def call(self, inputs, state):
        """Returns (outputs [batch, num_units], LSTMStateTuple)."""
        gates = tf.split(self._linear(tf.concat([inputs, state[1]], 1)), 4, axis=1)
        names = ("input", "transform", "forget", "output")
        new, candidate, forget, out = [self._norm(gate, name) for gate, name in zip(gates, names, strict=True)]
        candidate = self._activation(candidate)
        if not isinstance(self._keep_prob, float) or self._keep_prob < 1:
            candidate = _v1.nn.dropout(candidate, self._keep_prob, seed=self._seed)
        cell = state[0] * tf.sigmoid(forget + self._forget_bias) + tf.sigmoid(new) * candidate
        cell = self._norm(cell, "state")
        output = self._activation(cell) * tf.sigmoid(out)
        return output, _LSTMStateTuple(cell, output)

    def _linear(self, inputs):
        units = 4 * self._num_units
        outputs = inputs @ _v1.get_variable("kernel", [inputs.shape[-1], units], inputs.dtype)
        if self._layer_norm:
            return outputs  # the normalization has the bias
        return outputs + _v1.get_variable("bias", [units], inputs.dtype)

    def _norm(self, inputs, scope):
        if not self._layer_norm:
            return inputs
        shape, constant = inputs.shape[-1:], _v1.constant_initializer
        with _v1.variable_scope(scope):
            gamma = _v1.get_variable("gamma", shape, inputs.dtype, constant(self._norm_gain))
            beta = _v1.get_variable("beta", shape, inputs.dtype, constant(self._norm_shift))
        mean, variance = tf.nn.moments(inputs, [1], keepdims=True)
        return tf.nn.batch_normalization(inputs, mean, variance, beta, gamma, 1e-12)


class TimeReversedFusedRNN:
    """Runs a fused cell over inputs [time, batch, features] from their end to their start."""

    def __init__(self, cell):
        self._cell = cell

    def __call__(self, inputs, initial_state=None, dtype=None, sequence_length=None, scope=None):
        """Returns (outputs in the order of the inputs, final state, which is the one after the first input)."""
        options = {"initial_state": initial_state, "dtype": dtype, "sequence_length": sequence_length, "scope": scope}
        outputs, state = self._cell(_reversed(inputs, sequence_length), **options)
        return _reversed(outputs, sequence_length), state


class FusedRNNCellAdaptor:
    """Makes a fused cell of an RNNCell, which runs over inputs [time, batch, features]."""

    def __init__(self, cell, use_dynamic_rnn=False):
        self._cell = cell
        self._use_dynamic_rnn = use_dynamic_rnn

    def __call__(self, inputs, initial_state=None, dtype=None, sequence_length=None, scope=None):
        """Returns (outputs [time, batch, units], final state)."""
        options = {"initial_state": initial_state, "dtype": dtype, "sequence_length": sequence_length, "scope": scope}
        if self._use_dynamic_rnn:
            return _v1.nn.dynamic_rnn(self._cell, inputs, time_major=True, **options)
        outputs, state = _v1.nn.static_rnn(self._cell, tf.unstack(inputs), **options)
        return tf.stack(outputs), state


def stack_bidirectional_dynamic_rnn(
    cells_fw,
    cells_bw,
    inputs,
    initial_states_fw=None,
    initial_states_bw=None,
    dtype=None,
    sequence_length=None,
    parallel_iterations=None,
    time_major=False,
    scope=None,
    swap_memory=False,
):
    """Stacks bidirectional RNNs; each layer's input is the concatenated outputs of the previous layer.

    Returns the last layer's outputs [batch, time, features], and the layers' final states as a tuple per direction.
    """
    if not cells_fw or len(cells_fw) != len(cells_bw):
        raise ValueError(f"cells_fw and cells_bw must be lists of the same length, not {cells_fw!r} and {cells_bw!r}")
    none = [None] * len(cells_fw)
    layers = zip(cells_fw, cells_bw, initial_states_fw or none, initial_states_bw or none, strict=True)
    how = dtype, parallel_iterations, swap_memory, time_major
    states = []
    with _v1.variable_scope(scope or "stack_bidirectional_rnn"):
        for index, (forward, backward, *first) in enumerate(layers):
            with _v1.variable_scope(f"cell_{index}"):
                outputs, last = _v1.nn.bidirectional_dynamic_rnn(
                    forward, backward, inputs, sequence_length, *first, *how
                )
            inputs = tf.concat(outputs, 2)
            states.append(last)
    return inputs, *zip(*states, strict=True)


def transpose_batch_time(x):
    """Transposes [batch, time, ...] to [time, batch, ...], or back."""
    rank = tf.rank(x)
    transposed = tf.transpose(x, tf.concat([[1, 0], tf.range(2, rank)], 0))
    if x.shape.rank is not None:
        batch, time, *others = x.shape.as_list()
        transposed.set_shape([time, batch, *others])
    return transposed


def _clip(cell_clip):
    """Returns the value for LSTMCell; block cells take 0 or a negative value as no clipping."""
    return cell_clip if cell_clip and cell_clip > 0 else None


def _at(lengths, first, states):
    """Returns the states [batch, units] after `lengths` of the steps, from those of all steps [time, batch, units]."""
    return tf.gather(tf.transpose(tf.concat([first[None], states], 0), [1, 0, 2]), lengths, batch_dims=1)


def _reversed(inputs, lengths):
    return tf.reverse(inputs, [0]) if lengths is None else tf.reverse_sequence(inputs, lengths, 0, 1)
