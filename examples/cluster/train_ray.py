"""Trains a Keras model on the workers of a Ray cluster: Ray starts them, and sets TF_CONFIG for each.

python train_ray.py --data-dir FOLDER --model-dir FOLDER --workers 2    (pip install 'ray[train]')
"""

import argparse

from ray.train import FailureConfig, RunConfig, ScalingConfig
from ray.train.tensorflow import TensorflowTrainer


def train(settings):
    """Runs in every worker."""
    import estimator_train as et
    from estimator_train import distribution
    from estimator_train.app import datasets, models

    strategy = distribution.multi_worker()  # before any other use of TensorFlow
    data = datasets.open_dataset("images", settings["data_dir"])
    model = models.build_model("small_cnn", image_size=data.image_size, num_classes=len(data.class_names))
    config = et.RunConfig(
        settings["model_dir"], save_checkpoints_steps=200, train_distribute=strategy, resume_input=True
    )
    estimator = et.model_to_estimator(model, config=config)
    batches = {"image_size": data.image_size, "batch_size": 32}
    estimator.train(data.train_input_fn(**batches, num_epochs=None), max_steps=settings["max_steps"])


parser = argparse.ArgumentParser()
parser.add_argument("--data-dir", required=True, help="shared directory of images, with a folder per class")
parser.add_argument("--model-dir", required=True, help="shared directory")
parser.add_argument("--max-steps", type=int, default=1000)
parser.add_argument("--workers", type=int, default=2)
parser.add_argument("--use-gpu", action="store_true")
args = parser.parse_args()

trainer = TensorflowTrainer(
    train,
    train_loop_config={"data_dir": args.data_dir, "model_dir": args.model_dir, "max_steps": args.max_steps},
    scaling_config=ScalingConfig(num_workers=args.workers, use_gpu=args.use_gpu),
    run_config=RunConfig(failure_config=FailureConfig(max_failures=10)),  # starts all again if one worker is lost
)
trainer.fit()
