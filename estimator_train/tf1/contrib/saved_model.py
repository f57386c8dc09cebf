"""tf.contrib.saved_model."""


def get_signature_def_by_key(meta_graph_def, signature_def_key):
    """Raises ValueError for a key that the MetaGraphDef does not have."""
    if signature_def_key not in meta_graph_def.signature_def:
        raise ValueError(
            f"No SignatureDef with key {signature_def_key!r}; there are {sorted(meta_graph_def.signature_def)}"
        )
    return meta_graph_def.signature_def[signature_def_key]
