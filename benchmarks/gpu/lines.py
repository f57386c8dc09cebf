"""The lines of the table: the trainings, their numbers of devices, and the lines they are compared with."""

from typing import NamedTuple

VGG16, MOBILENET = "VGG16", "MobileNetV2"


class Training(NamedTuple):
    """The training of one process.

    `model` is VGG16 or MOBILENET. `side` is "ours"; "fit", Keras' own; "step", TensorFlow's step alone, again and again
    for a batch that is on the device; or "torch". `images` is "files"; "features" for cached
    outputs of the frozen layers; or the type and channels of a batch in host memory, such as "uint8 x 3". `settings`
    are RunConfig's; for fit, they are Keras' settings of the same names.
    """

    model: str
    side: str = "ours"
    images: str = "files"
    all_reduce: str | None = None
    settings: dict = {}


class Line(NamedTuple):
    """A training on `devices` devices. `baseline` names the line on as many devices that its speed is compared with."""

    name: str
    devices: int
    training: Training
    baseline: str | None = None
    environment: dict = {}
    needs_gpu: bool = False


def all_lines(device_count):
    """Returns the lines for a machine with that many devices: on 1, 2, 4 and so on, grouped by model."""
    counts = [2**exponent for exponent in range(device_count.bit_length())]
    lines = []
    for model in (VGG16, MOBILENET):
        lines += [*_scaling(model, counts), *_settings(model, counts[-1]), *_reductions(model, counts[-1])]
        lines += _limits(model)
    lines.append(Line(f"{VGG16}, PyTorch", 1, Training(VGG16, "torch"), baseline=VGG16))
    return [*lines, *_features(counts), *_memory_growth(), *_moved_to_the_device()]


def _scaling(model, counts):
    for devices in counts:
        yield Line(_fit(model), devices, Training(model, "fit"))
        yield Line(model, devices, Training(model), baseline=_fit(model))


def _settings(model, most):
    for name, value in (("mixed_precision", "float16"), ("jit_compile", True)):
        for devices in sorted({1, most if name == "jit_compile" else 1}):
            for side, plain in (("fit", _fit(model)), ("ours", model)):
                training = Training(model, side, settings={name: value})
                yield Line(f"{plain}, {name}={value!r}", devices, training, baseline=plain)
    yield Line(f"{model}, steps_per_loop=1", 1, Training(model, settings={"steps_per_loop": 1}), baseline=model)


def _limits(model):
    yield Line(f"{model}, step alone", 1, Training(model, "step"), baseline=model)
    by_xla = "jit_compile=True"
    training = Training(model, "step", settings={"jit_compile": True})
    yield Line(f"{model}, step alone, {by_xla}", 1, training, baseline=f"{model}, {by_xla}")


def _reductions(model, devices):
    if devices > 1:
        nccl, hierarchical = f"{model}, NCCL", f"{model}, hierarchical copy"
        yield Line(nccl, devices, Training(model, all_reduce="nccl"), baseline=model, needs_gpu=True)
        yield Line(hierarchical, devices, Training(model, all_reduce="hierarchical"), baseline=model)


def _features(counts):
    for devices in counts:
        yield Line(f"{VGG16}, frozen_features", devices, Training(VGG16, images="features"), baseline=VGG16)


def _memory_growth():
    # The environment variable overrides what strategies set.
    at_once = {"TF_FORCE_GPU_ALLOW_GROWTH": "false"}
    yield Line(f"{VGG16}, all memory at the start", 1, Training(VGG16), baseline=VGG16, environment=at_once)


def _moved_to_the_device():
    first = None
    for images in ("float32 x 3", "float32 x 1", "uint8 x 3", "uint8 x 1"):
        name = f"{MOBILENET}, {images} from memory"
        yield Line(name, 1, Training(MOBILENET, images=images), baseline=first)
        first = first or name


def _fit(model):
    return f"{model}, Keras fit"
