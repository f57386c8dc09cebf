"""Smaller modules of tf.contrib in graphs.

TensorFlow 1.15.5 (Python 3.7, tensorflow==1.15.5 with protobuf<3.21) ran these tests once with the modules of its
tf.contrib. All hold there but what is meant to differ: strategies, resolvers and optimizers without their devices,
the datasets, tables and signatures of older versions, and messages.
"""

import numpy as np
import pytest
import tensorflow as tf

import estimator_train as et
from estimator_train.compat.drop_in.tpu import RunConfig
from estimator_train.compat.tf1.contrib import (
    cluster_resolver,
    distribute,
    losses,
    metrics,
    saved_model,
    tpu,
    training,
)
from estimator_train.compat.tf1.contrib_modules import _ContribModule

data, lookup, rnn, summary = (
    _ContribModule(f"tensorflow.contrib.{name}") for name in ("data", "lookup", "rnn", "summary")
)

v1 = tf.compat.v1


def elements(dataset):
    """Returns the elements of a dataset, read by a v1 session."""
    tensor = v1.data.make_one_shot_iterator(dataset).get_next()
    found = []
    with v1.Session() as session:
        try:
            while True:
                found.append(session.run(tensor))
        except tf.errors.OutOfRangeError:
            return found


def test_data_batches():
    numbers = v1.data.Dataset.range(5)
    assert [each.tolist() for each in elements(numbers.apply(data.batch_and_drop_remainder(2)))] == [[0, 1], [2, 3]]
    ragged = numbers.map(lambda number: tf.fill([number], number))
    padded = elements(ragged.apply(data.padded_batch_and_drop_remainder(2, [None])))
    assert [each.shape for each in padded] == [(2, 1), (2, 3)]
    twice = elements(numbers.apply(data.map_and_batch(lambda number: number * 2, 5, num_parallel_batches=2)))
    assert [each.tolist() for each in twice] == [[0, 2, 4, 6, 8]]
    shuffled = elements(numbers.apply(data.shuffle_and_repeat(5, 2, seed=1)).prefetch(None))
    assert sorted(shuffled) == sorted([*range(5)] * 2)


def test_datasets_of_tensorflow_1_3_are_those_of_tf_data(tmp_path):
    for name in ("Dataset", "FixedLengthRecordDataset", "Iterator", "TFRecordDataset", "TextLineDataset"):
        assert getattr(data, name) is getattr(v1.data, name)
    inner = data.sloppy_interleave(lambda number: v1.data.Dataset.from_tensors(number).repeat(2), cycle_length=2)
    assert sorted(elements(data.Dataset.range(3).apply(inner))) == [0, 0, 1, 1, 2, 2]


def test_features_of_files_are_read_as_tensors(tmp_path):
    """Scripts of TensorFlow 1.3 take the labels out of what read_batch_features returns."""
    path = str(tmp_path / "examples")
    with tf.io.TFRecordWriter(path) as writer:
        for label in range(5):
            feature = tf.train.Feature(int64_list=tf.train.Int64List(value=[label]))
            writer.write(tf.train.Example(features=tf.train.Features(feature={"y": feature})).SerializeToString())
    features = {"y": tf.io.FixedLenFeature([], tf.int64)}
    batch = data.read_batch_features(path, 3, features, randomize_input=False, num_epochs=1)
    with v1.Session() as session:
        assert [session.run(batch["y"]).tolist() for _ in range(2)] == [[0, 1, 2], [3, 4]]


def test_losses_take_predictions_first_and_are_collected(run):
    predictions, labels = tf.constant([[1.0, 2.0]]), tf.constant([[0.0, 4.0]])
    loss = losses.mean_squared_error(predictions, labels)
    hot = losses.softmax_cross_entropy(tf.constant([[0.0, 0.0]]), tf.constant([[0, 1]]))
    assert losses.get_losses() == [loss, hot]
    found = run([loss, hot, losses.get_total_loss()])
    assert found == pytest.approx([2.5, np.log(2), 2.5 + np.log(2)])


def test_a_resolver_of_tpus_connects_to_none():
    for tpu_name in ("", None, "my-tpu"):
        resolver = cluster_resolver.TPUClusterResolver(tpu_name, zone="us-central1-b", project="mine")
        config = RunConfig(cluster=resolver)
        assert config.master == config.evaluation_master == resolver.get_master() == "" and config.is_chief
        assert resolver.cluster_spec().as_dict() == {}


