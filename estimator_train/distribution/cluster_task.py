"""TF_CONFIG, the environment variable that tells a process its place in a cluster; read without TensorFlow."""

from __future__ import annotations

import json
import os


def read_tf_config() -> dict:
    """The environment variable TF_CONFIG, decoded; {} where it is absent or the empty string.

    Raises ValueError when it is not a JSON object, TypeError when its cluster, task or service is not one.
    """
    text = os.environ.get("TF_CONFIG")
    if not text:
        return {}
    try:
        tf_config = json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"TF_CONFIG is not valid JSON ({error}): {text!r}; mend or unset it.") from error
    if not isinstance(tf_config, dict):
        raise ValueError(f"TF_CONFIG must be a JSON object, {{...}}, got {text!r}; mend or unset it.")
    for key in ("cluster", "task", "service"):
        if not isinstance(tf_config.get(key), dict | None):
            raise TypeError(f"{key} in TF_CONFIG must be a JSON object, {{...}}, got {tf_config[key]!r}.")
    for job, tasks in (tf_config.get("cluster") or {}).items():
        if not isinstance(tasks, list | dict):
            raise ValueError(f"{job} in TF_CONFIG's cluster must be a list of host:port, got {tasks!r}.")
    return tf_config
