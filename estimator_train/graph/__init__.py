"""A model_fn's v1 graphs as the Estimator's loop runs them: a private room."""
