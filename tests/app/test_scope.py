"""The flags of commands, the datasets and the models: one more, or one less, is a decision; see SCOPE.md."""

import pytest

from estimator_train.app import datasets, models
from estimator_train.app.cli.commands.evaluate import evaluate
from estimator_train.app.cli.commands.predict import predict
from estimator_train.app.cli.commands.train import train

OF_EVALUATE = """
all checkpoint choose-thresholds csv data-dir dataset json model-dir predictions trust-run
"""
OF_PREDICT = "checkpoint csv json model-dir out top trust-run"
OF_TRAIN = """
accumulate-steps all-reduce async-checkpoints augment batch-size cache callbacks class-weights clip-norm config
data-dir dataset deterministic dropout dry-run early-stopping ema epochs eval-input-fn evaluate-every fast
find-learning-rate freeze gpus ignore-orientation image-size input-fn jit-compile keep-best label-smoothing
learning-rate limit log max-steps mixed-precision model model-dir momentum monitor optimizer phases quiet recompute
replicas resize resume save-checkpoints-steps scale-learning-rate schedule seed split steps-per-loop task
trust-run validation verbose warmup-steps weight-decay weights
"""
DATASETS = "cats_vs_dogs fashion_mnist hf images manifest npz oct2017 synthetic_oct tfrecord"
MODELS = """
convnext_base convnext_large convnext_small convnext_tiny convnext_xlarge densenet121 densenet169 densenet201
efficientnet_b0 efficientnet_b1 efficientnet_b2 efficientnet_b3 efficientnet_b4 efficientnet_b5 efficientnet_b6
efficientnet_b7 efficientnet_v2_b0 efficientnet_v2_b1 efficientnet_v2_b2 efficientnet_v2_b3 efficientnet_v2_l
efficientnet_v2_m efficientnet_v2_s fashion_mnist_cnn inception_resnet_v2 inception_v3 mobilenet mobilenet_v2
mobilenet_v3_large mobilenet_v3_small nasnet_large nasnet_mobile regnet_x002 regnet_x004 regnet_x006 regnet_x008
regnet_x016 regnet_x032 regnet_x040 regnet_x064 regnet_x080 regnet_x120 regnet_x160 regnet_x320 regnet_y002
regnet_y004 regnet_y006 regnet_y008 regnet_y016 regnet_y032 regnet_y040 regnet_y064 regnet_y080 regnet_y120
regnet_y160 regnet_y320 resnet101 resnet101_v2 resnet152 resnet152_v2 resnet50 resnet50_v2 resnet_rs101 resnet_rs152
resnet_rs200 resnet_rs270 resnet_rs350 resnet_rs420 resnet_rs50 small_cnn vgg16 vgg19 xception
"""


@pytest.mark.parametrize(("command", "flags"), [(train, OF_TRAIN), (evaluate, OF_EVALUATE), (predict, OF_PREDICT)])
def test_commands_have_these_flags(command, flags):
    options = [option for parameter in command.params for option in parameter.opts if option.startswith("--")]
    assert sorted(options) == [f"--{flag}" for flag in flags.split()]


def test_these_datasets_are_known():
    assert sorted(datasets.NAMES) == DATASETS.split()


def test_these_models_are_known():
    assert sorted(models.NAMES) == MODELS.split()
