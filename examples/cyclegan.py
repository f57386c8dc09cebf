"""Turns images of one kind into another and back, such as apples and oranges, with CycleGAN on one device or several.

    python examples/cyclegan.py
    python examples/cyclegan.py --replicas 2
    python examples/cyclegan.py --data-dir apple2orange --image-size 256 --filters 64 --epochs 200

The folder has trainA, trainB, testA and testB, as those of the paper's authors; A is the paper's X, and B its Y.
Without one, the script draws fruit. docs/cyclegan.md explains the program: copy it, and change what differs for you.

Source: Zhu, Park, Isola and Efros, "Unpaired Image-to-Image Translation using Cycle-Consistent Adversarial Networks"
(2017), but without the history of generated images, and with zero padding.
"""

import argparse
import signal
import sys
from pathlib import Path

import numpy as np
import tensorflow as tf
import tf_keras as keras
from PIL import Image

import estimator_train as et
from estimator_train import distribution, input_fns, memory_estimate

PARTS = ("trainA", "trainB", "testA", "testB")
CYCLE_WEIGHT, IDENTITY_WEIGHT = 10.0, 5.0
LOSSES = [f"{name}/{part}" for name in "GF" for part in ("adversarial", "cycle", "identity")]
LOSSES += ["X/judgement", "Y/judgement"]


def read_images(folder, side):
    """Returns {part: images} of a folder, as float32 of shape (number, side, side, 3) in [-1, 1]."""
    images = {}
    for part in PARTS:
        paths = sorted(str(path) for ending in ("jpg", "jpeg", "png") for path in (folder / part).glob(f"*.{ending}"))
        if not paths:
            sys.exit(f"--data-dir {folder}: {folder / part} has no images; it needs {', '.join(PARTS)}")
        batches = input_fns.image_files(paths, [part], (side, side), num_epochs=1)()
        images[part] = 2 * np.concatenate([batch.numpy() for batch, _ in batches]) - 1
    return images


def draw_images(side):
    """Returns {part: images} of striped apples and dotted oranges."""
    rng, images = np.random.default_rng(0), {}
    down, right = np.mgrid[-1 : 1 : side * 1j, -1 : 1 : side * 1j, :1][:2]
    fruits = {
        "A": (0.8 + 0.2 * np.sin(14 * right)) * (0.9, 0.25, 0.2),
        "B": (0.8 + 0.2 * np.sin(18 * down) * np.sin(18 * right)) * (1.0, 0.6, 0.1),
    }
    for part in PARTS:
        number = 96 if part.startswith("train") else 16
        is_fruit = np.hypot(down, right) < rng.uniform(0.4, 0.8, (number, 1, 1, 1))
        drawn = np.where(is_fruit, fruits[part[-1]], rng.uniform(0.6, 0.95, (number, 1, 1, 3)))
        images[part] = np.float32(2 * drawn - 1)
    return images


def pairs(a, b, batch_size, seed):
    """Returns an input_fn over endless batches (x, y), in a new order and with new flips in every epoch.

    A resumed training begins at pair `first` of `epoch`, so that it sees the pairs that the unbroken one would.
    """
    number = min(len(a), len(b))

    def examples(epoch, first):
        rng = np.random.default_rng([seed, epoch])
        order_a, order_b = (rng.permutation(len(images))[:number] for images in (a, b))
        flips_a, flips_b = rng.choice([-1, 1], (2, number))
        for index in range(first, number):
            yield a[order_a[index], :, :: flips_a[index]], b[order_b[index], :, :: flips_b[index]]

    shape = tf.TensorSpec(a.shape[1:])
    return input_fns.generator(
        examples, batch_size=batch_size, num_epochs=None, output_signature=(shape, shape), elements_per_epoch=number
    )


def conv(features, filters, size, strides=1, *, kind=keras.layers.Conv2D, **options):
    initializer = keras.initializers.RandomNormal(stddev=0.02)
    return kind(filters, size, strides, padding="same", kernel_initializer=initializer, **options)(features)


def normalized(features, *sizes, **options):
    """Convolves, then normalizes each channel of each image (Ulyanov, Vedaldi and Lempitsky, 2016)."""
    features = conv(features, *sizes, use_bias=False, **options)
    return keras.layers.GroupNormalization(groups=-1, epsilon=1e-5)(features)


