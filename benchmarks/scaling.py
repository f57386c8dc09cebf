"""Measures a step in 1, 2 and 4 worker processes, fits a cost model, and predicts the step time on many hosts.

    python -m benchmarks.scaling
    python -m benchmarks.scaling --input

Workers on one machine share its cores, so the model is fitted to each worker's processor time per step: the compute of
a model, a call of the loop, and the messages and bytes of all-reduces. The cost of a network per message and byte and
the speed of a GPU cannot be measured here; the options set them, and each is an assumption. docs/scaling.md shows a
run. `--input` measures only what an input image costs in each form on disk.
"""

import argparse
import math
import os
import statistics
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

import numpy as np
from tabulate import tabulate

from benchmarks import performance_page, runner, scans
from benchmarks.works import Benchmark, Side

WORKERS, ROUNDS, IMAGES = (1, 2, 4), 3, 1024  # so many images that the start of an epoch does not count
PAGE = runner.ROOT / "docs" / "scaling.md"
HOSTS, GPUS = (1, 2, 4, 8, 16, 32, 64, 128), 8
RATE = 2500  # images a second of a GPU

# Forms of scans on disk: the function of benchmarks/sides/ours.py that reads them, and its options.
FORMS = {
    "JPEG files": ("input_pipeline", {"mode": "exact", "as_trained": True}),
    "JPEGs in TFRecord files": ("tfrecord_input", {}),
    "`cache=FOLDER`, float32 of 224 x 224": ("input_pipeline", {"mode": "folder", "as_trained": True}),
}

# All-reduces per step of a model with the metrics loss and accuracy: one for all gradients; the sum and the count of
# each metric; and whether all workers have a batch, with its number of examples. Each call of the loop starts with one
# more, to agree on whether to stop.
REDUCES_A_STEP = 6


class Setting(NamedTuple):
    """A training that is run with each number of workers; `weights` is the number of the model's weights."""

    model: str
    weights: int
    steps_per_loop: int
    steps: int


SETTINGS = (
    Setting("tiny_cnn", 690, 1, 60),
    Setting("tiny_cnn", 690, 20, 60),
    Setting("wide_network", 7_950_010, 5, 10),
)


class Observation(NamedTuple):
    """Seconds per step with a number of workers, as wall-clock and processor time averaged over the workers."""

    setting: Setting
    workers: int
    clock: float
    processor: float


class Costs(NamedTuple):
    """The fitted processor seconds: `compute` by model, and per call, per message and per byte."""

    compute: dict[str, float]
    call: float
    message: float
    byte: float

    def step(self, setting, workers):
        """Returns the processor seconds of a step on each worker."""
        messages, num_bytes = traffic(setting, workers)
        fixed = self.compute[setting.model] + self.call / setting.steps_per_loop
        return fixed + messages * self.message + num_bytes * self.byte


def traffic(setting, workers):
    """Returns the messages and bytes that a worker sends per step; a ring all-reduce goes around twice in parts."""
    reduces = REDUCES_A_STEP + 1 / setting.steps_per_loop
    return reduces * 2 * (workers - 1), 2 * (workers - 1) / workers * 4 * setting.weights


def fit(observations):
    """Returns the `Costs` with the least squares of relative errors for the observations."""
    models = sorted({each.setting.model for each in observations})
    rows = [
        [
            *(float(each.setting.model == model) for model in models),
            1 / each.setting.steps_per_loop,
            *traffic(each.setting, each.workers),
        ]
        for each in observations
    ]
    seconds = np.array([each.processor for each in observations])
    rows = np.array(rows) / seconds[:, None]
    scale = rows.max(axis=0)  # bytes are many, and seconds few
    found = np.linalg.lstsq(rows / scale, np.ones(len(seconds)), rcond=None)[0] / scale
    *compute, call, message, byte = found.tolist()
    return Costs(dict(zip(models, compute, strict=True)), call, message, byte)


# (name, default, help) of each assumption about the predicted hosts, which cannot be measured here.
ASSUMPTIONS = (
    ("weights", 25.6e6, "weights of the model, in float32: ResNet-50's, by the table of Keras' applications"),
    ("gflop", 22.8, "billions of operations to train on an example: 3 passes of 2 * 3.8 (He et al. 2015, table 1)"),
    ("tflops", 20.0, "trillions of operations a second that a GPU sustains in training, assumed"),
    ("batch", 64, "examples of a GPU in a step"),
    ("network-gbit", 100.0, "bandwidth between hosts, Gbit/s of each, assumed"),
    ("network-us", 30.0, "latency of a message between hosts, microseconds, assumed"),
    ("link-gbyte", 200.0, "bandwidth between the GPUs of a host, GB/s of each, assumed"),
    ("link-us", 5.0, "latency of a message between the GPUs of a host, microseconds, assumed"),
    ("cores", 64, "cores of a host, as fast as one here, assumed"),
    ("checkpoint-secs", 600.0, "seconds between checkpoints: RunConfig's default"),
    ("steps-per-loop", 1, "RunConfig's steps_per_loop"),
)


