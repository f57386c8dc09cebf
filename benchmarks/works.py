"""The benchmarks and their sides. The arguments of each function become options on the command line."""

from typing import NamedTuple


class Side(NamedTuple):
    """A function of benchmarks/sides/<peer>.py with its options, environment variables and checkout.

    `checkout` is the root of another checkout of this repository, or None for this one.
    """

    peer: str
    work: str
    options: dict = {}
    environment: dict = {}
    checkout: str | None = None


class Benchmark(NamedTuple):
    """A benchmark. `rows` are pairs of names of `sides`, ours first; `images` is the number of files to draw.

    `measure` is the quantity to compare: "wall" (seconds) or "peak" (bytes of memory). `fresh` says whether each
    measurement takes a new process.
    """

    what: str
    sides: dict[str, Side]
    rows: list[tuple[str, str]]
    images: int = 0
    measure: str = "wall"
    fresh: bool = False


def against_checkout(benchmark, checkout):
    """Returns a benchmark that compares our sides with themselves in another checkout of this repository."""
    ours = {name: side for name, side in benchmark.sides.items() if side.peer == "ours"}
    theirs = {f"{name}, in {checkout}": side._replace(checkout=checkout) for name, side in ours.items()}
    return benchmark._replace(sides=ours | theirs, rows=list(zip(ours, theirs, strict=True)))


# TensorFlow enables these kernels only on processors with features such as AVX512_VNNI, estimator_train on all x86.
ONEDNN, NO_ONEDNN = {"TF_ENABLE_ONEDNN_OPTS": "1"}, {"TF_ENABLE_ONEDNN_OPTS": "0"}
ONE_OP_THREAD = {"TF_NUM_INTEROP_THREADS": "1"}

TF215, TF_KERAS, KERAS3, TORCH = "tf.estimator of TensorFlow 2.15", "tf_keras fit", "Keras 3 fit", "PyTorch"


def input_pipeline(*, images=1024):
    """Compares the first and later epochs of image_files with the blog's input_fn."""
    blog = "the blog's input_fn, TensorFlow 2.15"
    modes = {
        "exact": {"mode": "exact"},
        "fast=True": {"mode": "fast"},
        'cache="memory", later epochs': {"mode": "memory"},
        "exact, one channel, as Estimator.train takes it": {"mode": "exact", "as_trained": True},
        'cache="memory", later epochs, one channel': {"mode": "memory", "as_trained": True},
    }
    ours = {name: Side("ours", "input_pipeline", options) for name, options in modes.items()}
    what = f"an epoch of {images} scans, 512 x 496 to 224 x 224, batch 64"
    return Benchmark(what, {blog: Side("tf215", "input_pipeline"), **ours}, [(name, blog) for name in ours], images)


def tfrecord_input(*, images=512):
    """Compares reading TFRecord files of JPEGs with tf.data as in TensorFlow's guides."""
    what = f"an epoch of {images} scans in a TFRecord file, 512 x 496 to 224 x 224, batch 32"
    return _against_guides(what, "tfrecord_input", "--dataset tfrecord", images=images)


def npz_input(*, examples=60_000):
    """Compares reading images from an npz file with tf.data as in TensorFlow's guides."""
    what = f"an epoch of {examples} images of an npz file, 28 x 28, shuffled, batch 32"
    return _against_guides(what, "npz_input", "--dataset npz", {"examples": examples})


def cached_input(*, images=512, epochs=10):
    """Compares later epochs of decoded images with Dataset.cache as in TensorFlow's guides."""
    what = f"{epochs} later epochs of {images} scans decoded once, 224 x 224, shuffled, batch 32"
    ours = 'image_files(cache="memory"), one channel, as Estimator.train takes it'
    return _against_guides(what, "cached_input", ours, {"epochs": epochs}, images)


def generator_input(*, examples=20_000):
    """Compares a Python generator of small examples with Dataset.from_generator."""
    what = f"an epoch of {examples} rows of a table from a Python generator, batch 32"
    return _against_guides(what, "generator_input", "input_fns.generator", {"examples": examples})


