from tf215_losses import expected, generations, loss


@generations(slow="v1")
def test_baselines(generation, examples):
    """On one feature: with several, 2.15's v2 classes fail."""
    input_fn = examples(keys="b")
    assert loss(generation.BaselineClassifier(), input_fn) == expected(
        generation, 0.6619492769241333, 5.292506217956543
    )
    assert loss(generation.BaselineRegressor(), input_fn) == expected(
        generation, 0.23438814282417297, 1.8750674724578857
    )
