"""The module utils of tf.contrib.learn, of which saved_model_export_utils is supported."""

from estimator_train.compat.tf1.learn.utils import saved_model_export_utils as saved_model_export_utils
