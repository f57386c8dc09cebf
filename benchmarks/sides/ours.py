"""estimator_train."""

import contextlib
import functools
import importlib
import itertools
import math
import os
import tempfile
import threading
import time

import estimator_train as et  # before TensorFlow, which would otherwise import Keras 3

# isort: split
import numpy as np
import tensorflow as tf
import tf_keras as keras

from benchmarks import scans
from benchmarks.sides import tensorflow_parts as parts
from benchmarks.sides.serve import cpu_seconds, now, peak_bytes, serve, since
from benchmarks.sides.workers import in_cluster


def input_pipeline(files, mode, as_trained=False):
    from estimator_train import input_fns

    cached = {"memory": {"cache": "memory"}, "folder": {"cache": os.path.join(files, "decoded")}}
    options = {"exact": {}, "fast": {"fast": True}, **cached}[mode]
    paths = parts.jpeg_paths(files)
    input_fn = input_fns.image_files(paths, parts.CLASSES, shuffle=True, num_epochs=1, **options)
    return parts.epoch_of(input_fn.host_batches() if as_trained else input_fn(), len(paths))


def tfrecord_input(files):
    paths = parts.jpeg_paths(files)
    return _training_epoch("tfrecord", parts.write_tfrecords(paths), (224, 224), len(paths))


def npz_input(examples):
    return _training_epoch("npz", parts.write_npz(examples), (28, 28), examples)


def _training_epoch(dataset, data_dir, image_size, number):
    from estimator_train.app import datasets

    options = {"image_size": image_size, "batch_size": parts.BATCH, "num_epochs": 1}
    return parts.epoch_of(datasets.open_dataset(dataset, data_dir).train_input_fn(**options)(), number)


