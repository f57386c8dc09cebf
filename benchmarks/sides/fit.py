"""What tf_keras and Keras 3 have in common: `fit`, of the Keras that is given."""

from benchmarks.sides import tensorflow_parts as parts
from benchmarks.sides.serve import peak_bytes


def flagship(keras, files, epochs, **compile_options):
    def train(paths, epochs):
        keras.backend.clear_session()
        model = parts.vgg16(keras, keras.optimizers.Adam(1e-4), **compile_options)
        model.fit(parts.jpeg_batches(paths), epochs=epochs, verbose=0)

    paths = parts.jpeg_paths(files)
    train(paths[: parts.BATCH], 1)
    return lambda: train(paths, epochs)


def memory(keras, files):
    run = flagship(keras, files, 1)
    return lambda: run() or {"peak": peak_bytes()}
