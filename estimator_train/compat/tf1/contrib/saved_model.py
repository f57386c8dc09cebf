"""tf.contrib.saved_model: looks up signatures."""


def get_signature_def_by_key(meta_graph_def, signature_def_key):
    """Returns the SignatureDef; raises ValueError if the MetaGraphDef does not have the key."""
    if signature_def_key not in meta_graph_def.signature_def:
        raise ValueError(
            f"No SignatureDef with key {signature_def_key!r}; there are {sorted(meta_graph_def.signature_def)}"
        )
    return meta_graph_def.signature_def[signature_def_key]
