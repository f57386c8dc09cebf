"""The fused cells of tf.contrib.rnn: their names, and their values under checkpoints of TensorFlow 1.15.

TensorFlow 1.15.5 (Python 3.7, tensorflow==1.15.5 with protobuf<3.21) ran these tests once with
`rnn = tf.contrib.rnn`, and all pass there; it asks LSTMBlockFusedCell for a dtype if there is no initial state.
"""

import numpy as np
import pytest
import tensorflow as tf

from estimator_train.compat.tf1.contrib_modules import _ContribModule

rnn = _ContribModule("tensorflow.contrib.rnn")
v1 = tf.compat.v1

UNITS, FEATURES, LENGTHS = 2, 3, [5, 1, 3]
random = np.random.RandomState(0)
INPUTS = random.normal(size=(5, 3, FEATURES)).astype(np.float32)  # [time, batch, features]
KERNELS = random.normal(size=(2, FEATURES + UNITS, UNITS * 4)).astype(np.float32)
BIASES = random.normal(size=(2, UNITS * 4)).astype(np.float32)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def lstm(inputs, kernel, bias, cell, output):
    """Returns the outputs [time, units] for inputs [time, features], and the final state (cell, output)."""
    outputs = []
    for step in inputs:
        # TensorFlow 1.15's block cells order the gates: input, new cell, forget, output. forget_bias is 1.
        new, candidate, forget, out = np.split(np.concatenate([step, output]) @ kernel + bias, 4)
        cell = sigmoid(forget + 1) * cell + sigmoid(new) * np.tanh(candidate)
        output = sigmoid(out) * np.tanh(cell)
        outputs.append(output)
    return np.array(outputs), (cell, output)


def both_directions(lengths):
    """The bidirectional layer of a tagger; returns {direction: (outputs, state)}."""
    inputs = v1.placeholder_with_default(INPUTS, [None, None, FEATURES])
    forward, backward = rnn.LSTMBlockFusedCell(UNITS), rnn.LSTMBlockFusedCell(UNITS)
    backward = rnn.TimeReversedFusedRNN(backward)
    return {
        "forward": forward(inputs, dtype=tf.float32, sequence_length=lengths),
        "backward": backward(inputs, dtype=tf.float32, sequence_length=lengths),
    }


def names():
    return [variable.op.name for variable in v1.trainable_variables()]


@pytest.mark.parametrize("lengths", [LENGTHS, None])
def test_a_checkpoint_of_tf1_continues_in_both_directions(lengths, tmp_path):
    old = {}
    with tf.Graph().as_default(), v1.Session() as session:
        # What TensorFlow 1.15 wrote for the two cells of both_directions.
        for index, cell in enumerate(("lstm_fused_cell", "lstm_fused_cell_1")):
            old[f"{cell}/kernel"] = v1.get_variable(f"{cell}/kernel", initializer=KERNELS[index])
            old[f"{cell}/bias"] = v1.get_variable(f"{cell}/bias", initializer=BIASES[index])
        session.run(v1.global_variables_initializer())
        checkpoint = v1.train.Saver().save(session, str(tmp_path / "model.ckpt"))
    made = both_directions(lengths)
    assert sorted(names()) == sorted(old)
    with v1.Session() as session:
        v1.train.Saver().restore(session, checkpoint)
        found = session.run(made)
    for row, length in enumerate(lengths or [5] * 3):
        inputs, zeros = INPUTS[:length, row], np.zeros(UNITS)
        for index, (direction, turn) in enumerate((("forward", 1), ("backward", -1))):
            outputs, (cell, output) = lstm(inputs[::turn], KERNELS[index], BIASES[index], zeros, zeros)
            its_outputs, its_state = found[direction]
            np.testing.assert_allclose(its_outputs[:length, row], outputs[::turn], atol=1e-6)
            assert not its_outputs[length:, row].any()
            np.testing.assert_allclose(its_state.c[row], cell, atol=1e-6)
            np.testing.assert_allclose(its_state.h[row], output, atol=1e-6)


def test_each_cell_has_a_name_of_its_own_and_keeps_it():
    inputs = tf.constant(INPUTS)
    with v1.variable_scope("encoder"):
        cells = [rnn.LSTMBlockFusedCell(UNITS) for _ in range(2)]
        for cell in [*cells, cells[0]]:
            cell(inputs)
        rnn.LSTMBlockFusedCell(UNITS, name="other", use_peephole=True)(inputs)
        rnn.TimeReversedFusedRNN(rnn.LSTMBlockFusedCell(UNITS))(inputs, scope="named")
    assert names() == [
        *(f"encoder/lstm_fused_cell{end}/{part}" for end in ("", "_1") for part in ("kernel", "bias")),
        *(f"encoder/other/{part}" for part in ("kernel", "bias", "w_i_diag", "w_f_diag", "w_o_diag")),
        *(f"encoder/named/{part}" for part in ("kernel", "bias")),
    ]


