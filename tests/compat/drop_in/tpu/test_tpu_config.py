import numpy as np
import pytest

from estimator_train.compat.drop_in.tpu import InputPipelineConfig, RunConfig, TPUConfig


def test_the_run_config_has_a_tpu_config_and_all_that_run_config_has(tmp_path):
    config = RunConfig(TPUConfig(iterations_per_loop=7), master="grpc://a", model_dir=tmp_path, tf_random_seed=3)
    assert (config.master, config.evaluation_master, config.cluster) == ("grpc://a", "grpc://a", None)
    changed = config.replace(tpu_config=TPUConfig(num_shards=8), save_checkpoints_steps=5)
    assert (changed.tpu_config.num_shards, changed.save_checkpoints_steps, changed.master) == (8, 5, "grpc://a")
    assert config.tpu_config.iterations_per_loop == 7 and changed.tf_random_seed == 3
    assert (RunConfig().master, RunConfig().evaluation_master, RunConfig().tpu_config) == ("", "", TPUConfig())
    with pytest.raises(ValueError, match="Replacing master is not supported"):
        config.replace(master="")


def test_tpu_config_checks_its_numbers():
    assert TPUConfig(iterations_per_loop="5m").iterations_per_loop == "5m"
    assert TPUConfig(iterations_per_loop=np.int64(5)).iterations_per_loop == 5
    assert TPUConfig(per_host_input_for_training=False)[3] == InputPipelineConfig.PER_SHARD_V1
    for wrong in ({"iterations_per_loop": 0}, {"iterations_per_loop": "m"}, {"num_shards": 0},
                  {"num_cores_per_replica": 3}, {"initial_infeed_sleep_secs": -1}):  # fmt: skip
        with pytest.raises(ValueError, match=next(iter(wrong))):
            TPUConfig(**wrong)
