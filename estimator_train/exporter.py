"""Exporters, which train_and_evaluate calls for each checkpoint that it has evaluated."""

import abc
import json
import operator
import os
import re
from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple

import numpy as np
import tensorflow as tf

from estimator_train._engine import checkpoints
from estimator_train._engine.argument_names import argument_names
from estimator_train._engine.events import read_eval_metrics
from estimator_train._engine.exports.directories import exports_in, remove_export
from estimator_train._engine.exports.receivers import InputReceiver
from estimator_train._engine.host.files import owner_of_unfinished, unfinished, write_whole
from estimator_train._engine.keras_forms import refuses_keras_arguments
from estimator_train.estimator import Estimator
from estimator_train.hooks.logger import LoggerListener
from estimator_train.loggers import Logger

log = tf.get_logger()


class Exporter(abc.ABC):
    """Base class of exporters, which `EvalSpec` takes.

        >>> class LossPrinter(et.Exporter):
        ...     name = "loss_printer"
        ...     def export(self, estimator, export_path, checkpoint_path, eval_result, is_the_final_export):
        ...         print(checkpoint_path, eval_result["loss"])
        >>> eval_spec = et.EvalSpec(eval_input_fn, exporters=LossPrinter())

    Subclasses must define `name` and `export`.
    """

    @property
    @abc.abstractmethod
    def name(self) -> str:
        """The name of the exporter's directory below `<model_dir>/export`."""

    @abc.abstractmethod
    def export(
        self,
        estimator: Estimator,
        export_path: str,
        checkpoint_path: str,
        eval_result: dict[str, Any],
        is_the_final_export: bool,
    ) -> str | bytes | None:
        """Exports a checkpoint, or skips it.

        Args:
          estimator: the `Estimator`.
          export_path: the directory of this exporter.
          checkpoint_path: path prefix of the checkpoint.
          eval_result: the checkpoint's metrics, as returned by `Estimator.evaluate`.
          is_the_final_export: whether training has ended with this checkpoint. If that becomes known only after the
            evaluation, an exporter that skipped the checkpoint is called again.

        Returns:
          The path of the export, or None if skipped.
        """


class _Evaluated(NamedTuple):
    """The arguments of `Exporter.export`."""

    estimator: Estimator
    directory: str
    checkpoint: str
    result: dict[str, Any]
    is_final: bool


class _NamedExporter(Exporter):
    _name: str

    @property
    def name(self) -> str:
        return self._name

    def export(
        self,
        estimator: Estimator,
        export_path: str,
        checkpoint_path: str,
        eval_result: dict[str, Any],
        is_the_final_export: bool,
    ) -> bytes | None:
        return self._export(_Evaluated(estimator, export_path, checkpoint_path, eval_result, is_the_final_export))

    @abc.abstractmethod
    def _export(self, evaluated: _Evaluated) -> bytes | None: ...


class _SavedModelExporter(_NamedExporter):
    """Writes SavedModels and keeps the newest `exports_to_keep` of them, or all if that is None."""

    def __init__(
        self,
        name: str,
        serving_input_receiver_fn: Callable[[], InputReceiver],
        assets_extra: Mapping[str, str | os.PathLike[str]] | None = None,
        as_text: bool = False,
        exports_to_keep: int | None = 5,
    ) -> None:
        if exports_to_keep is not None and exports_to_keep <= 0:
            raise ValueError(f"`exports_to_keep`, if provided, must be positive number. Got {exports_to_keep}")
        self._name = name
        self._serving_input_receiver_fn = serving_input_receiver_fn
        self._assets_extra = assets_extra or {}
        self._as_text = as_text
        self._exports_to_keep = exports_to_keep

    def _export(self, evaluated: _Evaluated) -> bytes | None:
        return self._write(evaluated, {})

    def _write(self, evaluated: _Evaluated, assets: Mapping[str, str]) -> bytes:
        path = evaluated.estimator.export_saved_model(
            evaluated.directory,
            self._serving_input_receiver_fn,
            assets_extra={**self._assets_extra, **assets},
            as_text=self._as_text,
            checkpoint_path=evaluated.checkpoint,
        )
        if self._exports_to_keep is not None:
            for older in exports_in(evaluated.directory)[: -self._exports_to_keep]:
                remove_export(older)
        return path