def test_a_state_is_continued_and_the_cell_is_clipped(run):
    state = tuple(random.normal(size=(2, 3, UNITS)).astype(np.float32))
    with v1.variable_scope("both", initializer=v1.constant_initializer(0.3)):
        outputs, last = rnn.LSTMBlockFusedCell(UNITS, forget_bias=0.5)(INPUTS, initial_state=state)
        _, clipped = rnn.LSTMBlockFusedCell(UNITS, cell_clip=0.1)(INPUTS, initial_state=state)
    (outputs, last), clipped = run([(outputs, last), clipped])
    kernel, bias = np.full_like(KERNELS[0], 0.3), np.zeros(UNITS * 4)
    bias[UNITS * 2 : UNITS * 3] = -0.5  # lstm() adds a forget_bias of 1
    expected, (cell, _) = lstm(INPUTS[:, 1], kernel, bias, state[0][1], state[1][1])
    np.testing.assert_allclose(outputs[:, 1], expected, atol=1e-6)
    np.testing.assert_allclose(last.c[1], cell, atol=1e-6)
    assert np.abs(last.c).max() > 0.1 == pytest.approx(np.abs(clipped.c).max())


def test_the_gradient_goes_through_both_directions(run):
    with v1.variable_scope("gradients", initializer=v1.constant_initializer(0.3)):
        made = both_directions(LENGTHS)
    loss = sum(tf.reduce_sum(outputs) for outputs, _ in made.values())
    gradients = run(tf.gradients(loss, v1.trainable_variables()))
    assert len(gradients) == 4 and all(np.abs(gradient).max() > 0 for gradient in gradients)


@pytest.mark.parametrize("use_dynamic_rnn", [True, False])
def test_a_cell_is_adapted_to_a_fused_one(use_dynamic_rnn, run):
    with v1.variable_scope("adapted", initializer=v1.constant_initializer(0.3)):
        cell = rnn.FusedRNNCellAdaptor(rnn.BasicLSTMCell(UNITS), use_dynamic_rnn)
        adapted = cell(tf.constant(INPUTS), dtype=tf.float32, sequence_length=LENGTHS)
        fused = rnn.LSTMBlockFusedCell(UNITS)(INPUTS, sequence_length=LENGTHS)
    (outputs, state), (expected, its_state) = run([adapted, fused])
    np.testing.assert_allclose(outputs, expected, atol=1e-6)
    np.testing.assert_allclose(state.c, its_state.c, atol=1e-6)


@pytest.mark.parametrize("layer_norm", [True, False])
def test_an_lstm_with_layer_normalization(layer_norm, run):
    cell = rnn.LayerNormBasicLSTMCell(UNITS, forget_bias=0.5, layer_norm=layer_norm, norm_gain=1.5, norm_shift=0.2)
    inputs = tf.transpose(tf.constant(INPUTS), [1, 0, 2])
    with v1.variable_scope("run", initializer=v1.constant_initializer(KERNELS[0]) if layer_norm else None):
        outputs, state = v1.nn.dynamic_rnn(cell, inputs, dtype=tf.float32)
    norms = [
        f"{gate}/{part}" for gate in ("input", "transform", "forget", "output", "state") for part in ("gamma", "beta")
    ]
    assert names() == [
        f"run/rnn/layer_norm_basic_lstm_cell/{name}" for name in ["kernel", *(norms if layer_norm else ["bias"])]
    ]
    (outputs, state), variables = run([(outputs, state), v1.trainable_variables()])

    def norm(values):  # over the units of an example, as tf.contrib.layers.layer_norm
        if not layer_norm:
            return values
        values = values - values.mean(1, keepdims=True)
        return 1.5 * values / np.sqrt((values**2).mean(1, keepdims=True) + 1e-12) + 0.2

    cell_state, output = np.zeros([3, UNITS]), np.zeros([3, UNITS])
    for index, step in enumerate(INPUTS):
        gates = np.concatenate([step, output], 1) @ variables[0] + (0 if layer_norm else variables[1])
        new, candidate, forget, out = [norm(gate) for gate in np.split(gates, 4, 1)]
        cell_state = norm(cell_state * sigmoid(forget + 0.5) + sigmoid(new) * np.tanh(candidate))
        output = np.tanh(cell_state) * sigmoid(out)
        np.testing.assert_allclose(outputs[:, index], output, atol=1e-5)
    np.testing.assert_allclose(state.c, cell_state, atol=1e-5)


def test_an_lstm_with_layer_normalization_drops_new_values(run):
    cell = rnn.LayerNormBasicLSTMCell(100, layer_norm=False, dropout_keep_prob=0.5, dropout_prob_seed=1)
    _, state = cell(tf.ones([1, 3]), (tf.zeros([1, 100]), tf.zeros([1, 100])))
    assert 20 < np.count_nonzero(run(state.c)) < 80
