"""Directories that training services pass in environment variables: Vertex AI's AIP_* and SageMaker's SM_*.

Sources: Vertex AI, "Environment variables for special Cloud Storage directories"; SageMaker Training Toolkit,
ENVIRONMENT_VARIABLES.md.
"""

import os

MODEL_DIR = ("AIP_MODEL_DIR", "SM_MODEL_DIR")  # the first one that is set is the default of --model-dir

_CHANNEL = "SM_CHANNEL_"


def data_dir() -> tuple[str | None, str | None]:
    """Returns the default of --data-dir and the variables that it comes from, or (None, None).

    A single channel is the data directory itself. Of several, such as train and test, it is the common parent, the
    layout that `datasets.images.open_directory` expects.
    """
    channels = sorted(name for name in os.environ if name.startswith(_CHANNEL) and os.environ[name])
    if not channels:
        return None, None
    return os.path.commonpath([os.environ[name] for name in channels]), ", ".join(channels)
