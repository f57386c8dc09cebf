"""The old module `exporter`: the base class of SavedModel exporters."""

from __future__ import annotations

from estimator_train import exporter


class _SavedModelExporter(exporter.FinalExporter):
    """Writes a SavedModel on each call and keeps all of them; takes the arguments of `FinalExporter`."""

    _export = exporter._SavedModelExporter._export
