"""Classifies retinal OCT scans into four classes with a fine-tuned VGG16.

Run it cell by cell in an editor, or all at once with `python examples/oct2017.py`. The same without code:
`estimator_train --dataset oct2017 --split patient --gpus 2`.
"""

import numpy as np
import tensorflow as tf

import estimator_train as et
from estimator_train import distribution, input_fns
from estimator_train.app import datasets, models
from estimator_train.app.metrics import classification

MAX_STEPS = 2000

# %% All available GPUs, chosen before TensorFlow opens them.
num_gpus = len(tf.config.list_physical_devices("GPU"))
strategy = distribution.gpus(num_gpus) if num_gpus > 1 else None

# %% The data, downloaded from Kaggle on first use, which needs a token; open_dataset("oct2017", FOLDER) uses a copy.
# The published test images share patients with the training images; this split does not.
data = datasets.open_dataset("oct2017", split="patient")
for class_name, number in data.class_counts()["train"].items():
    print(f"{class_name:<8} {number} to train on, {data.class_counts()['eval'][class_name]} to evaluate on")

train_input_fn = data.train_input_fn(image_size=data.image_size, batch_size=16, num_epochs=None)
eval_input_fn = data.eval_input_fn(image_size=data.image_size, batch_size=16)

# %% The model: ImageNet's convolutions, whose last block is trained, and a new softmax layer.
model = models.build_model("vgg16", image_size=data.image_size, num_classes=len(data.class_names))
model.summary()

# %% The Estimator. The batch is per replica: two GPUs make steps of 32 images.
config = et.RunConfig("runs/oct2017_script", train_distribute=strategy, eval_distribute=strategy, resume_input=True)
estimator = et.model_to_estimator(model, config=config)

# %% Train, with an evaluation every 500 steps. Run this cell again to continue from the last checkpoint.
timing = et.TimingHook(estimator.model_dir)
train_spec = et.TrainSpec(train_input_fn, MAX_STEPS, hooks=[timing, et.ProgressHook()])
eval_spec = et.EvalSpec(eval_input_fn, steps=None, every_steps=500, exporters=et.BestCheckpointExporter())
metrics, _ = et.train_and_evaluate(estimator, train_spec, eval_spec)
print(metrics, timing.summary())

# %% The metrics of each class. Predictions and labels are both in the order of the images.
probabilities = np.stack([next(iter(each.values())) for each in estimator.predict(eval_input_fn)])
labels = np.concatenate([labels.argmax(axis=1) for _, labels in eval_input_fn().as_numpy_iterator()])
result = classification.result(data.class_names, labels, probabilities)
print(classification.table(result))

# %% The worst mistake.
paths = sorted(data.eval.paths)
worst = probabilities[np.arange(len(labels)), labels].argmin()
print(f"{paths[worst]} is taken for {data.class_names[probabilities[worst].argmax()]}")

# %% Predict new scans with any input_fn of images, here the same image again.
scan_input_fn = input_fns.image_files(paths[worst], data.class_names, image_size=data.image_size, num_epochs=1)
print(next(estimator.predict(scan_input_fn)))