def build_generator(side, filters):
    image = keras.Input((side, side, 3))
    features = keras.layers.ReLU()(normalized(image, filters, 7))
    for level in (1, 2):
        features = keras.layers.ReLU()(normalized(features, filters * 2**level, 3, 2))
    for _ in range(next(blocks for least, blocks in ((256, 9), (128, 6), (64, 3), (0, 1)) if side >= least)):
        residual = keras.layers.ReLU()(normalized(features, filters * 4, 3))
        features = keras.layers.Add()([features, normalized(residual, filters * 4, 3)])
    for level in (1, 0):
        features = normalized(features, filters * 2**level, 3, 2, kind=keras.layers.Conv2DTranspose)
        features = keras.layers.ReLU()(features)
    return keras.Model(image, conv(features, 3, 7, activation="tanh", dtype="float32"))


def build_discriminator(side, filters):
    """Returns a model from images to a logit for each patch: of 70 x 70 pixels, or 34 x 34 in images below 128."""
    levels = 3 if side >= 128 else 2
    image = keras.Input((side, side, 3))
    features = keras.layers.LeakyReLU(0.2)(conv(image, filters, 4, 2))
    for level in range(1, levels + 1):
        strides = 2 if level < levels else 1
        features = keras.layers.LeakyReLU(0.2)(normalized(features, filters * 2**level, 4, strides))
    return keras.Model(image, conv(features, 1, 4, dtype="float32"))


class CycleGAN(keras.Model):
    """Generator G turns x into y, and F turns y into x; discriminator X tells real x from generated, and Y does y.

    All four are in one Keras model, with an optimizer for the generators and one for the discriminators.
    """

    def __init__(self, side, filters):
        super().__init__()
        generators = {name: build_generator(side, filters) for name in "GF"}
        self.networks = generators | {name: build_discriminator(side, filters) for name in "XY"}
        self.means = {name: keras.metrics.Mean(name) for name in ("loss", *LOSSES)}

    def weights_of(self, names):
        return [weight for name in names for weight in self.networks[name].trainable_weights]

    def compile(self, optimizer):
        super().compile(optimizer)  # a dict: Keras tracks both, so that checkpoints have them
        optimizer["generators"].build(self.weights_of("GF"))
        optimizer["discriminators"].build(self.weights_of("XY"))

    def call(self, x):
        generated = self.networks["G"](x)
        return {"x": x, "generated": generated, "cycled": self.networks["F"](generated)}

    def losses_of(self, x, y):
        """Returns {name: values of shape (batch,)}."""
        networks, losses = self.networks, {}
        fake_y, same_y = tf.split(networks["G"](tf.concat([x, y], 0)), 2)
        fake_x, same_x = tf.split(networks["F"](tf.concat([y, x], 0)), 2)
        cycled = {"G": networks["G"](fake_x), "F": networks["F"](fake_y)}
        for name, judge, real, fake, same in (("G", "Y", y, fake_y, same_y), ("F", "X", x, fake_x, same_x)):
            of_real, of_fake = tf.split(networks[judge](tf.concat([real, fake], 0)), 2)
            losses[f"{name}/adversarial"] = (of_fake - 1) ** 2
            losses[f"{name}/cycle"] = CYCLE_WEIGHT * tf.abs(real - cycled[name])
            losses[f"{name}/identity"] = IDENTITY_WEIGHT * tf.abs(real - same)
            losses[f"{judge}/judgement"] = ((of_real - 1) ** 2 + of_fake**2) / 2
        return {name: tf.reduce_mean(values, axis=[1, 2, 3]) for name, values in losses.items()}

    def train_step(self, data):
        with tf.GradientTape(persistent=True) as tape:
            # Means over the batches of all replicas: each replica computes its share, and the gradients are added up.
            means = {name: tf.nn.compute_average_loss(values) for name, values in self.losses_of(*data).items()}
            generators = sum(value for name, value in means.items() if name[0] in "GF")
            discriminators = sum(value for name, value in means.items() if name[0] in "XY")
        for name, loss, networks in (("generators", generators, "GF"), ("discriminators", discriminators, "XY")):
            weights = self.weights_of(networks)
            self.optimizer[name].apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))
        return {"loss": generators + discriminators} | means

    def test_step(self, data):
        losses = self.losses_of(*data)
        for name, values in ({"loss": sum(losses.values())} | losses).items():
            self.means[name].update_state(values)
        return {name: mean.result() for name, mean in self.means.items()}


