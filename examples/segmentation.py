"""Finds the ruled lines of tables with a U-Net that is fed by a Python generator.

Run it cell by cell in an editor, or all at once with `python examples/segmentation.py`. The same without code:
`estimator_train --recipe segmentation --image-size 128`.
"""

import tf_keras as keras

import estimator_train as et
from estimator_train.app.datasets import drawn_tables, masked_images
from estimator_train.app.recipes import segmentation

IMAGE_SIZE, BATCH_SIZE, EPOCHS = (128, 128), 8, 4

# %% The data: drawn pages, and masks of the lines between rows and between columns; every fifth page is held out.
folder = drawn_tables.directory()
samples, eval_samples = masked_images.split(masked_images.list_samples(folder, segmentation.MASKS))
print(f"{len(samples)} pages to train on, {len(eval_samples)} to evaluate on, in {folder}")

# %% The generator yields a page, rotated, flipped and scaled differently every epoch, and its two masks.
for epoch in range(2):
    page, masks = next(masked_images.examples(samples, IMAGE_SIZE, seed=0, epoch=epoch))
    print(page.shape, masks.shape, f"{masks.mean():.0%} of the pixels are lines")

# %% The input_fns. The generator runs in two worker processes, which do not import TensorFlow.
train_input_fn = segmentation.training_images(samples, IMAGE_SIZE, BATCH_SIZE, workers=2)
eval_input_fn = segmentation.evaluation_images(eval_samples, IMAGE_SIZE, BATCH_SIZE)

# %% The model, which can be any compiled one.
keras.utils.set_random_seed(0)
model = segmentation.build_model(IMAGE_SIZE)
model.summary()

# %% The Estimator, evaluated after every epoch. Run this cell again to continue from the last checkpoint.
estimator = et.model_to_estimator(model, model_dir="runs/segmentation_script")
steps_per_epoch = -(-len(samples) // BATCH_SIZE)
timing = et.TimingHook()
train_spec = et.TrainSpec(train_input_fn, EPOCHS * steps_per_epoch, hooks=[timing, et.ProgressHook()])
eval_spec = et.EvalSpec(eval_input_fn, None, exporters=et.BestCheckpointExporter(), every_steps=steps_per_epoch)
metrics, _ = et.train_and_evaluate(estimator, train_spec, eval_spec)
print(metrics, f"left out: {train_input_fn.skipped}", timing.summary())

# %% Predict the masks of a held-out page.
prediction = next(estimator.predict(eval_input_fn))["masks"]
print([f"{name}: {mask.mean():.1%} of the page" for name, mask in zip(segmentation.MASKS, prediction.T, strict=True)])