class FinalExporter(_SavedModelExporter):
    """Writes one SavedModel, at the end of training.

        >>> receiver_fn = et.export.build_raw_serving_input_receiver_fn({"x": tf.ones([1, 2])})
        >>> eval_spec = et.EvalSpec(eval_input_fn, exporters=et.FinalExporter("final", receiver_fn))

    `name` is that of the exporter and its directory. The other arguments are those of `Estimator.export_saved_model`.
    """

    def __init__(
        self,
        name: str,
        serving_input_receiver_fn: Callable[[], InputReceiver],
        assets_extra: Mapping[str, str | os.PathLike[str]] | None = None,
        as_text: bool = False,
    ) -> None:
        super().__init__(name, serving_input_receiver_fn, assets_extra, as_text, exports_to_keep=None)

    def _export(self, evaluated: _Evaluated) -> bytes | None:
        if not evaluated.is_final:
            return None
        log.info("Performing the final export in the end of training.")
        return super()._export(evaluated)


class LatestExporter(_SavedModelExporter):
    """Writes a SavedModel after every evaluation and keeps the newest ones.

        >>> receiver_fn = et.export.build_raw_serving_input_receiver_fn({"x": tf.ones([1, 2])})
        >>> exporter = et.LatestExporter("latest", receiver_fn, exports_to_keep=2)

    See `Estimator.export_saved_model` for the other arguments.

    Args:
      name: name of the exporter and its directory.
      exports_to_keep: number of SavedModels to keep, at least 1, or else a ValueError is raised; None keeps all.
    """


def compare_by(metric: str, direction: Literal["min", "max"]) -> Callable[..., bool]:
    """Returns a `compare_fn` for `BestExporter` and `BestCheckpointExporter` that compares one metric.

        >>> is_better = et.compare_by("accuracy", "max")
        >>> is_better(best_eval_result={"accuracy": 0.8}, current_eval_result={"accuracy": 0.9})
        True
        >>> exporter = et.BestCheckpointExporter(compare_fn=is_better)

    NaN is worse than any other value.

    Args:
      metric: the metric's name in evaluations; the returned function raises ValueError if a result lacks it.
      direction: "min" if lower values are better, "max" if higher ones are; anything else raises ValueError.
    """
    if direction not in ("min", "max"):
        raise ValueError(f'direction must be "min" or "max", given: {direction!r}')
    is_better = {"min": operator.lt, "max": operator.gt}[direction]

    def compare_fn(best_eval_result: Mapping[str, Any], current_eval_result: Mapping[str, Any]) -> bool:
        for name, result in {"best": best_eval_result, "current": current_eval_result}.items():
            if not result or metric not in result:
                raise ValueError(f"{name}_eval_result has no {metric}: {result}; pass another compare_fn.")
        best, current = best_eval_result[metric], current_eval_result[metric]
        return bool(is_better(current, best) or (np.isnan(best) and not np.isnan(current)))

    return compare_fn


_loss_smaller = compare_by("loss", "min")


def _check_compare_fn(compare_fn: Callable[..., bool] | None) -> None:
    if compare_fn is None:
        raise ValueError("compare_fn must not be None.")
    arguments = set(argument_names(compare_fn))
    expected = {"best_eval_result", "current_eval_result"}
    for name in sorted(expected - arguments):
        raise ValueError(f"compare_fn ({compare_fn}) must include {name} argument; it has {sorted(arguments)}")
    if arguments != expected:
        raise ValueError(f"compare_fn ({compare_fn}) has following not expected args: {sorted(arguments - expected)}")


def _is_better(compare_fn: Callable[..., bool], best: Mapping[str, Any] | None, current: Mapping[str, Any]) -> bool:
    return best is None or compare_fn(best_eval_result=best, current_eval_result=current)


