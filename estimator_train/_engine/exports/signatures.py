"""Builds the signatures of a SavedModel from a receiver and export outputs."""

from collections.abc import Mapping

import tensorflow as tf
from tensorflow.core.protobuf.meta_graph_pb2 import SignatureDef

from estimator_train._engine.exports.outputs import SUPERVISED_METHODS, ExportOutput
from estimator_train._engine.exports.receivers import InputReceiver
from estimator_train._engine.types import Nest

v1 = tf.compat.v1
log = tf.get_logger()


def signatures(
    receiver: InputReceiver, export_outputs: Mapping[str, ExportOutput], *, serving_only: bool = True
) -> dict[str, SignatureDef]:
    """Returns the SignatureDefs of a SavedModel, keyed `<output>`, and `<alternative>:<output>` for alternatives.

    Signatures that cannot be served are skipped and logged: Classify or Regress outputs without a single string input,
    outputs that depend on a placeholder which the receiver does not feed, and if `serving_only`, those for training.
    """
    alternatives = getattr(receiver, "receiver_tensors_alternatives", None) or {}
    fed = {"": receiver.receiver_tensors} | {f"{name}:": tensors for name, tensors in alternatives.items()}
    included: dict[str, SignatureDef] = {}
    excluded: dict[str, ValueError | str] = {}
    for prefix, tensors in fed.items():
        for key, output in export_outputs.items():
            try:
                signature = output.as_signature_def(tensors)
                _check_fed(signature, tensors)
            except ValueError as error:
                excluded[f"{prefix}{key}"] = error
            else:
                included[f"{prefix}{key}"] = signature
    if serving_only:
        unservable = [key for key, signature in included.items() if not v1.saved_model.is_valid_signature(signature)]
        for key in unservable:
            excluded[key] = f"TensorFlow Serving has no API for {included.pop(key).method_name!r}"
    _log_report(included, excluded)
    return included


def _check_fed(signature: SignatureDef, receiver_tensors: dict[str, Nest]) -> None:
    """Raises ValueError if an output of `signature` depends on a placeholder that is not among the inputs."""
    fed = tf.nest.flatten(receiver_tensors, expand_composites=True)
    fed_names = {tensor.name for tensor in fed}
    graph = fed[0].graph
    queue = [graph.get_tensor_by_name(info.name) for info in signature.outputs.values()]
    # A function's graph also has placeholders for the tensors that it captures, such as variables.
    seen = {tensor.name for tensor in getattr(graph, "internal_captures", ())}
    while queue:
        tensor = queue.pop()
        if tensor.name in fed_names or tensor.name in seen:
            continue
        seen.add(tensor.name)
        if tensor.op.type == "Placeholder":
            raise ValueError(
                f"the outputs {sorted(signature.outputs)} need the placeholder {tensor.op.name}, which is not among "
                f"the inputs {sorted(fed_names)}"
            )
        queue += tensor.op.inputs


def _log_report(included: dict[str, SignatureDef], excluded: dict[str, ValueError | str]) -> None:
    constants = tf.saved_model
    methods = {
        constants.CLASSIFY_METHOD_NAME: "Classify",
        constants.REGRESS_METHOD_NAME: "Regress",
        constants.PREDICT_METHOD_NAME: "Predict",
        SUPERVISED_METHODS["train"]: "Train",
        SUPERVISED_METHODS["eval"]: "Eval",
    }
    for method, name in methods.items():
        keys = [key for key, signature in included.items() if signature.method_name == method]
        log.info("Signatures INCLUDED in export for %s: %s", name, keys or None)
    if excluded:
        log.info("Signatures EXCLUDED from export because they cannot be served via TensorFlow Serving APIs:")
        for key, reason in excluded.items():
            log.info("'%s' : %s", key, reason)
    if not included:
        log.warning("Export includes no signatures!")
    elif constants.DEFAULT_SERVING_SIGNATURE_DEF_KEY not in included:
        log.warning("Export includes no default signature!")
