"""tf.contrib.learn.utils: export strategies, and the inputs of exports."""

from estimator_train.compat.tf1.learn.utils import input_fn_utils as input_fn_utils
from estimator_train.compat.tf1.learn.utils import saved_model_export_utils as saved_model_export_utils

InputFnOps = input_fn_utils.InputFnOps
build_default_serving_input_fn = input_fn_utils.build_default_serving_input_fn
build_parsing_serving_input_fn = input_fn_utils.build_parsing_serving_input_fn
make_export_strategy = saved_model_export_utils.make_export_strategy
