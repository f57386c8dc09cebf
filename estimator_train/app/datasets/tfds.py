"""Any image classification dataset of TensorFlow Datasets, as tfds:NAME."""

import contextlib
import dataclasses
import functools
import importlib.util
import logging
import sys
from typing import Any

from estimator_train._engine.host.files import quoted
from estimator_train._engine.host.paths import StrPath
from estimator_train.app.datasets.dataset import About, Dataset, default_settings, sides
from estimator_train.app.datasets.held_out import VALIDATION
from estimator_train.app.datasets.part import InputFn, Part

ABOUT = About("classification", "any", "TensorFlow Datasets")


class Named:
    """The interface of a module of `datasets`, for tfds:`name`."""

    ABOUT = ABOUT

    def __init__(self, name: str) -> None:
        self.name = name

    def open_dataset(self, data_dir: StrPath | None = None) -> Dataset:
        """Returns the dataset, downloading it into `data_dir` if necessary.

        It trains on the split `train` and evaluates on `test` or `validation`, or on the last fifth of `train` if there
        is neither. If there are both, `validation` is for validation. Raises ConnectionError if the data could not be
        downloaded, and ValueError without TensorFlow Datasets, for an unknown name and for other kinds of examples.
        """
        info = _builder(self.name, data_dir).info
        keys = info.supervised_keys or ()
        features = [info.features[key] for key in keys if isinstance(key, str)]  # a key may be a tuple of keys
        if [type(feature).__name__ for feature in features] != ["Image", "ClassLabel"]:
            raise ValueError(
                f"tfds:{self.name} does not have an image and a class per example: it has {quoted(info.features)}"
            )
        image, label = features
        builder = self._prepared(data_dir)
        held_out = [split for split in ("test", "validation") if split in builder.info.splits]
        names = ["train", *held_out]
        if not held_out:
            names = ["train[:80%]", "train[80%:]"]
        class_names = tuple(label.names)
        parts = {name: TfdsSplit(class_names=class_names, builder=builder, name=name) for name in names}
        defaults = default_settings(*image.shape[:2])
        return Dataset(name=f"tfds:{self.name}", class_names=class_names, **defaults, **sides(parts))

    def download(self, data_dir: StrPath | None = None) -> str:
        """Lets TensorFlow Datasets download and prepare the data, and returns its directory."""
        return self._prepared(data_dir).data_dir

    def is_here(self, data_dir: StrPath | None = None) -> bool:
        """Returns whether the data is in `data_dir`, or where TensorFlow Datasets keeps it."""
        is_installed = importlib.util.find_spec("tensorflow_datasets") is not None
        with _without_log_lines():
            return is_installed and _builder(self.name, data_dir).is_prepared()

    def _prepared(self, data_dir):
        builder = _builder(self.name, data_dir)
        try:
            with contextlib.redirect_stdout(sys.stderr):  # it prints progress to standard output
                builder.download_and_prepare()
        except Exception as error:  # it raises errors of many classes; the user needs the reason
            reason = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
            raise ConnectionError(f"tfds:{self.name} could not be downloaded ({reason})") from error
        return builder


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class TfdsSplit(Part):
    """A split of a builder of TensorFlow Datasets, such as train[:80%]."""

    builder: Any
    name: str

    @property
    def count(self) -> int:
        return self.builder.info.splits[self.name].num_examples

    def split(self, share: float, purpose: str = VALIDATION) -> tuple[Part, Part]:
        """Holds out the last examples, in the order of the files: random, not stratified, and fixed in each version."""
        kept = self.count - max(1, round(share * self.count))
        whole, _, _ = self.name.partition("[")
        names = f"{whole}[:{kept}]", f"{whole}[{kept}:{self.count}]"
        before, after = (dataclasses.replace(self, name=name) for name in names)
        return before, after

    def input_fn(self, image_size: tuple[int, int], **options: Any) -> InputFn:
        from estimator_train.app.datasets.pipeline import ExampleBatches, as_model_input

        def load(image, label):
            return as_model_input(image, label, image_size, len(self.class_names))

        examples = functools.partial(self.builder.as_dataset, split=self.name, as_supervised=True)
        return ExampleBatches(examples, load, **options)


@contextlib.contextmanager
def _without_log_lines():
    """Keeps back what TensorFlow Datasets logs about folders of data that it cannot use."""
    logger = logging.getLogger("absl")
    before = logger.disabled
    logger.disabled = True
    try:
        yield
    finally:
        logger.disabled = before


def _builder(name, data_dir):
    try:
        import tensorflow_datasets as tfds
        from tensorflow_datasets.core.download import downloader
    except ModuleNotFoundError as error:
        packages = "tensorflow-datasets importlib_resources"  # it forgets to ask for the latter
        raise ValueError(f"{name} needs TensorFlow Datasets: pip install {packages}") from error
    downloader.MAX_RETRIES = 4  # the default of 10 takes more than three minutes offline
    try:
        return tfds.builder(name, data_dir=data_dir)
    except tfds.core.DatasetNotFoundError as error:
        raise ValueError(f"TensorFlow Datasets has no {name!r}: see https://www.tensorflow.org/datasets") from error
