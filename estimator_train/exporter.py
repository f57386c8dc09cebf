"""Exporters: what train_and_evaluate does with a checkpoint that it has evaluated."""

from __future__ import annotations

import abc
import inspect
import json
import operator
import os
import re
from collections.abc import Callable, Mapping
from typing import Any, Literal

import numpy as np
import tensorflow as tf

from estimator_train import checkpoints
from estimator_train.estimator import Estimator
from estimator_train.events import read_eval_metrics
from estimator_train.export import InputReceiver, exports_in, remove_export
from estimator_train.host.files import owner_of_unfinished, unfinished, write_whole
from estimator_train.loggers import Logger

log = tf.get_logger()


class Exporter(abc.ABC):
    """The base of exporters, to be derived from."""

    @property
    @abc.abstractmethod
    def name(self) -> str:
        """Name of the exporter's directory below `<model_dir>/export`, a str."""

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
          export_path: directory of this exporter.
          checkpoint_path: path prefix of the checkpoint.
          eval_result: its metrics, as `Estimator.evaluate` gives them.
          is_the_final_export: whether training has ended with this checkpoint. Where that shows only after the
            checkpoint was evaluated, an exporter that skipped it is asked again.

        Returns:
          Path of the export, or None when skipped.
        """


class _SavedModelExporter(Exporter):
    """Writes SavedModels and keeps the newest `exports_to_keep` of them, None: all."""

    def __init__(self, name, serving_input_receiver_fn, assets_extra, as_text, exports_to_keep):
        if exports_to_keep is not None and exports_to_keep <= 0:
            raise ValueError(f"`exports_to_keep`, if provided, must be positive number. Got {exports_to_keep}")
        self._name = name
        self._serving_input_receiver_fn = serving_input_receiver_fn
        self._assets_extra = assets_extra or {}
        self._as_text = as_text
        self._exports_to_keep = exports_to_keep

    @property
    def name(self) -> str:
        return self._name

    def _write(self, estimator, export_path, checkpoint_path, assets_extra):
        path = estimator.export_saved_model(
            export_path,
            self._serving_input_receiver_fn,
            assets_extra=assets_extra,
            as_text=self._as_text,
            checkpoint_path=checkpoint_path,
        )
        if self._exports_to_keep is not None:
            for older in exports_in(export_path)[: -self._exports_to_keep]:
                remove_export(older)
        return path


class FinalExporter(_SavedModelExporter):
    """Writes one SavedModel, at the end of training; arguments as for `Estimator.export_saved_model`."""

    def __init__(
        self,
        name: str,
        serving_input_receiver_fn: Callable[[], InputReceiver],
        assets_extra: Mapping[str, str | os.PathLike[str]] | None = None,
        as_text: bool = False,
    ) -> None:
        super().__init__(name, serving_input_receiver_fn, assets_extra, as_text, exports_to_keep=None)

    def export(
        self,
        estimator: Estimator,
        export_path: str,
        checkpoint_path: str,
        eval_result: dict[str, Any],
        is_the_final_export: bool,
    ) -> bytes | None:
        if not is_the_final_export:
            return None
        log.info("Performing the final export in the end of training.")
        return self._write(estimator, export_path, checkpoint_path, self._assets_extra)


class LatestExporter(_SavedModelExporter):
    """Writes a SavedModel after every evaluation and keeps the newest.

    Args:
      name: the exporter's; the rest as for `Estimator.export_saved_model`.
      exports_to_keep: how many are kept; None: all.

    Raises:
      ValueError: `exports_to_keep` is not positive.
    """

    def __init__(
        self,
        name: str,
        serving_input_receiver_fn: Callable[[], InputReceiver],
        assets_extra: Mapping[str, str | os.PathLike[str]] | None = None,
        as_text: bool = False,
        exports_to_keep: int | None = 5,
    ) -> None:
        super().__init__(name, serving_input_receiver_fn, assets_extra, as_text, exports_to_keep)

    def export(
        self,
        estimator: Estimator,
        export_path: str,
        checkpoint_path: str,
        eval_result: dict[str, Any],
        is_the_final_export: bool,
    ) -> bytes:
        return self._write(estimator, export_path, checkpoint_path, self._assets_extra)


def compare_by(metric: str, direction: Literal["min", "max"]) -> Callable[..., bool]:
    """Returns a `compare_fn` for `BestExporter` and `BestCheckpointExporter` that goes by one metric.

        >>> is_better = et.compare_by("accuracy", "max")
        >>> is_better(best_eval_result={"accuracy": 0.8}, current_eval_result={"accuracy": 0.9})
        True
        >>> exporter = et.BestCheckpointExporter(compare_fn=is_better)

    A value that is not a number is worse than any other.

    Args:
      metric: its name in evaluations.
      direction: "min" if lower values are better, "max" if higher ones are.

    Raises:
      ValueError: `direction` is neither; when called: a result has no such metric.
    """
    if direction not in ("min", "max"):
        raise ValueError(f'direction must be "min" or "max", given: {direction!r}')
    is_better = operator.lt if direction == "min" else operator.gt

    def compare_fn(best_eval_result: Mapping[str, Any], current_eval_result: Mapping[str, Any]) -> bool:
        for name, result in {"best": best_eval_result, "current": current_eval_result}.items():
            if not result or metric not in result:
                raise ValueError(f"{name}_eval_result has no {metric}: {result}; give the exporter a compare_fn.")
        best, current = best_eval_result[metric], current_eval_result[metric]
        return bool(is_better(current, best) or (np.isnan(best) and not np.isnan(current)))

    return compare_fn


_loss_smaller = compare_by("loss", "min")


def _check_compare_fn(compare_fn):
    if compare_fn is None:
        raise ValueError("compare_fn must not be None.")
    arguments = set(inspect.signature(compare_fn).parameters)
    expected = {"best_eval_result", "current_eval_result"}
    for name in sorted(expected - arguments):
        raise ValueError(f"compare_fn ({compare_fn}) must include {name} argument; it has {sorted(arguments)}")
    if arguments != expected:
        raise ValueError(f"compare_fn ({compare_fn}) has following not expected args: {sorted(arguments - expected)}")


class BestExporter(_SavedModelExporter):
    """Writes a SavedModel of every checkpoint that is better than all before, and keeps the newest.

    Each holds the result that made it the best, as `assets.extra/eval_result.json`: a restarted training continues
    from that of the newest.

    Args:
      name: the exporter's; `serving_input_receiver_fn`, `assets_extra` and `as_text` as for
        `Estimator.export_saved_model`.
      event_file_pattern: of event files in model_dir. Where the newest SavedModel holds no result, as tf.estimator left
        it, the best of those in the events is the one to beat; None: there is none to beat then.
      compare_fn: function of `best_eval_result` and `current_eval_result`, dicts of metrics: whether the latter is
        better. The default compares the losses.
      exports_to_keep: how many are kept; None: all.

    Raises:
      ValueError: `compare_fn` has other arguments, or `exports_to_keep` is not positive.
    """

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
        super().__init__(name, serving_input_receiver_fn, assets_extra, as_text, exports_to_keep)
        _check_compare_fn(compare_fn)
        self._event_file_pattern = event_file_pattern
        self._compare_fn = compare_fn

    def export(
        self,
        estimator: Estimator,
        export_path: str,
        checkpoint_path: str,
        eval_result: dict[str, Any],
        is_the_final_export: bool,
    ) -> bytes | None:
        best = self._best(estimator.model_dir, export_path, eval_result)
        if best is not None and not self._compare_fn(best_eval_result=best, current_eval_result=eval_result):
            return None
        log.info("Performing best model export.")
        result = unfinished(os.path.join(export_path, _RESULT))
        tf.io.gfile.makedirs(export_path)
        write_whole(result, _to_json(eval_result))
        try:
            return self._write(estimator, export_path, checkpoint_path, self._assets_extra | {_RESULT: result})
        finally:
            tf.io.gfile.remove(result)

    def _best(self, model_dir, export_path, eval_result):
        """The result to beat, or None."""
        exports = exports_in(export_path)
        if not exports:
            return None
        result = os.path.join(exports[-1], "assets.extra", _RESULT)
        if tf.io.gfile.exists(result):
            try:
                return _read_result(result)
            except ValueError as error:
                log.warning("%s. Taking it from the events.", error)
        if self._event_file_pattern is None:
            return None
        log.info("Loading best metric from event files.")
        results = read_eval_metrics(os.path.join(model_dir, self._event_file_pattern))
        results.pop(eval_result.get("global_step"), None)  # the evaluation that is compared is among the events
        best = None
        for result in results.values():
            if best is None or self._compare_fn(best_eval_result=best, current_eval_result=result):
                best = result
        return best


class BestCheckpointExporter(Exporter):
    """Keeps a copy of the checkpoint that is better than all before, and no other.

    The directory is one of checkpoints: `tf.train.latest_checkpoint` finds the best in it. Beside it is the result that
    made it the best, as `<checkpoint>.eval_result.json`: a restarted training continues from that.

    Args:
      name: the exporter's.
      compare_fn: as for `BestExporter`.

    Raises:
      ValueError: `compare_fn` has other arguments.
    """

    def __init__(self, name: str = "best_checkpoint", compare_fn: Callable[..., bool] = _loss_smaller) -> None:
        _check_compare_fn(compare_fn)
        self._name = name
        self._compare_fn = compare_fn

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
        best = self._best(export_path)
        if best is not None and not self._compare_fn(best_eval_result=best, current_eval_result=eval_result):
            return None
        log.info("Performing best checkpoint export.")
        return tf.compat.as_bytes(_keep_checkpoint(export_path, checkpoint_path, eval_result))

    def _best(self, export_path):
        """The result to beat, or None."""
        kept = checkpoints.kept_in(export_path)
        try:
            return _read_result(f"{kept[-1]}.{_RESULT}") if kept else None
        except checkpoints.CheckpointError as error:
            raise checkpoints.CheckpointError(f"{error}; move {export_path} to another place to start anew.") from error


class LoggerExporter(Exporter):
    """Gives loggers the metrics of each evaluation; `LoggerHook` gives them those of training.

        logger = et.loggers.CSVLogger("runs/oct2017")
        eval_spec = et.EvalSpec(eval_input_fn, exporters=[et.LoggerExporter(logger)])

    Args:
      loggers: of `estimator_train.loggers`, or your own.
      name: the exporter's.
    """

    def __init__(self, *loggers: Logger, name: str = "loggers") -> None:
        self._loggers = loggers
        self._name = name
        self._logged: str | None = None

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
    ) -> None:
        if checkpoint_path != self._logged:  # the last checkpoint comes twice
            for logger in self._loggers:
                logger.log_evaluation(eval_result)
            self._logged = checkpoint_path


def _keep_checkpoint(directory, checkpoint, eval_result):
    """Puts a copy of `checkpoint` and its result in the place of the one in `directory`; returns its path prefix.

    The best is what the directory's `checkpoint` file names, and that is replaced in one move, at the end: whenever the
    process is killed, a whole checkpoint is there, the old one or the new.
    """
    tf.io.gfile.makedirs(directory)
    source, name = os.path.split(checkpoint)
    files = [file for file in tf.io.gfile.listdir(source) if file.startswith(f"{name}.")]
    parts = {file: unfinished(os.path.join(directory, file)) for file in files}
    for file, part in parts.items():
        tf.io.gfile.copy(os.path.join(source, file), part, overwrite=True)
    # No checkpoint is ever there without its result, nor an index without its data.
    write_whole(os.path.join(directory, f"{name}.{_RESULT}"), _to_json(eval_result))
    for file in sorted(parts, key=lambda file: file.endswith(".index")):
        tf.io.gfile.rename(parts[file], os.path.join(directory, file), overwrite=True)
    state = f'model_checkpoint_path: "{name}"\nall_model_checkpoint_paths: "{name}"\n'
    write_whole(os.path.join(directory, "checkpoint"), state)
    for file in tf.io.gfile.listdir(directory):
        of_another = re.fullmatch(rf"(.+-\d+)\.(index|meta|data-\d{{5}}-of-\d{{5}}|{re.escape(_RESULT)})", file)
        if (of_another and of_another[1] != name) or owner_of_unfinished(file):
            tf.io.gfile.remove(os.path.join(directory, file))
    return os.path.join(directory, name)


_RESULT = "eval_result.json"


def _to_json(result):
    return json.dumps(
        {name: np.asarray(value).tolist() for name, value in result.items() if not isinstance(value, bytes)}
    )


def _read_result(path):
    """The result that `_to_json` wrote; raises ValueError in one line that names the file."""
    try:
        with tf.io.gfile.GFile(path) as file:
            return {name: np.asarray(value)[()] for name, value in json.load(file).items()}
    except (tf.errors.OpError, ValueError, AttributeError) as error:
        raise checkpoints.CheckpointError(
            f"{path} cannot be read, so the best result so far is unknown: {str(error).splitlines()[0]}"
        ) from error
