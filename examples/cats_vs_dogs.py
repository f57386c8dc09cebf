"""Tells cats from dogs with MobileNetV2, on one device against N: the same training on each, with its speed.

    python examples/cats_vs_dogs.py --image-size 96 --batch-size 16
    python examples/cats_vs_dogs.py --image-size 96 --batch-size 16 --replicas 1 2
    python examples/cats_vs_dogs.py --data-dir FOLDER --weights imagenet --replicas 1 4

FOLDER has train and test, and these have a folder of images for each class, such as cats and dogs. Without one, the
script draws faces. With given weights, only the last layer is trained, and otherwise the whole network.
docs/cats_vs_dogs.md explains the program: copy it, and change what differs for you.

Source: Sandler, Howard, Zhu, Zhmoginov and Chen, "MobileNetV2: Inverted Residuals and Linear Bottlenecks" (2018).
"""

import argparse
import json
import math
import signal
import sys
from pathlib import Path

import numpy as np
import tensorflow as tf
import tf_keras as keras
from PIL import Image

import estimator_train as et
from estimator_train import distribution, input_fns, memory_estimate
from estimator_train.app.datasets import drawn_pets

DRAWN = {"train": 160, "test": 32}  # of each class

# The momentum of batch normalization. With MobileNetV2's own 0.999, the statistics of evaluation take thousands of
# steps to reach those of training: after 50 steps, evaluation still guesses where training is right in 99 % of cases.
MOMENTUM = 0.5


# The data.


def draw_faces(folder):
    for part, number in DRAWN.items():
        for name in drawn_pets.CLASS_NAMES:
            (folder / part / name).mkdir(parents=True, exist_ok=True)
            for index in range(number):
                rng = np.random.default_rng(list(f"{part} {name} {index}".encode()))
                Image.fromarray(drawn_pets.draw_pet(name, (96, 96), rng)).save(folder / part / name / f"{index}.png")


def list_files(folder, part):
    files = sorted(str(path) for path in (folder / part).glob("*/*"))
    if not files:
        sys.exit(f"--data-dir {folder}: there are no images {folder / part}/CLASS/NAME")
    return files


# The model.


def build_model(side, num_classes, weights=None):
    """Returns a compiled model from images (batch, side, side, 3) in [0, 1] to probabilities (batch, num_classes)."""
    base = keras.applications.MobileNetV2((side, side, 3), include_top=False, pooling="avg", weights=weights)
    base.trainable = weights is None  # features of random convolutions are about 1e-13
    for layer in base.layers:
        if isinstance(layer, keras.layers.BatchNormalization):
            layer.momentum = MOMENTUM
    image = keras.Input((side, side, 3), name="image")
    features = keras.layers.Dropout(0.2)(base(keras.layers.Rescaling(2, offset=-1)(image)))
    probabilities = keras.layers.Dense(num_classes, "softmax", dtype="float32", name="probabilities")(features)
    model = keras.Model(image, probabilities, name="cats_vs_dogs")
    model.compile(keras.optimizers.Adam(1e-3), "sparse_categorical_crossentropy", metrics=["accuracy"])
    return model


# The training.


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--model-dir", type=Path, default="runs/cats_vs_dogs", help="where the runs go on [%(default)s]"
    )
    parser.add_argument("--data-dir", type=Path, help="folder of photographs; without it, faces are drawn")
    parser.add_argument("--weights", help="imagenet, or a file of MobileNetV2's weights without its top")
    parser.add_argument("--image-size", type=int, default=224, help="pixels a side, 32 or more [%(default)s]")
    parser.add_argument("--batch-size", type=int, default=64, help="images a step on each replica [%(default)s]")
    parser.add_argument("--epochs", type=int, default=5, help="[%(default)s]")
    parser.add_argument("--seed", type=int, default=0, help="[%(default)s]")
    parser.add_argument("--replicas", type=int, nargs="+", default=[1], help="numbers of devices [%(default)s]")
    flags = parser.parse_args()

    # The devices come first: TensorFlow cannot change them once it has used them. These two ways to add up gradients,
    # unlike TensorFlow's own choice, work with several numbers of replicas in one process.
    has_gpus = bool(tf.config.list_physical_devices("GPU"))
    mirrored, way = (distribution.gpus, "nccl") if has_gpus else (distribution.cpu_replicas, "one_device")
    strategies = {number: mirrored(number, all_reduce=way) for number in sorted(flags.replicas, reverse=True)}

    folder = flags.data_dir or flags.model_dir / "faces"
    if not flags.data_dir:
        draw_faces(folder)
    training, test = list_files(folder, "train"), list_files(folder, "test")
    classes = sorted({Path(file).parent.name for file in training})
    sizes = {"image_size": (flags.image_size, flags.image_size), "batch_size": flags.batch_size, "one_hot": False}
    train_input_fn = input_fns.image_files(training, classes, shuffle=True, seed=flags.seed, **sizes)
    eval_input_fn = input_fns.image_files(test, classes, num_epochs=1, **sizes)

    keras.utils.set_random_seed(flags.seed)
    model = build_model(flags.image_size, len(classes), flags.weights)
    (memory,) = memory_estimate.estimate(model, flags.batch_size)
    free = memory_estimate.HEADROOM * memory.total / 1e6
    print(f"memory: about {memory.total / 1e6:.0f} MB on each device; leave {free:.0f} MB free", flush=True)

    lines = ["replicas  step  accuracy before  after  examples/s"]
    for number in flags.replicas:
        model_dir = flags.model_dir / f"replicas-{number}"
        config = et.RunConfig(
            model_dir,
            tf_random_seed=flags.seed,
            train_distribute=strategies[number],
            eval_distribute=strategies[number],
            resume_input=True,
        )
        estimator = et.model_to_estimator(model, config=config)  # trains a copy: each number begins with these weights
        last_step = flags.epochs * math.ceil(len(training) / (flags.batch_size * number))
        before = estimator.evaluate(eval_input_fn)
        hooks = [et.TimingHook(model_dir), et.ProgressHook()]
        estimator.train(train_input_fn, hooks=hooks, max_steps=last_step)
        after = estimator.evaluate(eval_input_fn)
        speed = json.loads((model_dir / "timing.json").read_text())["examples_per_second"]
        accuracies = f"{before['accuracy']:>15.4f}{after['accuracy']:>7.4f}"
        lines.append(f"{number:>8}{after['global_step']:>6}{accuracies}{speed or math.nan:>12.1f}")
    print("\n".join(lines))


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # the steps done are saved, as after Ctrl-C
    try:
        main()
    except KeyboardInterrupt:
        sys.exit("stopped; the same command continues")