def build_model(side, filters, learning_rate=2e-4):
    if side < 16 or side % 4:
        sys.exit(f"--image-size {side}: it must be a multiple of 4, and at least 16")
    model = CycleGAN(side, filters)
    model.compile({name: keras.optimizers.Adam(learning_rate, beta_1=0.5) for name in ("generators", "discriminators")})
    return model


class Grid(et.Exporter):
    """Writes x, G(x) and F(G(x)) of some images after every evaluation, as a picture with a row for each."""

    name = "grids"

    def __init__(self, images):
        self.images = images

    def export(self, estimator, export_path, checkpoint_path, eval_result, is_the_final_export):
        input_fn = input_fns.arrays(self.images, batch_size=1)
        rows = [np.hstack(list(each.values())) for each in estimator.predict(input_fn, checkpoint_path=checkpoint_path)]
        path = Path(export_path, f"{eval_result['global_step']:06}.png")
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.uint8(np.vstack(rows) * 127.5 + 127.5)).save(path)
        return str(path)


def say_memory(side, filters, batch_size):
    """Prints what a step is going to take: a generator sees three images for each pair, and a discriminator two."""
    total = 0
    for network, images in ((build_generator(side, filters), 3), (build_discriminator(side, filters), 2)):
        network.compile("adam")
        (memory,) = memory_estimate.estimate(network, images * batch_size)
        total += 2 * memory.total / 1e6
    free = memory_estimate.HEADROOM * total
    print(f"memory: about {total:.0f} MB on each device; leave {free:.0f} MB free", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model-dir", default="runs/cyclegan", help="where the run is, and goes on [%(default)s]")
    parser.add_argument("--data-dir", type=Path, help="folder of images; without it, fruit is drawn")
    parser.add_argument("--image-size", type=int, default=64, help="pixels a side [%(default)s]")
    parser.add_argument("--filters", type=int, default=32, help="of the first convolutions [%(default)s]")
    parser.add_argument("--batch-size", type=int, default=1, help="pairs a step on each replica [%(default)s]")
    parser.add_argument("--epochs", type=int, default=10, help="[%(default)s]")
    parser.add_argument("--seed", type=int, default=0, help="[%(default)s]")
    parser.add_argument("--replicas", type=int, default=1, help="devices [%(default)s]")
    flags = parser.parse_args()
    # The devices come first: TensorFlow cannot change them once it has used them.
    mirrored = distribution.gpus if tf.config.list_physical_devices("GPU") else distribution.cpu_replicas
    strategy = mirrored(flags.replicas)

    images = read_images(flags.data_dir, flags.image_size) if flags.data_dir else draw_images(flags.image_size)
    a, b, test_a, test_b = (images[part] for part in PARTS)
    train_input_fn = pairs(a, b, flags.batch_size, flags.seed)
    tests = min(len(test_a), len(test_b))
    eval_input_fn = input_fns.arrays(test_a[:tests], test_b[:tests], batch_size=flags.batch_size)

    say_memory(flags.image_size, flags.filters, flags.batch_size)
    keras.utils.set_random_seed(flags.seed)
    replicas = {"train_distribute": strategy, "eval_distribute": strategy}
    config = et.RunConfig(flags.model_dir, tf_random_seed=flags.seed, resume_input=True, **replicas)
    # A function, because Keras cannot copy a class of its own; the Estimator calls it for each replica's weights.
    estimator = et.model_to_estimator(lambda: build_model(flags.image_size, flags.filters), config=config)
    steps = -(-min(len(a), len(b)) // (flags.batch_size * flags.replicas))  # an epoch
    hooks = [et.TimingHook(flags.model_dir), et.ProgressHook()]
    train_spec = et.TrainSpec(train_input_fn, flags.epochs * steps, hooks)
    eval_spec = et.EvalSpec(eval_input_fn, None, exporters=Grid(test_a[:4]), every_steps=steps)
    metrics, _ = et.train_and_evaluate(estimator, train_spec, eval_spec)
    print(", ".join(f"{name} {value:.4g}" for name, value in metrics.items()))


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # the steps done are saved, as after Ctrl-C
    try:
        main()
    except KeyboardInterrupt:
        sys.exit("stopped; the same command continues")
