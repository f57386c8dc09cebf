"""Chooses the devices that this process sees."""

from estimator_train._engine.application import replace_by_cpus, show_gpus
from estimator_train.app.errors import SettingError, one_line_errors


def choose(gpus, replicas=None):
    """Shows this process only the first `gpus` GPUs, or lets `replicas` CPU replicas stand in for missing GPUs."""
    if gpus and replicas:
        raise SettingError("{gpus} and {replicas} exclude each other; give one")
    with one_line_errors():
        if gpus:
            show_gpus(gpus)
        else:
            replace_by_cpus(replicas)