def cached_input(files, epochs):
    from estimator_train import input_fns

    paths = parts.jpeg_paths(files)
    input_fn = input_fns.image_files(paths, parts.CLASSES, cache="memory", shuffle=True, batch_size=parts.BATCH)
    batches, number = iter(input_fn.host_batches()), epochs * len(paths)

    def run():
        return parts.read(itertools.islice(batches, number // parts.BATCH), number)

    run()
    return run


def generator_input(examples):
    from estimator_train import input_fns

    return parts.epoch_of(input_fns.generator(parts.rows_of_a_table(examples), batch_size=parts.BATCH)(), examples)


def worker_input(files, epochs):
    from estimator_train import input_fns

    paths = parts.jpeg_paths(files)

    def images(input_context, epoch):
        order = np.random.default_rng(epoch).permutation(len(paths))
        for index in order[input_context.input_pipeline_id :: input_context.num_input_pipelines]:
            yield scans.load(paths[index])

    def run():
        options = {"batch_size": parts.BATCH, "num_epochs": epochs, "workers": os.cpu_count()}
        return parts.read(input_fns.generator(images, **options)(), epochs * len(paths))

    return run


def train_steps(model, steps, batch_size=parts.BATCH, keras_3=False, own_hook=False, beside=None, **settings):
    """Times steps after the first call, without summaries and logs; `settings` are RunConfig's.

    `beside` "shared" or "apart" decodes scans as fast as it can, in the threads of the steps or in threads of its own.
    """
    model = getattr(parts, model)(importlib.import_module("keras") if keras_3 else keras)
    silent = {"save_summary_steps": None, "log_step_count_steps": None}  # as the other sides are
    settings = {"model_dir": tempfile.mkdtemp(), **silent, **settings}
    config = et.RunConfig(**settings)
    hooks = [_OwnHook()] * own_hook
    first = 1 if config.steps_per_loop == "auto" else config.steps_per_loop
    estimator = et.model_to_estimator(model, config=config)
    batches = parts.repeated_batch(model.input_shape[1:], batch_size)

    def run():
        clock = _Clock()
        with _BUSY[beside]():
            estimator.train(lambda: batches, hooks=[*hooks, clock], steps=steps + first)
        return since(clock.first, clock.last)

    run()
    return run


@contextlib.contextmanager
def _decoding(apart):
    from estimator_train._engine.keras.dataset import with_own_threads
    from estimator_train.app.datasets.synthetic_oct import draw_image

    scan = draw_image("CNV", np.random.default_rng(1))
    images = parts.decoded_forever(tf.io.encode_jpeg(scan[..., np.newaxis], quality=scans.QUALITY))
    images = with_own_threads(images) if apart else images
    is_done = threading.Event()

    def decode():
        for _ in images:
            if is_done.is_set():
                return

    thread = threading.Thread(target=decode)
    thread.start()
    try:
        yield
    finally:
        is_done.set()
        thread.join()


_BUSY = {
    None: contextlib.nullcontext,
    "shared": functools.partial(_decoding, apart=False),
    "apart": functools.partial(_decoding, apart=True),
}


def evaluated_training(evaluations, every, legacy_adam=False):
    def run():
        model = parts.wide_cnn(keras, keras.optimizers.legacy.Adam() if legacy_adam else "adam")
        estimator = et.model_to_estimator(model, model_dir=tempfile.mkdtemp())
        train_spec = et.TrainSpec(lambda: batches, evaluations * every)
        et.train_and_evaluate(estimator, train_spec, et.EvalSpec(lambda: batches, parts.EVALUATED, every_steps=every))

    batches = parts.repeated_batch((32, 32, 3))
    return run


def trained_on(steps, every=None):
    """Returns TimingHook's seconds of the steps, with an evaluation and a checkpoint every `every` steps."""

    def run():
        estimator = et.model_to_estimator(parts.small_cnn(keras), model_dir=tempfile.mkdtemp())
        timing = et.TimingHook()
        if every:
            eval_spec = et.EvalSpec(lambda: batches, parts.EVALUATED, every_steps=every)
            et.train_and_evaluate(estimator, et.TrainSpec(lambda: batches, steps, [timing]), eval_spec)
        else:
            estimator.train(lambda: batches, hooks=[timing], max_steps=steps)
        return {"wall": timing.summary()["seconds"]}

    batches = parts.repeated_batch((32, 32, 3))
    run()
    return run


def evaluate_files(files, replicas=1, as_command=False):
    """Evaluates files; `as_command` also collects the predictions that the command computes its class metrics from."""
    from estimator_train import distribution
    from estimator_train.app.running.evaluation import CollectPredictions

    strategy = distribution.cpu_replicas(replicas) if replicas > 1 else None
    estimator, input_fn = _of_scans(eval_distribute=strategy), _images(files)
    examples = CollectPredictions("classification", parts.CLASSES)
    if as_command:
        estimator = examples.attach(estimator)

    def run():
        metrics = estimator.evaluate(input_fn, hooks=[examples] if as_command else [])
        if as_command:
            examples.evaluation(metrics)

    run()
    return run


def predict_files(files):
    estimator, input_fn = _of_scans(), _images(files)

    def run():
        for _ in estimator.predict(input_fn):
            pass

    run()
    return run


def _of_scans(**settings):
    config = et.RunConfig(tempfile.mkdtemp(), **settings)
    return et.model_to_estimator(parts.scan_cnn(keras), config=config)


def _images(files):
    from estimator_train import input_fns

    return input_fns.image_files(parts.jpeg_paths(files), parts.CLASSES, batch_size=parts.BATCH, num_epochs=1)


class _Clock(et.SessionRunHook):
    first = None

    def next_look(self, global_step):
        return math.inf

    def after_run(self, run_context, run_values):
        self.last = now()
        self.first = self.first or self.last


class _OwnHook(et.SessionRunHook):
    """Looks at the loss of each step, as a user's hook may."""

    def before_run(self, run_context):
        return et.SessionRunArgs("loss:0")

    def after_run(self, run_context, run_values):
        self.loss = run_values.results


def flagship(files, epochs, frozen=False):
    def train(paths, epochs):
        from estimator_train import input_fns
        from estimator_train.app import models
        from estimator_train.app.models.classifier import freeze_backbone

        keras.backend.clear_session()
        model = models.build_model("vgg16", image_size=(224, 224), num_classes=len(parts.CLASSES), weights="none")
        freeze_backbone(model, "block4_pool")  # as in the peers; by default, random weights are trained
        images = {"file_pattern": paths, "labels": parts.CLASSES, "batch_size": parts.BATCH}
        if frozen:
            from estimator_train._engine.input_fns.frozen_features import frozen_features

            examples = input_fns.image_files(**images, num_epochs=1)
            input_fn = frozen_features(examples, parts.BATCH, epochs, shuffle=True)
        else:
            input_fn = input_fns.image_files(**images, shuffle=True, num_epochs=epochs)
        with tempfile.TemporaryDirectory() as model_dir:
            et.model_to_estimator(model, model_dir=model_dir).train(input_fn)

    paths = parts.jpeg_paths(files)
    train(paths[: parts.BATCH], 1)
    return lambda: train(paths, epochs)


def memory(files):
    run = flagship(files, 1)
    return lambda: run() or {"peak": peak_bytes()}


def evaluate_again():
    estimator = _trained()
    return _again(lambda: estimator.evaluate(parts.two_batches))


def predict_again(kept=False):
    estimator = _trained()
    if not kept:
        return _again(lambda: list(estimator.predict(parts.two_batches)))
    predict = estimator.predictor()
    batches = [images.numpy() for images, _ in parts.two_batches()]
    return _again(lambda: [predict(batch) for batch in batches])


def predict_one(calls):
    predict, x = _trained().predictor(), parts.one_example()

    def run():
        for _ in range(calls):
            predict(x)

    run()
    return run


def _trained():
    estimator = et.model_to_estimator(parts.small_cnn(keras), model_dir=tempfile.mkdtemp())
    estimator.train(parts.two_batches)
    return estimator


def _again(call):
    call()
    return lambda: {"results": len(call())}


def startup():
    class FirstStep(et.SessionRunHook):
        def after_run(self, run_context, run_values):
            self.measured = {"ended": time.time(), "cpu": cpu_seconds()}

    def run():
        first_step = FirstStep()
        estimator = et.model_to_estimator(parts.small_cnn(keras), model_dir=tempfile.mkdtemp())
        estimator.train(parts.two_batches, steps=1, hooks=[first_step])
        return first_step.measured

    return run


def train_model_fn(**options):
    return parts.train_model_fn(et, **options)


def train_canned(**options):
    return parts.train_canned(et, **options)


def evaluate_canned(**options):
    return parts.evaluate_canned(et, **options)


def run_bare_graph(**options):
    return parts.run_bare_graph(**options)


def replicas(count, steps):
    """Runs steps with `count` replicas, each on one core and one thread."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:count])
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(count)
    strategy = None
    if count > 1:
        from estimator_train import distribution

        strategy = distribution.cpu_replicas(count)
    return train_steps("deep_cnn", steps // count, train_distribute=strategy)


def workers(model, steps, steps_per_loop, workers, cluster=None):
    """Runs steps in `workers` processes under a MultiWorkerMirroredStrategy."""
    from estimator_train import distribution

    given = {"model": model, "steps": steps, "steps_per_loop": steps_per_loop}

    def set_up(folder):
        return train_steps(**given, model_dir=folder, train_distribute=distribution.multi_worker())

    return in_cluster("ours", "workers", {**given, "workers": workers, "cluster": cluster}, set_up)


def scaling(settings, workers, cluster=None):
    """Runs the steps of several settings of `train_steps`, one after another, in `workers` processes."""
    from estimator_train import distribution

    def set_up(folder):
        strategy = distribution.multi_worker()
        runs = [
            train_steps(**setting, model_dir=os.path.join(folder, str(index)), train_distribute=strategy)
            for index, setting in enumerate(settings)
        ]

        def piece():
            measured = [run() for run in runs]
            return {"settings": measured, **{key: sum(each[key] for each in measured) for key in ("wall", "cpu")}}

        return piece

    return in_cluster("ours", "scaling", {"settings": settings, "workers": workers, "cluster": cluster}, set_up)


def mirrored(model, steps, steps_per_loop, count):
    """Runs steps of `count` replicas in one process."""
    from estimator_train import distribution

    return train_steps(model, steps, steps_per_loop=steps_per_loop, train_distribute=distribution.cpu_replicas(count))


def checkpoint(model):
    """Measures the seconds and bytes of a checkpoint."""
    model = getattr(parts, model)(keras)
    estimator = et.model_to_estimator(model, model_dir=tempfile.mkdtemp())
    batches = parts.repeated_batch(model.input_shape[1:])

    def run():
        timing = et.TimingHook()
        estimator.train(lambda: batches, hooks=[timing], steps=1)  # saves before and after the step
        files = tf.io.gfile.glob(f"{estimator.latest_checkpoint()}.data*")
        return {"wall": timing.summary()["checkpoint_seconds"] / 2, "bytes": sum(map(os.path.getsize, files))}

    run()
    return run


if __name__ == "__main__":
    works = (input_pipeline, train_steps, evaluated_training, evaluate_files, flagship, memory, evaluate_again)
    works += (predict_files, predict_again, predict_one, startup, replicas, trained_on, train_model_fn, run_bare_graph)
    works += (tfrecord_input, npz_input, cached_input, generator_input, worker_input)
    works += (workers, mirrored, checkpoint, scaling, train_canned, evaluate_canned)
    serve({work.__name__: work for work in works}, ["tensorflow", "tf_keras", "estimator_train"], parts.device)
