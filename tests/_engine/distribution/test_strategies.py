"""Strategies over GPUs and CPU replicas."""

import textwrap
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
import tf_keras as keras
import warm_python

import estimator_train as et
from estimator_train import distribution
from estimator_train._engine import run_config
from estimator_train._engine.distribution import strategies

ROOT = Path(__file__).parents[3]


def test_more_gpus_than_there_are_are_refused_with_what_to_use(monkeypatch):
    monkeypatch.setattr(tf.config, "get_visible_devices", lambda kind: [])
    with pytest.raises(ValueError, match=r"^gpus\(2\): TensorFlow sees 0; use cpu_replicas\(2\) for CPU replicas"):
        distribution.gpus(2)
    monkeypatch.setattr(tf.config, "get_visible_devices", lambda kind: ["gpu"])
    with pytest.raises(ValueError, match=r"sees 1; use gpus\(1\); use cpu_replicas\(2\) for CPU replicas"):
        distribution.gpus(2)


COUNTS = (0, 1, 2, 3, 6, 8)
EACH_CHOICE = """
from estimator_train import distribution, run_config
from estimator_train._engine.distribution import strategies

gpus = tf.config.list_physical_devices("GPU")
for count in (1, 2, 3):
    tf.config.set_visible_devices(gpus, "GPU")
    try:
        if {count_is_split}:
            print(distribution.devices_to_split_over(count), *opened())
        else:
            strategies.show_gpus(count)
            print(count, *opened())
    except ValueError as error:
        print(error)
"""


@pytest.mark.parametrize("there", COUNTS)
def test_chosen_gpus_are_opened_alone_and_their_memory_grows(there, tmp_path):
    lines = on_pretended_gpus(there, EACH_CHOICE.replace("{count_is_split}", "False"), tmp_path)
    for count, line in zip((1, 2, 3), lines, strict=True):
        if count > there:
            assert line.startswith(f"gpus({count}): TensorFlow sees {there}")
        else:
            assert line == f"{count} {','.join(map(str, range(count)))} True"


@pytest.mark.parametrize("there", COUNTS)
def test_models_are_split_over_the_chosen_gpus_alone(there, tmp_path):
    lines = on_pretended_gpus(there, EACH_CHOICE.replace("{count_is_split}", "True"), tmp_path)
    for count, line in zip((1, 2, 3), lines, strict=True):
        if not there:
            assert line.startswith(str([f"CPU:{index}" for index in range(count)]))
        elif count > there:
            assert (
                line == f"devices_to_split_over({count}): TensorFlow sees {there}; use devices_to_split_over({there})"
            )
        else:
            names = [f"GPU:{index}" for index in range(count)]
            assert line == f"{names} {','.join(map(str, range(count)))} True"


@pytest.mark.parametrize("there", [2, 4, 8])
def test_gpus_of_two_gets_as_far_as_the_first_kernel(there, tmp_path):
    code = """
        import tf_keras as keras
        import estimator_train as et
        stop_at_scope()
        from estimator_train import distribution, run_config
        strategy = distribution.gpus(2)
        model = keras.Sequential([keras.layers.Dense(1, input_shape=(1,))])
        model.compile("sgd", "mse")
        estimator = et.model_to_estimator(model, config=et.RunConfig(train_distribute=strategy))
        estimator.train(lambda: tf.data.Dataset.from_tensors(([[1.0]], [[1.0]])))
    """
    assert on_pretended_gpus(there, code, tmp_path) == ["first kernel: GPU:0 GPU:1", "opened: 0,1 True"]


@pytest.mark.slow
@pytest.mark.parametrize("there", COUNTS)
def test_a_worker_opens_the_chosen_gpus_alone(there, tmp_path):
    code = """
        import json, os
        from estimator_train import distribution
        from estimator_train._engine.distribution import strategies
        cluster = {"worker": ["localhost:0"]}
        os.environ["TF_CONFIG"] = json.dumps({"cluster": cluster, "task": {"type": "worker", "index": 0}})
        strategies.check_address = lambda *_: None  # TensorFlow listens at any free port
        try:
            strategy = distribution.multi_worker(2)
            print(*opened(), strategy.extended._communication_options.implementation.name)
        except ValueError as error:
            print(error)
    """
    refused = [f"gpus=2: TensorFlow sees {there}" + "; use gpus=1" * there]
    assert on_pretended_gpus(there, code, tmp_path) == (refused if there < 2 else ["0,1 True NCCL"])


SUMMED_OVER_WORKERS = """
    from estimator_train._engine.distribution.strategies import communication
    for all_reduce in (None, "nccl", "ring", "hierarchical"):
        try:
            print(communication(all_reduce).name)
        except ValueError as error:
            print(error)
"""


@pytest.mark.parametrize("there", COUNTS)
def test_workers_with_gpus_sum_by_nccl_unless_a_ring_is_chosen(there, tmp_path):
    refused = "all_reduce='hierarchical' is for the replicas of one process; workers use nccl or ring"
    no_gpus = "all_reduce='nccl' needs GPUs, and this worker sees none; use ring, or leave it out"
    expected = ["NCCL", "NCCL", "RING", refused] if there else ["RING", no_gpus, "RING", refused]
    assert on_pretended_gpus(there, SUMMED_OVER_WORKERS, tmp_path) == expected