class Measured(NamedTuple):
    """Measurements that also apply to other hosts: the fit, and the seconds per input image and per checkpoint byte.

    `image` is the processor time on one core.
    """

    costs: Costs
    image: float
    checkpoint_byte: float


class Prediction(NamedTuple):
    """Predicted seconds of a step on a number of hosts, by cause."""

    hosts: int
    compute: float
    bandwidth: float
    latency: float
    agreement: float
    input: float
    checkpoint: float

    @property
    def step(self):
        return sum(self[1:])

    @property
    def efficiency(self):
        return self.compute / self.step

    @property
    def largest(self):
        """Returns the name of the largest cost besides the compute."""
        others = self._asdict()
        del others["hosts"], others["compute"]
        return max(others, key=others.get)


def predict(measured, assumed, hosts):
    """Returns the `Prediction` of a step on `hosts` hosts; `assumed` has the ASSUMPTIONS as attributes.

    NCCL is assumed to sum gradients around a ring of all GPUs, limited by its slowest link, and small values along a
    tree of the hosts and around the GPUs of each. Only the input overlaps with the compute.
    """
    gpus = GPUS * hosts
    num_bytes = 4 * assumed.weights
    rate = assumed.link_gbyte * 1e9 if hosts == 1 else min(assumed.network_gbit / 8, assumed.link_gbyte) * 1e9
    message = measured.costs.message  # TensorFlow's work per message, without the network
    hops = 2 * (GPUS - 1) * assumed.link_us * 1e-6 + 2 * math.ceil(math.log2(hosts)) * assumed.network_us * 1e-6
    compute = assumed.batch * assumed.gflop * 1e9 / (assumed.tflops * 1e12)
    bandwidth = 2 * (gpus - 1) / gpus * num_bytes / rate
    latency = REDUCES_A_STEP * (message + hops)
    agreement = (message + hops) / assumed.steps_per_loop
    busy = compute + bandwidth + latency + agreement
    waits = max(0.0, GPUS * assumed.batch * measured.image / assumed.cores - busy)
    # Adam has two more values per weight, and all workers wait for the chief.
    share = 3 * num_bytes * measured.checkpoint_byte / assumed.checkpoint_secs
    return Prediction(hosts, compute, bandwidth, latency, agreement, waits, share * (busy + waits))


def first_to_give_way(predictions, least=0.9):
    """Returns a sentence that says on how many hosts the efficiency first drops below `least`, and why."""
    for each in predictions:
        if each.efficiency < least:
            return (
                f"The first to give way is {each.largest}: on {each.hosts} hosts, {each.efficiency:.0%} of the step is "
                f"compute and {each[each._fields.index(each.largest)] / each.step:.0%} {each.largest}."
            )
    last = predictions[-1]
    return f"Nothing gives way: on {last.hosts} hosts, {last.efficiency:.0%} of the step is compute."


