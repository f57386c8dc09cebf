"""The old module `exporter`: the base class of SavedModel exporters."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping

from estimator_train import exporter
from estimator_train.export import InputReceiver


class _SavedModelExporter(exporter._SavedModelExporter):
    """Writes a SavedModel on each call and keeps all of them; takes the arguments of `FinalExporter`."""

    def __init__(
        self,
        name: str,
        serving_input_receiver_fn: Callable[[], InputReceiver],
        assets_extra: Mapping[str, str | os.PathLike[str]] | None = None,
        as_text: bool = False,
    ) -> None:
        super().__init__(name, serving_input_receiver_fn, assets_extra, as_text, exports_to_keep=None)