def test_tables_from_tensors_and_files(run, tmp_path):
    vocabulary = tmp_path / "words.txt"
    vocabulary.write_text("a\nb\nc\n")
    words = tf.constant(["b", "c", "z"])
    from_tensor = lookup.index_table_from_tensor(["a", "b"])
    from_file = lookup.index_table_from_file(str(vocabulary), num_oov_buckets=1, vocab_size=2)
    plain = lookup.index_table_from_file(str(vocabulary), default_value=7)
    numbers = lookup.index_table_from_tensor([30, 10], dtype=tf.int32)
    back = lookup.index_to_string_table_from_file(str(vocabulary))
    table = lookup.HashTable(lookup.KeyValueTensorInitializer(["a"], [3.5]), -1.0)
    numbers_of, strings_of = tf.constant([10], tf.int64), tf.constant([2, 9], tf.int64)
    found = run(
        [
            from_tensor.lookup(words),
            from_file.lookup(words),
            plain.lookup(words),
            numbers.lookup(numbers_of),
            back.lookup(strings_of),
            table.lookup(tf.constant(["a", "b"])),
            lookup.index_to_string(tf.constant([1], tf.int64), ["x", "y"]),
            lookup.string_to_index(words, ["z"]),
        ]
    )
    assert [each.tolist() for each in found] == [
        [1, -1, -1], [1, 2, 2], [1, 2, 7], [1], [b"c", b"UNK"], [3.5, -1.0], [b"y"], [-1, -1, 0]
    ]  # fmt: skip
    with pytest.raises(ValueError, match="`vocabulary_file` must be specified"):
        lookup.index_table_from_file()
    with pytest.raises(ValueError, match="`vocabulary_list` must be specified"):
        lookup.index_table_from_tensor(None)


def test_a_table_hashes_other_keys_by_its_hasher(run):
    words = tf.constant([f"word {number}" for number in range(20)])
    strong = lookup.StrongHashSpec([5, 7])
    tables = [lookup.index_table_from_tensor(["a"], 9, hasher_spec=spec) for spec in (lookup.FastHashSpec, strong)]
    hashed = [tf.strings.to_hash_bucket_fast(words, 9), tf.strings.to_hash_bucket_strong(words, 9, [5, 7])]
    found = run([[table.lookup(words) for table in tables], hashed])
    assert np.array_equal(found[0], np.add(found[1], 1))
    with v1.Session() as session:
        session.run([table.init for table in (*tables, lookup.index_table_from_tensor(["a"]))])


def test_train_op_clips_multiplies_and_counts():
    weight = v1.get_variable("weight", initializer=[3.0, 4.0])

    def transform(gradients):
        gradients = training.multiply_gradients(gradients, {weight: 2.0})
        return training.clip_gradient_norms_fn(1.0)(gradients)

    loss = tf.reduce_sum(weight * weight) / 2
    optimizer = v1.train.GradientDescentOptimizer(1.0)
    train_op = training.create_train_op(loss, optimizer, transform_grads_fn=transform, summarize_gradients=True)
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        assert session.run(train_op) == 12.5
        value, step = session.run([weight, v1.train.get_global_step()])
        assert value == pytest.approx([2.4, 3.2]) and step == 1
    assert len(v1.get_collection(v1.GraphKeys.SUMMARIES)) == 2


def test_metrics_take_predictions_first():
    predictions, labels = tf.constant([1, 0, 1, 1]), tf.constant([1, 0, 0, 0])
    names_to_values, names_to_updates = metrics.aggregate_metric_map(
        {
            "precision": metrics.streaming_precision(predictions, labels),
            "recall": metrics.streaming_recall(predictions, labels),
            "iou": metrics.streaming_mean_iou(predictions, labels, num_classes=2),
        }
    )
    with v1.Session() as session:
        session.run(v1.local_variables_initializer())
        session.run(names_to_updates)
        found = session.run(names_to_values)
        assert found == pytest.approx({"precision": 1 / 3, "recall": 1.0, "iou": 1 / 3})
        assert session.run(metrics.accuracy(predictions, labels)) == 0.5


def test_rnn_cells_give_what_tf_nn_gives(run):
    inputs = tf.constant(np.random.RandomState(0).normal(size=[5, 2, 3]).astype("float32"))  # [time, batch, features]
    with v1.variable_scope("fused", initializer=v1.random_uniform_initializer(-1, 1, seed=2)):
        outputs, state = rnn.LSTMBlockFusedCell(4)(inputs, dtype=tf.float32, sequence_length=[5, 3])
    with v1.variable_scope("fused", reuse=True):
        cell = rnn.LSTMBlockCell(4, name="lstm_fused_cell")
        scope = v1.get_variable_scope()
        by_batch = rnn.transpose_batch_time(inputs)
        again, last = v1.nn.dynamic_rnn(cell, by_batch, [5, 3], dtype=tf.float32, scope=scope)
    names = {variable.op.name for variable in v1.trainable_variables()}
    assert names == {"fused/lstm_fused_cell/kernel", "fused/lstm_fused_cell/bias"}
    outputs, again, state, last = run([outputs, rnn.transpose_batch_time(again), state, last])
    # The two cells have kernels of their own, which add up in another order on some versions of TensorFlow.
    np.testing.assert_allclose(outputs, again, rtol=1e-5)
    np.testing.assert_allclose(state.h, last.h, rtol=1e-5)