def _against_guides(what, work, ours, options=None, images=0):
    theirs = "tf.data by TensorFlow's guides"
    sides = {ours: Side("ours", work, options or {}), theirs: Side("tf_keras", work, options or {})}
    return Benchmark(what, sides, [(ours, theirs)], images)


def worker_input(*, images=512, epochs=3):
    """Compares a Python generator in worker processes with PyTorch's DataLoader, both with a worker per core."""
    ours, theirs, options = "input_fns.generator with workers", "PyTorch's DataLoader", {"epochs": epochs}
    sides = {ours: Side("ours", "worker_input", options), theirs: Side("torch", "worker_input", options)}
    what = f"{epochs} epochs of {images} scans read by Pillow in worker processes, with their start, batch 32"
    return Benchmark(what, sides, [(ours, theirs)], images)


def model_fn_steps(*, steps=200):
    """A step of a model_fn, of a small graph and of a large one, and the end of the training, beside tf.estimator.

    The same graphs in a bare MonitoredTrainingSession show which part of the difference is TensorFlow's.
    """
    sides, rows = {}, []
    for name, blocks, share in (("small graph", 1, 1), ("large graph", 16, 4)):
        options = {"blocks": blocks, "steps": steps // share or 1}
        ours, theirs = f"model_fn, {name}", f"{TF215}, {name}"
        bare, older = f"a session of TensorFlow 2.21, {name}", f"a session of TensorFlow 2.15, {name}"
        sides |= {
            ours: Side("ours", "train_model_fn", options),
            theirs: Side("tf215", "train_model_fn", options, ONEDNN),
            bare: Side("ours", "run_bare_graph", options),
            older: Side("tf215", "run_bare_graph", options, ONEDNN),
        }
        rows += [(ours, theirs), (ours, bare), (bare, older)]
    ours, theirs = "model_fn, small graph, the end of train", f"{TF215}, small graph, the end of train"
    options = {"blocks": 1, "steps": steps, "end": True}
    sides |= {ours: Side("ours", "train_model_fn", options), theirs: Side("tf215", "train_model_fn", options, ONEDNN)}
    rows.append((ours, theirs))
    what = f"{steps} steps of 1 residual block, a quarter of 16 blocks, batch 32, no summaries, oneDNN on both sides"
    return Benchmark(what, sides, rows)


def canned_steps(*, steps=5000, examples=10000):
    """Steps of three canned estimators, and an evaluation, beside tf.estimator."""
    sides, rows = {}, []
    works = [(kind, "train_canned", {"kind": kind, "steps": steps}) for kind in ("linear", "dnn", "wide and deep")]
    works.append(("evaluate of dnn", "evaluate_canned", {"kind": "dnn", "examples": examples}))
    for name, work, options in works:
        ours, theirs = f"canned, {name}", f"{TF215}, {name}"
        sides |= {ours: Side("ours", work, options), theirs: Side("tf215", work, options, ONEDNN)}
        rows.append((ours, theirs))
    what = f"{steps} steps of small canned estimators, batch 32; an evaluation of {examples} rows; oneDNN on both sides"
    return Benchmark(what, sides, rows)


def step_overhead(*, steps=500):
    """Compares steps of a small and of a tiny CNN with tf_keras fit and a bare tf.function."""
    sides, rows = {}, []
    for name in ("small_cnn", "tiny_cnn"):
        of_what, model = name.replace("_cnn", " CNN"), {"model": name, "steps": steps}
        ours, hooked = of_what, f"{of_what}, a hook that looks at each step"
        fit, fits = (f"{TF_KERAS}, {of_what}, steps_per_execution={at_once}" for at_once in (1, 50))
        bare = f"a bare tf.function, {of_what}, 50 a call"
        sides |= {
            ours: Side("ours", "train_steps", model),
            hooked: Side("ours", "train_steps", {**model, "own_hook": True}),
            fit: Side("tf_keras", "fit_steps", {**model, "steps_per_execution": 1}, ONEDNN),
            fits: Side("tf_keras", "fit_steps", {**model, "steps_per_execution": 50}, ONEDNN),
            bare: Side("tf_keras", "bare_steps", {**model, "steps_per_call": 50}, ONEDNN),
        }
        rows += [(ours, fit), (ours, fits), (ours, bare), (hooked, fit)]
    return Benchmark(f"{steps} steps, batch 32, no summaries, oneDNN on all sides", sides, rows)


def keras3_steps(*, steps=500):
    """Compares a step of a Keras 3 model with Keras 3's own fit."""
    sides, rows = {}, []
    for name in ("small_cnn", "tiny_cnn"):
        of_what, model = name.replace("_cnn", " CNN"), {"model": name, "steps": steps}
        ours = f"{of_what} of Keras 3"
        sides[ours] = Side("ours", "train_steps", {**model, "keras_3": True})
        for at_once in (1, 50):
            fit = f"{KERAS3}, {of_what}, steps_per_execution={at_once}"
            sides[fit] = Side("keras3", "fit_steps", {**model, "steps_per_execution": at_once}, ONEDNN)
            rows.append((ours, fit))
    return Benchmark(f"{steps} steps of a Keras 3 model, batch 32, oneDNN on both sides", sides, rows)


def evaluated_training(*, evaluations=10, every=62):
    """Compares training with regular evaluations and checkpoints with tf_keras fit and tf.estimator.

    tf.estimator accepts only legacy optimizers, whose Adam is a single TensorFlow kernel.
    """
    options = {"evaluations": evaluations, "every": every}
    sides = {
        "train_and_evaluate": Side("ours", "evaluated_training", options),
        "train_and_evaluate, legacy Adam": Side("ours", "evaluated_training", options | {"legacy_adam": True}),
        TF_KERAS: Side("tf_keras", "evaluated_training", options, ONEDNN),
        TF215: Side("tf215", "evaluated_training", options, ONEDNN),
    }
    what = f"a small CNN of 16 million weights, evaluated and saved every {every} steps, {evaluations} times"
    rows = [("train_and_evaluate", TF_KERAS), ("train_and_evaluate, legacy Adam", TF215)]
    return Benchmark(what, sides, rows)


def evaluated_throughput(*, steps=200, every=50):
    """Compares the examples/s that are reported for training with evaluations with training without them."""
    with_evaluations, without = f"evaluated and saved every {every} steps", "neither evaluated nor saved on the way"
    sides = {
        with_evaluations: Side("ours", "trained_on", {"steps": steps, "every": every}),
        without: Side("ours", "trained_on", {"steps": steps}),
    }
    what = f"{steps} steps of a small CNN, batch 32, as TimingHook counts them"
    return Benchmark(what, sides, [(with_evaluations, without)])


def evaluate_files(*, images=1000):
    """Compares evaluation on one device, on two replicas and with the command's metrics with tf_keras."""
    ours, theirs, in_two = "Estimator.evaluate", TF_KERAS.replace("fit", "evaluate"), {"replicas": 2}
    command = "estimator_train evaluate, with metrics of the classes"
    sides = {
        ours: Side("ours", "evaluate_files"),
        command: Side("ours", "evaluate_files", {"as_command": True}),
        theirs: Side("tf_keras", "evaluate_files", {}, ONEDNN),
        f"{ours}, two replicas": Side("ours", "evaluate_files", in_two),
        f"{theirs}, two replicas": Side("tf_keras", "evaluate_files", in_two, ONEDNN),
    }
    rows = [(ours, theirs), (command, theirs), (f"{ours}, two replicas", f"{theirs}, two replicas")]
    return Benchmark(f"evaluation of a small CNN on {images} scans, 224 x 224", sides, rows, images)


def predict_files(*, images=1000):
    """Compares predictions for image files on one device with tf_keras on one device and on two replicas."""
    ours, theirs = "Estimator.predict", TF_KERAS.replace("fit", "predict")
    sides = {
        ours: Side("ours", "predict_files"),
        theirs: Side("tf_keras", "predict_files", {}, ONEDNN),
        f"{theirs}, two replicas": Side("tf_keras", "predict_files", {"replicas": 2}, ONEDNN),
    }
    rows = [(ours, theirs), (ours, f"{theirs}, two replicas")]
    return Benchmark(f"predictions of a small CNN for {images} scans, 224 x 224", sides, rows, images)


def flagship_epoch(*, images=64):
    """Compares an epoch of VGG16 without caches with tf.estimator and tf_keras fit, by default and with oneDNN."""
    benchmark = _flagship(f"VGG16, 224 x 224, one epoch of {images} scans", images, 1, "image_files", (TF215, TF_KERAS))
    for name in (TF215, TF_KERAS):
        with_onednn = f"{name}, oneDNN on"
        benchmark.sides[with_onednn] = benchmark.sides[name]._replace(environment=ONEDNN)
        benchmark.rows.append(("image_files", with_onednn))
    return benchmark


def flagship_epochs(*, images=256, epochs=3):
    """Compares epochs of VGG16, with its frozen layers computed once, with all peers."""
    what = f"VGG16, 224 x 224, {epochs} epochs of {images} scans"
    return _flagship(what, images, epochs, "frozen_features", (TF215, TF_KERAS, KERAS3, TORCH))


def _flagship(what, images, epochs, ours, against):
    peers = {TF215: "tf215", TF_KERAS: "tf_keras", KERAS3: "keras3", TORCH: "torch"}
    sides = {ours: Side("ours", "flagship", {"epochs": epochs, "frozen": ours == "frozen_features"})}
    sides |= {name: Side(peers[name], "flagship", {"epochs": epochs}) for name in against}
    return Benchmark(what, sides, [(ours, name) for name in against], images)


def evaluate_again():
    """Compares the second evaluate of an Estimator with tf.estimator's."""
    return _against_tf215("a second evaluate of a small CNN, two batches of 4", "evaluate_again", "Estimator.evaluate")


def predict_again():
    """Compares the second predict of an Estimator, and two calls of a kept predictor, with tf.estimator's predict."""
    what = "a second predict of a small CNN, two batches of 4"
    benchmark = _against_tf215(what, "predict_again", "Estimator.predict")
    benchmark.sides["Estimator.predictor"] = Side("ours", "predict_again", {"kept": True})
    benchmark.rows.append(("Estimator.predictor", TF215))
    return benchmark


def predict_one(*, calls=100):
    """Compares predicting one example at a time with a kept predictor with tf.estimator's export and tf_keras."""
    ours, options = "Estimator.predictor", {"calls": calls}
    export = "saved_model.load of an export, TensorFlow 2.15"
    sides = {ours: Side("ours", "predict_one", options), export: Side("tf215", "predict_one", options, ONEDNN)}
    for name, through in (("tf_keras predict", "predict"), ("tf_keras model(x)", "call")):
        sides[name] = Side("tf_keras", "predict_one", {**options, "through": through}, ONEDNN)
    rows = [(ours, name) for name in sides if name != ours]
    return Benchmark(f"{calls} predictions of a small CNN, one example at a time, oneDNN on all sides", sides, rows)


def startup():
    """Compares the time from a process's start to the end of its first step with tf.estimator."""
    what = "start of the process to the end of the first step, small CNN"
    return _against_tf215(what, "startup", "Estimator.train", fresh=True)


def _against_tf215(what, work, ours, **options):
    return Benchmark(what, {ours: Side("ours", work), TF215: Side("tf215", work)}, [(ours, TF215)], **options)


def replicas(*, steps=40):
    """Compares the speed of two CPU replicas with a core each with one replica on one core."""
    one, two = "one replica on one core", "two replicas, a core each"
    sides = {name: Side("ours", "replicas", {"count": count, "steps": steps}) for name, count in ((two, 2), (one, 1))}
    return Benchmark(f"{steps} batches of a CNN of convolutions, batch 32 a replica", sides, [(two, one)])


def workers(*, steps=200):
    """Compares two worker processes on this machine with tf_keras fit in two, and with two replicas in one process."""
    sides, rows = {}, []
    model = {"model": "small_cnn", "steps": steps}
    for at_once in (1, 20):
        ours, one = f"two workers, steps_per_loop={at_once}", f"two replicas, steps_per_loop={at_once}"
        fit = f"{TF_KERAS} in two workers, steps_per_execution={at_once}"
        sides |= {
            ours: Side("ours", "workers", {**model, "steps_per_loop": at_once, "workers": 2}),
            fit: Side("tf_keras", "workers", {**model, "steps_per_execution": at_once, "workers": 2}, ONEDNN),
            one: Side("ours", "mirrored", {**model, "steps_per_loop": at_once, "count": 2}),
        }
        rows += [(ours, fit), (ours, one)]
    what = f"{steps} steps of a small CNN, batch 32 a replica, oneDNN on all sides"
    return Benchmark(what, sides, rows)


def step_options(*, steps=40):
    """Compares steps with and without each RunConfig keyword that changes them, and with and without oneDNN."""
    small, deep, wide = "a tiny CNN", "a CNN of convolutions", "8 million weights, 10 checkpoints"
    ops, seeded = "300 small ops", {"deterministic": True, "tf_random_seed": 1}
    saving = {"save_checkpoints_steps": max(steps // 10, 1)}
    # Name, model, steps, settings of RunConfig, and the side to compare with.
    table = [
        (small, "tiny_cnn", 10 * steps, {}, None),
        ("steps_per_loop=1", "tiny_cnn", 10 * steps, {"steps_per_loop": 1}, small),
        (deep, "deep_cnn", steps, {}, None),
        ("mixed_precision='bfloat16'", "deep_cnn", steps, {"mixed_precision": "bfloat16"}, deep),
        ("jit_compile=True", "deep_cnn", steps, {"jit_compile": True}, deep),
        ("accumulate_steps=4, batch 8", "deep_cnn", steps, {"accumulate_steps": 4, "batch_size": 8}, deep),
        (wide, "wide_network", steps, saving, None),
        ("async_checkpoints=True", "wide_network", steps, {"async_checkpoints": True, **saving}, wide),
        ("deterministic=True, a tiny CNN", "tiny_cnn", 10 * steps, seeded, small),
        ("deterministic=True, a CNN of convolutions", "deep_cnn", steps, seeded, deep),
        (ops, "small_ops", 50 * steps, {}, None),
        (f"{ops} beside a decoder in the same threads", "small_ops", 50 * steps, {"beside": "shared"}, ops),
        (f"{ops} beside a decoder in its own", "small_ops", 50 * steps, {"beside": "apart"}, ops),
    ]
    sides = {
        name: Side("ours", "train_steps", {"model": model, "steps": number, **settings})
        for name, model, number, settings, _ in table
    }
    rows = [(name, default) for name, *_, default in table if default]
    for name in (small, deep, wide):
        without = f"{name}, oneDNN off"
        sides[without] = sides[name]._replace(environment=NO_ONEDNN)
        rows.append((name, without))
    # The executor would spread the ops of a step over 1.6 cores. Kept on one, they leave a core to the decoder, as on a
    # machine of many cores.
    sides |= {name: side._replace(environment=ONE_OP_THREAD) for name, side in sides.items() if name.startswith(ops)}
    return Benchmark("a step, batch 32", sides, rows)


def memory(*, images=64):
    """Compares the peak resident memory of a few steps of VGG16 with tf_keras fit."""
    sides = {"Estimator.train": Side("ours", "memory"), TF_KERAS: Side("tf_keras", "memory")}
    what = f"peak memory of VGG16, 224 x 224, {images} scans"
    return Benchmark(what, sides, [("Estimator.train", TF_KERAS)], images, measure="peak", fresh=True)


WORKS = (
    *(
        input_pipeline,
        tfrecord_input,
        npz_input,
        cached_input,
        generator_input,
        worker_input,
        step_overhead,
        keras3_steps,
        model_fn_steps,
        canned_steps,
        evaluated_training,
        evaluated_throughput,
        evaluate_files,
        predict_files,
        flagship_epoch,
        flagship_epochs,
        evaluate_again,
        predict_again,
        predict_one,
        startup,
    ),
    *(replicas, workers, step_options, memory),
)
