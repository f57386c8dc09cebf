"""Export strategies of an Experiment, which are exporters of tf.estimator."""

from collections.abc import Callable
from typing import Any

from estimator_train.exporter import FinalExporter


def make_export_strategy(
    serving_input_fn: Callable[[], Any],
    default_output_alternative_key: str | None = None,
    assets_extra: dict[str, str] | None = None,
    as_text: bool = False,
    exports_to_keep: int | None = 5,
    strip_default_attrs: bool | None = None,
) -> FinalExporter:
    """Returns an exporter that writes a SavedModel below `export/Servo` of the model_dir when training has ended.

    `serving_input_fn` returns a `tf.estimator.export.ServingInputReceiver`. `exports_to_keep` and
    `strip_default_attrs` are ignored.
    """
    if default_output_alternative_key is not None:
        raise ValueError(
            "default_output_alternative_key is not supported in core Estimator. "
            f"Given: {default_output_alternative_key}; name the export_outputs of the EstimatorSpec instead"
        )
    return FinalExporter("Servo", serving_input_fn, assets_extra, as_text)
