"""Runs the cases of one client and prints the results as JSON.

    python -m benchmarks.clients.run CLIENT [--ours] [--tf1] [--keep] [--shims SHIM ...]

CLIENT is a module in this package. It runs unmodified on both sides: on TensorFlow 2.15's own tf.estimator and, with
--ours, after `import estimator_train.install`. With --tf1, TensorFlow 2 behavior is off on both sides: on ours by
`import estimator_train.install_tf1`. SHIM is a function of shims.py. --keep leaves the files of each case in the
current directory, where `estimator_train verify -m benchmarks.clients.run` finds them.
"""

import argparse
import contextlib
import importlib
import json
import sys
import tempfile
import traceback


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("client")
    parser.add_argument("--ours", action="store_true")
    parser.add_argument("--tf1", action="store_true")
    parser.add_argument("--keep", action="store_true")
    parser.add_argument("--shims", nargs="*", default=[])
    args = parser.parse_args()
    if args.ours and args.tf1:
        import estimator_train.install_tf1  # noqa: F401
    elif args.ours:
        import estimator_train.install  # noqa: F401
    elif args.tf1:
        import tensorflow as tf

        tf.compat.v1.disable_v2_behavior()
    from benchmarks.clients import shims

    result = {"shims": [name for name in args.shims if getattr(shims, name)()], "cases": {}}
    try:
        cases = importlib.import_module(f"benchmarks.clients.{args.client}").cases()
    except Exception as error:
        result["error"] = said(error)
    else:
        for name, case in cases.items():
            with contextlib.nullcontext(name) if args.keep else tempfile.TemporaryDirectory() as folder:
                result["cases"][name] = use(case, folder)
    print("results: " + json.dumps(result))


def use(build, folder):
    """Trains in a folder, evaluates, predicts and exports; returns the results, with an "error" if a step failed."""
    import tensorflow as tf

    tf.compat.v2.keras.utils.set_random_seed(1)  # tf.compat.v1.layers use Keras' seed, not RunConfig's
    done = {}
    try:
        case = build(f"{folder}/model")
        estimator = case.estimator
        estimator.train(case.train_input_fn, max_steps=case.steps)
        done["trains"] = len(estimator.get_variable_names())
        done["evaluates"] = plain(estimator.evaluate(case.eval_input_fn))
        done["predicts"] = [plain(prediction) for prediction in estimator.predict(case.predict_input_fn)]
        done["exports"] = exported(estimator, case.features, f"{folder}/export")
    except Exception as error:
        done["error"] = said(error)
    return done


def exported(estimator, features, folder):
    """Calls the exported model with the features, using its signature with the most outputs."""
    import tensorflow as tf

    v1 = tf.compat.v1
    named = features if isinstance(features, dict) else {"features": features}

    def serving_input_receiver_fn():
        inputs = {
            name: v1.placeholder(array.dtype, [None, *array.shape[1:]], name=name) for name, array in named.items()
        }
        if isinstance(features, dict):
            return tf.estimator.export.ServingInputReceiver(inputs, inputs)
        return tf.estimator.export.TensorServingInputReceiver(inputs["features"], inputs)

    path = estimator.export_saved_model(folder, serving_input_receiver_fn)
    with tf.Graph().as_default(), v1.Session() as session:
        signatures = v1.saved_model.load(session, [v1.saved_model.SERVING], path.decode()).signature_def
        signature = max(signatures.values(), key=lambda each: len(each.outputs))
        feed = {tensor.name: named[name] for name, tensor in signature.inputs.items()}
        served = session.run({name: tensor.name for name, tensor in signature.outputs.items()}, feed)
    return {"signatures": sorted(signatures), "served": plain(served)}


def plain(value):
    """Converts a value to JSON types."""
    import numpy as np

    if isinstance(value, dict):
        return {str(name): plain(part) for name, part in value.items()}
    if isinstance(value, bytes):
        return value.decode("latin-1")
    if isinstance(value, (np.ndarray, np.generic)):
        return plain(value.tolist())
    return [plain(part) for part in value] if isinstance(value, list) else value


def said(error):
    """Returns the error in one line, with the module that raised it."""
    traceback.print_exception(error, file=sys.stderr)
    place = traceback.extract_tb(error.__traceback__)[-1]
    module = "/".join(place.filename.split("/")[-2:])
    return f"{type(error).__name__}: {(str(error).strip().splitlines() or [''])[0][:200]} ({module}, {place.name})"


if __name__ == "__main__":
    main()
