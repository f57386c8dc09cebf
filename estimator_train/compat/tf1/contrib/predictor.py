"""tf.contrib.predictor: predicts from SavedModels and Estimators with dicts of arrays."""

import tempfile

import tensorflow as tf

from estimator_train.compat.tf1.contrib.saved_model import get_signature_def_by_key as _signature

_v1 = tf.compat.v1
_DEFAULT = tf.saved_model.DEFAULT_SERVING_SIGNATURE_DEF_KEY


class Predictor:
    """Maps a dict of arrays with the keys of `feed_tensors` to a dict with the keys of `fetch_tensors`."""

    def __init__(self, graph, session, feed_tensors, fetch_tensors):
        self.graph, self.session = graph, session
        self.feed_tensors, self.fetch_tensors = feed_tensors, fetch_tensors

    def __call__(self, input_dict):
        unknown = input_dict.keys() - self.feed_tensors.keys()
        if unknown:
            raise ValueError(f"Got unexpected keys in input_dict: {unknown}\nexpected: {set(self.feed_tensors)}")
        feeds = {self.feed_tensors[name]: value for name, value in input_dict.items()}
        return self.session.run(self.fetch_tensors, feeds)

    def __repr__(self):
        return f"Predictor with feed tensors {self.feed_tensors} and fetch_tensors {self.fetch_tensors}"


def from_saved_model(
    export_dir,
    signature_def_key=None,
    signature_def=None,
    input_names=None,
    output_names=None,
    tags=None,
    graph=None,
    config=None,
):
    """Returns a predictor for a signature of a SavedModel, or for the tensors in `input_names` and `output_names`."""
    given = [signature_def_key is not None, signature_def is not None, bool(input_names or output_names)]
    if sum(given) > 1 or bool(input_names) != bool(output_names):
        raise ValueError("give one of signature_def_key, signature_def, and input_names with output_names")
    graph = graph or tf.Graph()
    with graph.as_default():
        session = _v1.Session(config=config)
        tags = tags.split(",") if isinstance(tags, str) else tags or [tf.saved_model.SERVING]
        meta_graph = _v1.saved_model.load(session, tags, export_dir)
    if not input_names:
        signature = signature_def or _signature(meta_graph, signature_def_key or _DEFAULT)
        input_names, output_names = signature.inputs, signature.outputs
    return Predictor(graph, session, _tensors(graph, input_names), _tensors(graph, output_names))


def from_estimator(estimator, serving_input_receiver_fn, output_key=None, graph=None, config=None):
    """Returns a predictor for an Estimator's newest checkpoint."""
    # Exporting a SavedModel is the only public way to get a graph from any Estimator.
    with tempfile.TemporaryDirectory() as directory:
        path = estimator.export_saved_model(directory, serving_input_receiver_fn)
        return from_saved_model(tf.compat.as_str(path), output_key, graph=graph, config=config)


def _tensors(graph, names):
    """Returns the tensors of a dict of names or of a signature's TensorInfos."""
    return {key: graph.get_tensor_by_name(getattr(name, "name", name)) for key, name in names.items()}