def test_workers_on_parts_of_one_gpu_sum_by_a_ring(tmp_path):
    code = """
        from estimator_train._engine.distribution.strategies import communication
        gpu, = tf.config.list_physical_devices("GPU")
        for parts in (1, 2):
            tf.config.set_logical_device_configuration(gpu, [tf.config.LogicalDeviceConfiguration(1024)] * parts)
            print(communication().name)
    """
    assert on_pretended_gpus(1, code, tmp_path) == ["NCCL", "RING"]


@pytest.mark.slow
@pytest.mark.parametrize("all_reduce", [None, "ring"])
def test_a_worker_without_gpus_sums_by_a_ring(all_reduce, tmp_path):
    code = f"""
        import json, os
        from estimator_train import distribution
        from estimator_train._engine.distribution import strategies
        cluster = {{"worker": ["localhost:0"]}}
        os.environ["TF_CONFIG"] = json.dumps({{"cluster": cluster, "task": {{"type": "worker", "index": 0}}}})
        strategies.check_address = lambda *_: None  # TensorFlow listens at any free port
        print(distribution.multi_worker(all_reduce={all_reduce!r}).extended._communication_options.implementation.name)
    """
    assert on_pretended_gpus(0, code, tmp_path) == ["RING"]


def test_model_fns_over_gpus_sum_by_nccl_and_over_cpus_on_one_device(tmp_path):
    code = """
        from estimator_train._engine.graph.replicas import in_graphs
        for devices in (["GPU:0", "GPU:1"], ["GPU:0", "GPU:1", "GPU:2"], ["CPU:0"]):
            strategy = in_graphs(tf.distribute.MirroredStrategy(devices))
            print(type(strategy.extended._cross_device_ops).__name__, strategy.num_replicas_in_sync)
        chosen = tf.distribute.MirroredStrategy(["GPU:0", "GPU:1"], tf.distribute.HierarchicalCopyAllReduce())
        print(in_graphs(chosen) is chosen)
    """
    lines = on_pretended_gpus(4, code, tmp_path)
    assert lines == ["NcclAllReduce 2", "NcclAllReduce 3", "ReductionToOneDevice 1", "True"]


@pytest.mark.parametrize("there", COUNTS)
def test_strategies_of_contrib_open_the_gpus_that_they_use(there, tmp_path):
    code = """
        from estimator_train.compat.tf1.contrib import distribute
        gpus = tf.config.list_physical_devices("GPU")
        for strategy in (distribute.ParameterServerStrategy, distribute.CollectiveAllReduceStrategy):
            # It would wait for a cluster.
            strategy.__bases__[0].__init__ = lambda self, *how: print(*(each.name for each in how))
            tf.config.set_visible_devices(gpus, "GPU")
            try:
                strategy(num_gpus_per_worker=2)
                print(*opened())
            except ValueError as error:
                print(error)
        try:
            print(*distribute.MirroredStrategy(num_gpus=2).extended.worker_devices)
        except ValueError as error:
            print(error)
    """
    lines = on_pretended_gpus(there, code, tmp_path)
    if there < 2:
        assert lines[:2] == [f"num_gpus_per_worker=2: TensorFlow sees only {there} GPUs"] * 2
        assert lines[2].startswith(f"MirroredStrategy over GPU:0, GPU:1: TensorFlow sees {there} GPUs; ")
    else:
        devices = [f"/job:localhost/replica:0/task:0/device:GPU:{index}" for index in range(2)]
        assert lines == ["", "0,1 False", "NCCL", "0,1 False", " ".join(devices)]


def test_sessions_of_a_model_fn_open_the_visible_gpus_alone(tmp_path):
    code = """
        import estimator_train as et
        from estimator_train._engine.distribution import strategies
        for count in (4, 2, 0):
            if count < 4:
                tf.config.set_visible_devices(tf.config.list_physical_devices("GPU")[:count], "GPU")
                strategies.let_memory_grow()
            config = et.Estimator(lambda features, mode: None, "run").config.session_config
            print(config.gpu_options.visible_device_list, config.gpu_options.allow_growth, dict(config.device_count))
    """
    assert on_pretended_gpus(4, code, tmp_path) == [" False {}", "0,1 True {}", " False {'GPU': 0}"]


def test_the_runtime_uses_the_gpu_options_of_a_session_config(tmp_path):
    code = """
        import estimator_train as et
        session_config = tf.compat.v1.ConfigProto()
        session_config.gpu_options.allow_growth = True
        session_config.gpu_options.visible_device_list = "2,1"
        config = et.RunConfig("run", session_config=session_config)
        assert et.Estimator(lambda features, mode: None, config=config).config.session_config == session_config
        print(*opened())
    """
    assert on_pretended_gpus(4, code, tmp_path) == ["1,2 True"]


