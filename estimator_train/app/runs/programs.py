"""The programs in examples/ that took the place of recipes, a former second kind of run, and of their flags."""

import re
from collections.abc import Iterable
from typing import Any

from estimator_train.app.errors import SettingError

_NAMES = ("segmentation", "cats_vs_dogs", "cyclegan", "unet3d")
_OF_WORDS = {
    "recipes": _NAMES,
    "--recipe": _NAMES,
    "--filters": ("segmentation", "cyclegan", "unet3d"),
    "--volume": ("unet3d",),
    "--split-over": ("unet3d",),
}


def check_former_words(words: Iterable[str], arguments: Iterable[str]) -> None:
    """Raises SettingError, which names the program, if one of the `words` among the `arguments` was for recipes."""
    for word in words:
        name = word.partition("=")[0]
        if name in _OF_WORDS:
            recipe = re.search(r"--recipe[= ](\w+)", " ".join(arguments))
            advice = instead(recipe and recipe[1], _OF_WORDS[name])
            raise SettingError("{0} has left the command: {1}", name, advice)


def instead(recipe: Any, names: tuple[str, ...] = _NAMES) -> str:
    """Returns what to run instead of a recipe; if there was none of that name, one of the programs `names`."""
    if recipe in _NAMES:
        names = (recipe,)
    paths = " or ".join(f"examples/{name}.py" for name in names)
    return f"copy {paths} from the repository, and run that program instead"
