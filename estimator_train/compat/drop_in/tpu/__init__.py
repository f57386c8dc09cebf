"""tf.compat.v1.estimator.tpu without TPUs: TPUEstimator(use_tpu=False) on CPUs and GPUs."""

from estimator_train.compat.drop_in.tpu.tpu_config import InputPipelineConfig, RunConfig, TPUConfig
from estimator_train.compat.drop_in.tpu.tpu_estimator import TPUEstimator, TPUEstimatorSpec

__all__ = ["InputPipelineConfig", "RunConfig", "TPUConfig", "TPUEstimator", "TPUEstimatorSpec"]