def test_gpu_options_that_come_too_late_are_reported(monkeypatch, log_lines):
    def refuse(*_):
        raise RuntimeError("Visible devices cannot be modified after being initialized")

    monkeypatch.setattr(tf.config, "set_visible_devices", refuse)
    options = tf.compat.v1.GPUOptions(visible_device_list="0")
    run_config.use_gpu_options(tf.compat.v1.ConfigProto(gpu_options=options))
    assert "gpu_options of session_config come too late" in "".join(log_lines)


def test_gpus_that_the_program_divided_keep_their_limits(tmp_path):
    code = """
        from estimator_train._engine.distribution import strategies
        gpus = tf.config.list_physical_devices("GPU")
        tf.config.set_logical_device_configuration(gpus[0], [tf.config.LogicalDeviceConfiguration(1024)] * 2)
        strategies.show_gpus(1)
        print(*opened())
    """
    assert on_pretended_gpus(2, code, tmp_path) == ["0 False"]


def test_gpus_that_tensorflow_has_opened_are_used_as_they_are(monkeypatch):
    def refuse(*_):
        raise RuntimeError("Visible devices cannot be modified after being initialized")

    monkeypatch.setattr(tf.config, "get_visible_devices", lambda kind: ["first", "second"])
    monkeypatch.setattr(tf.config, "set_visible_devices", refuse)
    monkeypatch.setattr(tf.config, "list_logical_devices", lambda kind: ["first", "second"])
    strategies.show_gpus(2)
    monkeypatch.setattr(tf.config, "list_logical_devices", lambda kind: ["first"])
    with pytest.raises(ValueError, match=r"gpus\(2\): TensorFlow has already started with 1 GPUs"):
        strategies.show_gpus(2)


def test_replicas_asked_for_too_late_are_refused_with_what_to_do():
    tf.zeros([])  # starts TensorFlow, which has three devices in the tests
    with pytest.raises(
        RuntimeError, match="4 logical CPU devices must be created before TensorFlow is used; it has st"
    ):
        distribution.cpu_replicas(4)


def on_pretended_gpus(count, code, folder):
    """Returns the lines that `code` prints on a machine with that many pretended GPUs."""
    arguments = ["-m", "tests.helpers.pretended_gpus", count, textwrap.dedent(code)]
    done = warm_python.run(arguments, folder, cwd=ROOT)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.splitlines()


def test_the_reduction_over_replicas_can_be_chosen():
    kinds = {"hierarchical": tf.distribute.HierarchicalCopyAllReduce, "one_device": tf.distribute.ReductionToOneDevice}
    for name, kind in kinds.items():
        strategy = distribution.cpu_replicas(2, all_reduce=name)
        assert isinstance(strategy.extended._get_cross_device_ops(tf.zeros([])), kind)
        total = strategy.run(lambda: tf.distribute.get_replica_context().all_reduce("sum", tf.constant(1.0)))
        assert [float(each) for each in strategy.experimental_local_results(total)] == [2, 2]
    with pytest.raises(ValueError, match="all_reduce='nccl' needs GPUs"):
        distribution.cpu_replicas(2, all_reduce="nccl")
    with pytest.raises(ValueError, match="all_reduce='ring' is for TF_CONFIG's workers; use nccl, hierarchical, one_"):
        distribution.cpu_replicas(2, all_reduce="ring")


def test_hierarchical_sums_over_an_odd_number_of_replicas_are_refused():
    with pytest.raises(ValueError, match="all_reduce='hierarchical' needs an even number of replicas, not 3"):
        distribution.cpu_replicas(3, all_reduce="hierarchical")


def test_without_gpus_a_model_is_split_over_logical_cpus():
    assert distribution.devices_to_split_over(3) == ["CPU:0", "CPU:1", "CPU:2"]


@pytest.mark.gpu(2)
def test_nccl_sums_over_gpus_where_it_is_chosen(gpus):
    strategy = gpus(2, all_reduce="nccl")

    @tf.function
    def total():
        return strategy.run(lambda: tf.distribute.get_replica_context().all_reduce("sum", tf.ones([3])))

    assert "NcclAllReduce" in {op.type for op in total.get_concrete_function().graph.get_operations()}
    for of_replica in strategy.experimental_local_results(total()):
        np.testing.assert_array_equal(of_replica, [2, 2, 2])


@pytest.mark.gpu(2)
@pytest.mark.parametrize("all_reduce", [None, "nccl", "hierarchical"])
def test_two_gpus_train_as_one_does_with_twice_the_batch(all_reduce, gpus, classifier, data, batches, tmp_path):
    def predictions(strategy, batch_size):
        keras.utils.set_random_seed(7)
        config = et.RunConfig(tmp_path / str(batch_size), train_distribute=strategy)
        estimator = et.model_to_estimator(classifier(), config=config)
        estimator.train(batches(data, batch_size, 2))
        assert estimator.get_variable_value("global_step") == 24
        return [list(prediction.values()) for prediction in estimator.predict(batches(data, 32))]

    on_two = predictions(gpus(2, all_reduce=all_reduce), 8 // 2)
    np.testing.assert_allclose(on_two, predictions(gpus(1), 8), atol=1e-5)
    assert tf.config.experimental.get_memory_info("GPU:1")["peak"] > 0
