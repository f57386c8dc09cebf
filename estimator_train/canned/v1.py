"""The canned estimators of tf.compat.v1.estimator, derived from those of tf.estimator."""

import inspect
from collections.abc import Callable
from typing import Any, TypeVar

from estimator_train._engine.argument_names import bind, with_defaults
from estimator_train.canned import baseline, dnn, linear
from estimator_train.canned import dnn_linear_combined as combined
from estimator_train.canned.api_versions import ApiV1
from estimator_train.estimator_v1 import Estimator

_Base = TypeVar("_Base")


def _tf1(base: type[_Base], partitioner: str | None = None, in_branch: bool = False) -> type[_Base]:
    """Returns the v1 version of `base`: v1 optimizers, loss_reduction="weighted_sum" and an argument `partitioner`.

    Models that are purely linear or DNNs are `in_branch`; see `ApiV1`.
    """
    signature = _signature(base, partitioner)

    class Canned(Estimator, base):  # type: ignore[valid-type, misc]
        __doc__ = base.__doc__

        def __init__(self, *args: Any, **kwargs: Any) -> None:
            arguments = bind(signature, self, *args, **kwargs)
            del arguments["self"]
            given = arguments.pop(partitioner) if partitioner else None
            self._api_version = ApiV1(partitioned=partitioner is not None, in_branch=in_branch, partitioner=given)
            super().__init__(**arguments)

        __init__.__signature__ = signature  # type: ignore[attr-defined]

    Canned.__name__ = Canned.__qualname__ = base.__name__
    return Canned


def _signature(base: type, partitioner: str | None) -> inspect.Signature:
    signature = with_defaults(base.__init__, loss_reduction="weighted_sum")  # type: ignore[misc]
    parameters = list(signature.parameters.values())
    if partitioner:
        place = list(signature.parameters).index("config")
        argument = parameters[place].replace(name=partitioner, annotation=Callable[..., Any] | None)
        parameters.insert(place + (partitioner == "partitioner"), argument)  # the other name comes before config
    return inspect.Signature(parameters)


LinearClassifier = _tf1(linear.LinearClassifier, "partitioner", in_branch=True)
LinearRegressor = _tf1(linear.LinearRegressor, "partitioner", in_branch=True)
LinearEstimator = _tf1(linear.LinearEstimator, "partitioner", in_branch=True)
DNNClassifier = _tf1(dnn.DNNClassifier, "input_layer_partitioner", in_branch=True)
DNNRegressor = _tf1(dnn.DNNRegressor, "input_layer_partitioner", in_branch=True)
DNNEstimator = _tf1(dnn.DNNEstimator, "input_layer_partitioner", in_branch=True)
DNNLinearCombinedClassifier = _tf1(combined.DNNLinearCombinedClassifier, "input_layer_partitioner")
DNNLinearCombinedRegressor = _tf1(combined.DNNLinearCombinedRegressor, "input_layer_partitioner")
DNNLinearCombinedEstimator = _tf1(combined.DNNLinearCombinedEstimator, "input_layer_partitioner")
BaselineClassifier = _tf1(baseline.BaselineClassifier)
BaselineRegressor = _tf1(baseline.BaselineRegressor)
BaselineEstimator = _tf1(baseline.BaselineEstimator)
