"""tf.compat.v1.estimator.Estimator: the Estimator with export_savedmodel."""

import abc

from estimator_train import estimator


class Estimator(estimator.Estimator, metaclass=abc.ABCMeta):
    """The `Estimator`, of TensorFlow 1's interface.

    isinstance and issubclass count every `estimator_train.Estimator` as one, as tf.estimator's did.
    """

    @classmethod
    def __subclasshook__(cls, subclass):
        return issubclass(subclass, estimator.Estimator) if cls is Estimator else NotImplemented

    def export_savedmodel(
        self,
        export_dir_base,
        serving_input_receiver_fn,
        assets_extra=None,
        as_text=False,
        checkpoint_path=None,
        strip_default_attrs=False,
    ):
        """`export_saved_model` under its older name.

        `strip_default_attrs` changes nothing: ops' attributes at their defaults are always left out, and load alike.
        """
        return self.export_saved_model(
            export_dir_base, serving_input_receiver_fn, assets_extra, as_text, checkpoint_path
        )
