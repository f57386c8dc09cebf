"""Fine-tunes in two phases: first a new head on a frozen backbone, then all layers at a hundredth of the rate.

Run it cell by cell in an editor, or all at once with `python examples/fine_tuning.py`. docs/fine_tuning.md explains the
two phases.
"""

import tf_keras as keras

import estimator_train as et
from estimator_train.app import datasets

IMAGE_SIZE = (224, 224)
EPOCHS = 5

# %% Drawn scans. For your own images, in a directory per class, use datasets.open_dataset("images", "FOLDER").
data = datasets.open_dataset("synthetic_oct")
train_input_fn = data.train_input_fn(image_size=IMAGE_SIZE, batch_size=16, num_epochs=EPOCHS)
eval_input_fn = data.eval_input_fn(image_size=IMAGE_SIZE, batch_size=16)


# %% Fine-tuning pays off with weights="imagenet", which downloads pretrained weights, or with the path of a file.
def build_model(learning_rate, freeze, weights=None):
    backbone = keras.applications.MobileNetV2(
        input_shape=(*IMAGE_SIZE, 3), include_top=False, pooling="avg", weights=weights
    )
    backbone.trainable = not freeze
    images = keras.Input((*IMAGE_SIZE, 3))
    # training=False keeps the pretrained batch statistics in both phases.
    features = backbone(keras.layers.Rescaling(2, -1)(images), training=False)
    outputs = keras.layers.Dense(len(data.class_names), activation="softmax")(features)
    model = keras.Model(images, outputs)
    model.compile(keras.optimizers.Adam(learning_rate), "categorical_crossentropy", metrics=["accuracy"])
    return model


# %% Train only the head.
head = et.model_to_estimator(build_model(1e-3, freeze=True), model_dir="runs/fine_tuning/head")
head.train(train_input_fn)
print(head.evaluate(eval_input_fn))

# %% Train all layers from the weights of the first phase; the optimizer and the global step start over.
whole = et.model_to_estimator(
    build_model(1e-5, freeze=False), model_dir="runs/fine_tuning/whole", warm_start_from="runs/fine_tuning/head"
)
whole.train(train_input_fn)
print(whole.evaluate(eval_input_fn))