def test_stacked_bidirectional_rnns_see_both_outputs_of_the_layer_below(run):
    inputs = tf.zeros([2, 5, 3])
    cells = [[rnn.GRUCell(4), rnn.GRUCell(6)] for _ in range(2)]
    outputs, forward, backward = rnn.stack_bidirectional_dynamic_rnn(*cells, inputs, dtype=tf.float32)
    assert run([outputs, forward, backward])[0].shape == (2, 5, 12)
    assert [state.shape[-1] for state in forward] == [4, 6] == [state.shape[-1] for state in backward]
    with pytest.raises(ValueError, match="lists of the same length"):
        rnn.stack_bidirectional_dynamic_rnn([], [], inputs)


def test_summaries_are_written_by_ops(tmp_path):
    step = v1.train.get_or_create_global_step()
    writer = summary.create_file_writer(str(tmp_path))
    with writer.as_default(), summary.record_summaries_every_n_global_steps(2):
        summary.scalar("loss", 3.0, family="train")
        with tf.name_scope("scope"):
            summary.scalar("a b", 3.0)
            summary.scalar("loss", 3.0, family="train")
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        with writer.as_default():
            summary.initialize(session=session)
        for _ in range(3):
            session.run(summary.all_summary_ops())
            session.run(step.assign_add(1))
        session.run(writer.close())
    (path,) = tmp_path.glob("*tfevents*")
    found = [(event.step, value.tag) for event in v1.train.summary_iterator(str(path)) for value in event.summary.value]
    tags = ["scope/a_b", "train/scope/train/loss", "train/train/loss"]  # of TensorFlow 1.15.5
    assert sorted(found) == [*((0, tag) for tag in tags), *((2, tag) for tag in tags)]


def test_the_optimizer_of_a_tpu_is_the_one_it_wraps():
    optimizer = v1.train.AdamOptimizer()
    assert tpu.CrossShardOptimizer(optimizer) is optimizer


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"num_gpus": 99}, r"MirroredStrategy over GPU:0.*TensorFlow sees \d+ GPUs; .*--tf1 --replicas 99 uses CPU"),
        ({"num_gpus": 1, "num_gpus_per_worker": 1}, "num_gpus and num_gpus_per_worker mean the same; give one"),
        ({"num_gpus": 1, "devices": ["CPU:0"]}, "devices and num_gpus exclude each other; give one"),
    ],
)
def test_a_strategy_of_too_many_gpus_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        distribute.MirroredStrategy(**arguments)
    with pytest.raises(ValueError, match=r"num_gpus_per_worker=99: TensorFlow sees only \d+ GPUs"):
        distribute.ParameterServerStrategy(num_gpus_per_worker=99)


def test_a_strategy_of_no_gpus_has_one_cpu():
    assert distribute.MirroredStrategy(num_gpus=0).num_replicas_in_sync == 1
    assert isinstance(distribute.AllReduceCrossDeviceOps("hierarchical_copy"), tf.distribute.HierarchicalCopyAllReduce)
    with pytest.raises(ValueError, match="all_reduce_alg='ring': use 'nccl' or 'hierarchical_copy'"):
        distribute.AllReduceCrossDeviceOps("ring")


def test_a_run_config_takes_the_strategies_of_a_distribute_config():
    strategy = distribute.MirroredStrategy(num_gpus=0)
    config = et.RunConfig(experimental_distribute=distribute.DistributeConfig(strategy))
    assert config.train_distribute is strategy and config.eval_distribute is None
    assert distribute.DistributeConfig()._fields == ("train_distribute", "eval_distribute", "remote_cluster")


def test_a_signature_is_found_by_its_key():
    meta_graph = tf.compat.v1.MetaGraphDef()
    meta_graph.signature_def["a"].method_name = "predict"
    assert saved_model.get_signature_def_by_key(meta_graph, "a").method_name == "predict"
    with pytest.raises(ValueError, match=r"No SignatureDef with key 'b'; there are \['a'\]"):
        saved_model.get_signature_def_by_key(meta_graph, "b")