def main():
    parser = argparse.ArgumentParser(
        "python -m benchmarks.scaling", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name, default, text in ASSUMPTIONS:
        parser.add_argument(f"--{name}", type=type(default), default=default, help=f"{text} [{default:g}]")
    parser.add_argument("--input", action="store_true", help="measure only the forms of images on disk")
    parser.add_argument("--write", action="store_true", help=f"write the output into {PAGE.relative_to(runner.ROOT)}")
    assumed = parser.parse_args()

    load = [os.getloadavg()[0]]
    if assumed.input:
        forms = _seconds_of_images(FORMS)
        print(table_of_forms(forms, [*load, os.getloadavg()[0]]))
        return
    observations = [each for workers in WORKERS for each in _observe(workers)]
    image, _ = _seconds_of_images({"": ("input_pipeline", {"mode": "exact"})})[""]
    measured = Measured(fit(observations), image, _seconds_of_checkpoint_byte())
    load.append(os.getloadavg()[0])
    text = report(observations, measured, assumed, load)
    print(text)
    if assumed.write:
        performance_page.replace(PAGE, {"benchmarks": text})


def report(observations, measured, assumed, load):
    """Returns the measurements, the fit and the predictions in Markdown; `load` is the load before and after."""
    costs = measured.costs
    compute = ", ".join(f"{seconds * 1e3:.2f} ms of {model}" for model, seconds in costs.compute.items())
    assumptions = ", ".join(f"{name} {getattr(assumed, name.replace('-', '_')):g}" for name, *_ in ASSUMPTIONS)
    predictions = [predict(measured, assumed, hosts) for hosts in HOSTS]
    message = costs.message + assumed.network_us * 1e-6
    ring = [REDUCES_A_STEP * 2 * (GPUS * hosts - 1) * message for hosts in (2, HOSTS[-1])]
    return f"""### Measured here

Milliseconds a step; processor time is each worker's. {os.cpu_count()} cores, load {load[0]:.1f} to {load[1]:.1f}.

{_table_of_observations(observations, costs)}

Fitted to the processor time: {compute}; {costs.call * 1e3:.2f} ms a call of the loop,
{costs.message * 1e6:.0f} us a message and {costs.byte * 1e9:.2f} ns a byte of an all-reduce. Measured besides:
{measured.image * 1e3:.1f} ms of a core to read and decode a scan, and {1e-6 / measured.checkpoint_byte:.0f} MB a second
of a checkpoint.

### Predicted for hosts with {GPUS} GPUs

Milliseconds a step. Assumed: {assumptions}.

{_table_of_predictions(predictions, assumed)}

{first_to_give_way(predictions)} Without NCCL, by a ring of messages as here,
the latency would be {ring[0] * 1e3:.0f} ms on 2 hosts and {ring[1] * 1e3:.0f} ms on {HOSTS[-1]}."""


def _table_of_observations(observations, costs):
    rows = []
    for each in observations:
        fitted = costs.step(each.setting, each.workers)
        name = f"{each.setting.model}, steps_per_loop={each.setting.steps_per_loop}"
        error = fitted / each.processor - 1
        rows.append([name, each.workers, each.clock * 1e3, each.processor * 1e3, fitted * 1e3, f"{error:+.0%}"])
    headers = ["model", "workers", "clock", "processor", "fitted", "error"]
    return tabulate(rows, headers, tablefmt="github", floatfmt=".2f")


def _table_of_predictions(predictions, assumed):
    rows = []
    for each in predictions:
        examples = GPUS * each.hosts * assumed.batch / each.step
        parts = [1e3 * seconds for seconds in each[1:]]
        rows.append(
            [each.hosts, GPUS * each.hosts, *parts, 1e3 * each.step, f"{examples:.0f}", f"{each.efficiency:.0%}"]
        )
    headers = ["hosts", "GPUs", *Prediction._fields[1:], "step", "examples/s", "efficiency"]
    return tabulate(rows, headers, tablefmt="github", floatfmt=".2f")


def _observe(workers):
    """Returns the observations of all settings with that many workers."""
    settings = [{name: getattr(each, name) for name in ("model", "steps", "steps_per_loop")} for each in SETTINGS]
    answers = _answers(Side("ours", "scaling", {"settings": settings, "workers": workers}))
    observations = []
    for index, setting in enumerate(SETTINGS):
        rounds = [[worker["settings"][index] for worker in answer["workers"]] for answer in answers]
        clock = statistics.median(of_all[0]["wall"] for of_all in rounds)
        processor = statistics.median(statistics.fmean(each["cpu"] for each in of_all) for of_all in rounds)
        observations.append(Observation(setting, workers, clock / setting.steps, processor / setting.steps))
    return observations


def _seconds_of_images(forms):
    """Returns a dict of forms of scans to (the processor seconds, the bytes to read) of an image in an epoch."""
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        of_file = scans.draw(Path(folder), IMAGES)
        for name, (work, options) in forms.items():
            answers = _answers(Side("ours", work, {"files": folder, **options}))
            seconds = statistics.median(answer["cpu"] for answer in answers) / IMAGES
            found[name] = seconds, 4 * 224 * 224 if options.get("mode") == "folder" else of_file
    return found


def table_of_forms(forms, load):
    """Returns what the result of `_seconds_of_images` means for a host's GPUs; `load` is before and after."""
    rate = GPUS * RATE
    rows = [
        [name, 1e3 * seconds, math.ceil(rate * seconds), rate * num_bytes / 1e6]
        for name, (seconds, num_bytes) in forms.items()
    ]
    headers = ["grayscale scans of 512 x 496 as", "ms of a core an image", f"cores for {rate:,}/s", "MB/s read"]
    table = tabulate(rows, headers, tablefmt="github", floatfmt=("", ".2f", "", ".0f"))
    return f"{table}\n\n{os.cpu_count()} cores, load {load[0]:.1f} to {load[1]:.1f}."


def _seconds_of_checkpoint_byte():
    answers = _answers(Side("ours", "checkpoint", {"model": "wide_network"}))
    return statistics.median(answer["wall"] / answer["bytes"] for answer in answers)


def _answers(side):
    return runner.run_in_turn(Benchmark("", {"ours": side}, []), {"ours": sys.executable}, ROUNDS)["ours"]


if __name__ == "__main__":
    main()
