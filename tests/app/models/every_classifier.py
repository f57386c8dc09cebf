"""`python -m tests.app.models.every_classifier` builds every classifier of keras.applications, and takes it apart."""

import sys

import tf_keras as keras

from estimator_train.app.models.backbones import CLASSES
from tests.app.models.test_classifier import check_classifier, check_features

if __name__ == "__main__":
    for name in sys.argv[1:] or CLASSES:
        check_classifier(name)
        keras.backend.clear_session()
        check_features(name)
        keras.backend.clear_session()
        print(name, flush=True)
