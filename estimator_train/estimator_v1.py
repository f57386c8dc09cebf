"""tf.compat.v1.estimator.Estimator, which has export_savedmodel."""

import abc
import os
from collections.abc import Callable, Mapping

from estimator_train import estimator
from estimator_train._engine.exports.receivers import InputReceiver


class Estimator(estimator.Estimator, metaclass=abc.ABCMeta):
    """The `Estimator` with the interface of TensorFlow 1.

    As in tf.estimator, isinstance and issubclass accept every `estimator_train.Estimator` as one.
    """

    @classmethod
    def __subclasshook__(cls, subclass: type) -> bool:
        return issubclass(subclass, estimator.Estimator) if cls is Estimator else NotImplemented

    def export_savedmodel(
        self,
        export_dir_base: str | os.PathLike[str],
        serving_input_receiver_fn: Callable[[], InputReceiver],
        assets_extra: Mapping[str, str | os.PathLike[str]] | None = None,
        as_text: bool = False,
        checkpoint_path: str | None = None,
        strip_default_attrs: bool = False,
    ) -> bytes:
        """Calls `export_saved_model`, under its older name.

        `strip_default_attrs` has no effect: default-valued attributes of ops are always stripped.
        """
        return self.export_saved_model(
            export_dir_base, serving_input_receiver_fn, assets_extra, as_text, checkpoint_path
        )