class BestExporter(_SavedModelExporter):
    """Writes a SavedModel of each checkpoint that is better than all before it, and keeps the newest ones.

        >>> receiver_fn = et.export.build_raw_serving_input_receiver_fn({"x": tf.ones([1, 2])})
        >>> exporter = et.BestExporter("best", receiver_fn, compare_fn=et.compare_by("accuracy", "max"))

    Each SavedModel stores its evaluation result in `assets.extra/eval_result.json`. After a restart, the result of the
    newest SavedModel is the one to beat. See `Estimator.export_saved_model` for the other arguments.

    Args:
      name: name of the exporter and its directory.
      event_file_pattern: glob pattern, relative to model_dir, of the evaluation's event files. They are read if the
        newest SavedModel has no stored result, as when tf.estimator wrote it: the best result in them is then the one
        to beat. With None, the next checkpoint counts as better.
      compare_fn: function of `best_eval_result` and `current_eval_result`, two dicts of metrics, that returns whether
        the latter is better. The default compares losses.
      exports_to_keep: number of SavedModels to keep; None keeps all.

    Raises ValueError if `compare_fn` has other arguments, or `exports_to_keep` is not positive.
    """

    @refuses_keras_arguments
    def __init__(
        self,
        name: str = "best_exporter",
        serving_input_receiver_fn: Callable[[], InputReceiver] | None = None,
        event_file_pattern: str | None = "eval/*.tfevents.*",
        compare_fn: Callable[..., bool] = _loss_smaller,
        assets_extra: Mapping[str, str | os.PathLike[str]] | None = None,
        as_text: bool = False,
        exports_to_keep: int | None = 5,
    ) -> None:
        receiver_fn: Any = serving_input_receiver_fn  # export_saved_model refuses None
        super().__init__(name, receiver_fn, assets_extra, as_text, exports_to_keep)
        _check_compare_fn(compare_fn)
        self._event_file_pattern = event_file_pattern
        self._compare_fn = compare_fn

    def _export(self, evaluated: _Evaluated) -> bytes | None:
        if not _is_better(self._compare_fn, self._best(evaluated), evaluated.result):
            return None
        log.info("Performing best model export.")
        result = unfinished(os.path.join(evaluated.directory, _RESULT))
        tf.io.gfile.makedirs(evaluated.directory)
        write_whole(result, _to_json(evaluated.result))
        try:
            return self._write(evaluated, {_RESULT: result})
        finally:
            tf.io.gfile.remove(result)

    def _best(self, evaluated: _Evaluated) -> dict[str, Any] | None:
        """Returns the result to beat, or None."""
        exports = exports_in(evaluated.directory)
        if not exports:
            return None
        result = os.path.join(exports[-1], "assets.extra", _RESULT)
        if tf.io.gfile.exists(result):
            try:
                return _read_result(result)
            except ValueError as error:
                log.warning("%s. Reading it from the event files.", error)
        if self._event_file_pattern is None:
            return None
        log.info("Loading best metric from event files.")
        results = read_eval_metrics(os.path.join(evaluated.estimator.model_dir, self._event_file_pattern))
        results.pop(int(evaluated.result.get("global_step", -1)), None)  # the event files include this evaluation
        best = None
        for metrics in results.values():
            if _is_better(self._compare_fn, best, metrics):
                best = metrics
        return best


class BestCheckpointExporter(_NamedExporter):
    """Keeps a copy of the best checkpoint so far.

        >>> exporter = et.BestCheckpointExporter()
        >>> eval_spec = et.EvalSpec(eval_input_fn, exporters=exporter)

    `tf.train.latest_checkpoint` finds the copy in the exporter's directory. Its evaluation result is stored next to it,
    in `<checkpoint>.eval_result.json`, and is the one to beat after a restart.

    Args:
      name: name of the exporter and its directory.
      compare_fn: as for `BestExporter`; one with other arguments raises ValueError.
    """

    @refuses_keras_arguments
    def __init__(self, name: str = "best_checkpoint", compare_fn: Callable[..., bool] = _loss_smaller) -> None:
        _check_compare_fn(compare_fn)
        self._name = name
        self._compare_fn = compare_fn

    def _export(self, evaluated: _Evaluated) -> bytes | None:
        if not _is_better(self._compare_fn, self._best(evaluated.directory), evaluated.result):
            return None
        log.info("Performing best checkpoint export.")
        return tf.compat.as_bytes(_keep_checkpoint(evaluated.directory, evaluated.checkpoint, evaluated.result))

    def _best(self, directory: str) -> dict[str, Any] | None:
        """Returns the result to beat, or None."""
        kept = checkpoints.kept_in(directory)
        try:
            return _read_result(f"{kept[-1]}.{_RESULT}") if kept else None
        except checkpoints.CheckpointError as error:
            raise checkpoints.CheckpointError(f"{error}; move {directory} elsewhere to start over.") from error


