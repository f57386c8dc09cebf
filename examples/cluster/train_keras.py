"""Trains a Keras model on images, as a process of a TF_CONFIG cluster of synchronous workers, or on its own.

python train_keras.py --data-dir FOLDER --model-dir FOLDER --max-steps 1000
"""

import argparse

import estimator_train as et
from estimator_train import distribution, input_fns
from estimator_train.app import datasets, models

import tensorflow as tf  # isort: skip  (tf.keras is Keras 2 only after importing estimator_train)

parser = argparse.ArgumentParser()
parser.add_argument("--data-dir", required=True, help="shared directory; images are drawn into it if empty")
parser.add_argument("--model-dir", required=True, help="shared directory")
parser.add_argument("--max-steps", type=int, default=1000)
parser.add_argument("--save-checkpoints-steps", type=int, default=200)
parser.add_argument("--service", help="grpc://host:port of a tf.data service that decodes the images")
args = parser.parse_args()

tf.get_logger().setLevel("INFO")
strategy = distribution.multi_worker()
data = datasets.open_dataset("synthetic_oct", args.data_dir)
images = {"labels": data.class_names, "image_size": data.image_size, "service": args.service}
train_input_fn = input_fns.image_files(data.train.paths, shuffle=True, batch_size=32, **images)
eval_input_fn = input_fns.image_files(data.eval.paths, num_epochs=1, **images)

model = models.build_model("small_cnn", image_size=data.image_size, num_classes=len(data.class_names))
config = et.RunConfig(
    args.model_dir,
    save_checkpoints_steps=args.save_checkpoints_steps,
    train_distribute=strategy,
    resume_input=not args.service,  # restarted pods go on with the next image; a service has no fixed order
)
estimator = et.model_to_estimator(model, config=config)
train_spec = et.TrainSpec(train_input_fn, max_steps=args.max_steps)
eval_spec = et.EvalSpec(eval_input_fn, steps=None, start_delay_secs=0, throttle_secs=0)
et.train_and_evaluate(estimator, train_spec, eval_spec)
