"""tf.contrib.rnn: the cells of tf.nn.rnn_cell and the functions of tf.nn that run them."""

import tensorflow as tf

_v1 = tf.compat.v1
_cells = _v1.nn.rnn_cell

BasicLSTMCell = _cells.BasicLSTMCell
BasicRNNCell = _cells.BasicRNNCell
DeviceWrapper = _cells.DeviceWrapper
DropoutWrapper = _cells.DropoutWrapper
GRUCell = _cells.GRUCell
LSTMCell = _cells.LSTMCell
LSTMStateTuple = _cells.LSTMStateTuple
MultiRNNCell = _cells.MultiRNNCell
RNNCell = _cells.RNNCell
ResidualWrapper = _cells.ResidualWrapper
static_bidirectional_rnn = _v1.nn.static_bidirectional_rnn
static_rnn = _v1.nn.static_rnn
static_state_saving_rnn = _v1.nn.static_state_saving_rnn


def LSTMBlockCell(
    num_units, forget_bias=1.0, cell_clip=None, use_peephole=False, dtype=None, reuse=None, name="lstm_cell"
):
    """Returns an LSTMCell, whose variables have the same layout."""
    return LSTMCell(
        num_units,
        use_peepholes=use_peephole,
        cell_clip=_clip(cell_clip),
        forget_bias=forget_bias,
        reuse=reuse,
        name=name,
        dtype=dtype,
    )


def GRUBlockCellV2(num_units=None, reuse=None, name="gru_cell"):
    return GRUCell(num_units, reuse=reuse, name=name)


class LSTMBlockFusedCell:
    """Runs an LSTM over [time, batch, features] inputs; TF 1 used a single op for all steps."""

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
        self._name = name
        self._cell = LSTMBlockCell(num_units, forget_bias, cell_clip, use_peephole, dtype, reuse, name)

    @property
    def num_units(self):
        return self._cell.output_size

    def __call__(self, inputs, initial_state=None, dtype=None, sequence_length=None, scope=None):
        """Returns (outputs [time, batch, num_units], final LSTMStateTuple)."""
        state = None if initial_state is None else LSTMStateTuple(*initial_state)
        dtype = dtype or inputs.dtype if state is None else None
        # Pass the scope on: without it, dynamic_rnn would create the variables below "rnn".
        with _v1.variable_scope(scope or _v1.get_variable_scope()) as entered:
            return _v1.nn.dynamic_rnn(self._cell, inputs, sequence_length, state, dtype, time_major=True, scope=entered)


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
    states_fw, states_bw = [], []
    with _v1.variable_scope(scope or "stack_bidirectional_rnn"):
        for index, (forward, backward, state_fw, state_bw) in enumerate(layers):
            with _v1.variable_scope(f"cell_{index}"):
                outputs, (state_fw, state_bw) = _v1.nn.bidirectional_dynamic_rnn(
                    forward,
                    backward,
                    inputs,
                    sequence_length,
                    state_fw,
                    state_bw,
                    dtype,
                    parallel_iterations,
                    swap_memory,
                    time_major,
                )
            inputs = tf.concat(outputs, 2)
            states_fw.append(state_fw)
            states_bw.append(state_bw)
    return inputs, tuple(states_fw), tuple(states_bw)


def transpose_batch_time(x):
    """Transposes [batch, time, ...] to [time, batch, ...], or back."""
    rank = tf.rank(x)
    transposed = tf.transpose(x, tf.concat([[1, 0], tf.range(2, rank)], 0))
    if x.shape.rank is not None:
        batch, time, *others = x.shape.as_list()
        transposed.set_shape([time, batch, *others])
    return transposed


def _clip(cell_clip):
    """Returns the value for LSTMCell; a block cell takes 0 or a negative value as no clipping."""
    return cell_clip if cell_clip and cell_clip > 0 else None