class LoggerExporter(_NamedExporter):
    """A `LoggerListener` as an exporter, for programs written for version 0.1.0; its name is `name`.

    >>> logger = et.loggers.CSVLogger("runs/oct2017")
    >>> eval_spec = et.EvalSpec(eval_input_fn, exporters=et.LoggerExporter(logger))
    """

    def __init__(self, *loggers: Logger, name: str = "loggers") -> None:
        self._name = name
        self._listener = LoggerListener(*loggers)
        self._logged: tuple[str, str] | None = None

    def _export(self, evaluated: _Evaluated) -> None:
        logged = evaluated.checkpoint, repr(evaluated.result)
        if logged != self._logged:  # exporters that return None get the last checkpoint twice
            self._listener.after_evaluation(
                evaluated.estimator, evaluated.checkpoint, evaluated.result, evaluated.is_final
            )
            self._logged = logged


def _keep_checkpoint(directory: str, checkpoint: str, eval_result: dict[str, Any]) -> str:
    """Replaces the checkpoint in `directory` by a copy of `checkpoint` and its result; returns the copy's path prefix.

    The directory's `checkpoint` file names the best checkpoint, and it is replaced atomically at the end. If the
    process is killed, either the old checkpoint or the new one is complete.
    """
    tf.io.gfile.makedirs(directory)
    source, name = os.path.split(checkpoint)
    files = [file for file in tf.io.gfile.listdir(source) if file.startswith(f"{name}.")]
    parts = {file: unfinished(os.path.join(directory, file)) for file in files}
    for file, part in parts.items():
        tf.io.gfile.copy(os.path.join(source, file), part, overwrite=True)
    # Write the result before the checkpoint, and the data before the index: neither may exist without the other.
    write_whole(os.path.join(directory, f"{name}.{_RESULT}"), _to_json(eval_result))
    for file in sorted(parts, key=lambda file: file.endswith(".index")):
        tf.io.gfile.rename(parts[file], os.path.join(directory, file), overwrite=True)
    state = f'model_checkpoint_path: "{name}"\nall_model_checkpoint_paths: "{name}"\n'
    write_whole(os.path.join(directory, "checkpoint"), state)
    for file in tf.io.gfile.listdir(directory):
        found = re.fullmatch(rf"(.+-\d+)\.(index|meta|data-\d{{5}}-of-\d{{5}}|{re.escape(_RESULT)})", file)
        if (found and found[1] != name) or owner_of_unfinished(file):
            tf.io.gfile.remove(os.path.join(directory, file))
    return os.path.join(directory, name)


_RESULT = "eval_result.json"


def _to_json(result: Mapping[str, Any]) -> str:
    """Returns the metrics that are numbers or arrays of them; others do not tell which model is best."""
    values = {name: np.asarray(value) for name, value in result.items() if not isinstance(value, tuple | list | dict)}
    return json.dumps({name: value.tolist() for name, value in values.items() if value.dtype.kind not in "OSUc"})


def _read_result(path: str) -> dict[str, Any]:
    """Reads a result that `_to_json` wrote; raises a one-line CheckpointError that names the file."""
    try:
        with tf.io.gfile.GFile(path) as file:
            return {name: np.asarray(value)[()] for name, value in json.load(file).items()}
    except (tf.errors.OpError, ValueError, AttributeError, RecursionError) as error:
        raise checkpoints.CheckpointError(
            f"{path} cannot be read, so the best result so far is unknown: {str(error).splitlines()[0]}"
        ) from error
