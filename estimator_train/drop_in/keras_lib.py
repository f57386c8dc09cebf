"""keras_lib.model_to_estimator, which tf_keras calls for tf.keras.estimator.model_to_estimator."""

from estimator_train import estimator_v1, keras_estimator


def model_to_estimator(
    keras_model=None,
    keras_model_path=None,
    custom_objects=None,
    model_dir=None,
    config=None,
    checkpoint_format=None,
    use_v2_estimator=False,
    metric_names_map=None,
    export_outputs=None,
):
    """`estimator_train.model_to_estimator`, with the class of the Estimator to choose.

    Args:
      checkpoint_format: None means "checkpoint".
      use_v2_estimator: False: an Estimator of tf.compat.v1.estimator.
      The others are those of `estimator_train.model_to_estimator`.
    """
    estimator = keras_estimator.model_to_estimator(
        keras_model,
        keras_model_path,
        custom_objects,
        model_dir,
        config,
        checkpoint_format or "checkpoint",
        metric_names_map,
        export_outputs,
    )
    return estimator if use_v2_estimator else estimator_v1.Estimator(estimator._model, config=estimator.config)
