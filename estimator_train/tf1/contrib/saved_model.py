"""tf.contrib.saved_model."""

import tensorflow as tf


def load_keras_model(saved_model_path):
    return tf.compat.v1.keras.experimental.load_from_saved_model(saved_model_path)


def save_keras_model(
    model, saved_model_path, custom_objects=None, as_text=None, input_signature=None, serving_only=False
):
    tf.compat.v1.keras.experimental.export_saved_model(
        model, saved_model_path, custom_objects, as_text, input_signature, serving_only
    )
    return saved_model_path


def get_signature_def_by_key(meta_graph_def, signature_def_key):
    """Raises ValueError for a key that the MetaGraphDef does not have."""
    if signature_def_key not in meta_graph_def.signature_def:
        raise ValueError(
            f"No SignatureDef with key {signature_def_key!r}; there are {sorted(meta_graph_def.signature_def)}"
        )
    return meta_graph_def.signature_def[signature_def_key]
