"""A result of one side alone is a difference, unless the package saves it at another step or by another name."""

from estimator_train.compat.verify.intended import reasons
from estimator_train.compat.verify.results import Name


def results(*steps, place="model/model.ckpt", names=("weight",)):
    return {Name("checkpoint", place, name, step): 0 for step in steps for name in names}


def test_steps_that_only_one_side_saves_are_meant_if_both_end_alike():
    old, new = results(0, 5, 12), results(0, 10, 12)
    reason = reasons(old, new)
    only = [*(old.keys() - new.keys()), *(new.keys() - old.keys())]
    assert [reason(name) for name in only] == ["results of steps at which only one side has saved"] * 2


def test_an_end_at_another_step_is_a_difference():
    old, new = results(0, 5, 12), results(0, 5, 11)
    assert [reasons(old, new)(name) for name in old.keys() ^ new.keys()] == [None, None]


def test_a_name_in_a_checkpoint_of_both_sides_is_a_difference():
    old, new = results(5, names=("weight", "slot")), results(5)
    assert reasons(old, new)(Name("checkpoint", "model/model.ckpt", "slot", 5)) is None


def test_other_names_in_trainings_of_keras_models_are_meant():
    new = results(5, names=("weight", "save_counter")) | {Name("event", "model", "loss", 1): 0}
    old = results(5, names=("weight", "slot")) | {Name("event", "model", "loss_1", 1): 0}
    old |= results(5, place="other/model.ckpt", names=("a",))
    meant = "variables and scalars that trainings of Keras models name otherwise here"
    found = {name.name: reasons(old, new)(name) for name in old.keys() ^ new.keys()}
    assert found == {"save_counter": meant, "slot": meant, "loss": meant, "loss_1": meant, "a": None}


def test_what_has_no_step_is_a_difference():
    old = {Name("printed", "1", "a"): 0, Name("export", "export/1", "y"): 0}
    assert [reasons(old, {})(name) for name in old] == [None, None]
