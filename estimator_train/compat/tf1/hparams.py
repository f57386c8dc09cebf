"""HParams of tf.contrib.training: named settings, which can be set from a dict, JSON or "name=value,name=value"."""

from __future__ import annotations

import json
import numbers
import re
from typing import Any

# name=value or name[2]=value, where the value is [a list] or extends to the next comma.
_SETTING = re.compile(
    r"\s*(?P<name>[a-zA-Z][\w.]*)(?:\[\s*(?P<index>\d+)\s*\])?\s*="
    r"\s*(?:\[(?P<list>[^\]]*)\]|(?P<value>[^,\[]*))\s*(?:,|$)"
)


class HParams:
    """Holds settings as attributes. A setting keeps the type of its first value; a list's items have the same type.

        >>> hparams = HParams(learning_rate=0.1, layers=[64, 64])
        >>> hparams.parse("learning_rate=0.01,layers=[32]")
        HParams([('layers', [32]), ('learning_rate', 0.01)])

    A setting that starts as None accepts any value. As in TensorFlow 1, errors are ValueErrors, except that
    `override_from_dict` and `set_hparam` raise a KeyError for unknown names.
    """

    def __init__(self, hparam_def: Any = None, model_structure: Any = None, **kwargs: Any) -> None:
        if hparam_def is not None:
            raise ValueError("hparam_def, a protocol buffer of tf.contrib, is not supported; pass the settings by name")
        self._types: dict[str, tuple[type, bool]] = {}
        self._model_structure = model_structure
        for name, value in kwargs.items():
            self.add_hparam(name, value)

    def add_hparam(self, name: str, value: Any) -> None:
        """Adds a setting; raises ValueError if the name is taken or the value is an empty list, which has no type."""
        if getattr(self, name, None) is not None:
            raise ValueError(f"Hyperparameter name is reserved: {name}")
        if isinstance(value, (list, tuple)):
            if not value:
                raise ValueError(f"Multi-valued hyperparameters cannot be empty: {name}")
            self._types[name] = (type(value[0]), True)
        else:
            self._types[name] = (type(value), False)
        setattr(self, name, value)

    def set_hparam(self, name: str, value: Any) -> None:
        """Changes a setting, converting `value` to its type; raises ValueError if that is impossible."""
        kind, is_list = self._types[name]
        if isinstance(value, list):
            if not is_list:
                raise ValueError(f"Must not pass a list for single-valued parameter: {name}")
            setattr(self, name, [_cast(name, kind, part) for part in value])
        elif is_list:
            raise ValueError(f"Must pass a list for multi-valued parameter: {name}.")
        else:
            setattr(self, name, _cast(name, kind, value))

    def del_hparam(self, name: str) -> None:
        """Removes a setting, if it exists."""
        if name in self._types:
            delattr(self, name)
            del self._types[name]

    def parse(self, values: str) -> HParams:
        """Changes settings from "name=value,name=[value,value],name[0]=value"; returns self."""
        lists: dict[str, list[Any]] = {}
        parsed: dict[str, Any] = {}
        for match in _settings(values):
            name = match["name"]
            if name not in self._types:
                raise ValueError(f"Unknown hyperparameter type for {name}")
            if match["index"] is not None:
                self._set_item(lists, match)
            elif name in parsed:
                raise ValueError(f"Multiple assignments to variable '{name}' in {values}")
            else:
                parsed[name] = self._parsed(match)
        return self.override_from_dict(lists | parsed)

    def _set_item(self, lists, match):
        """Sets an item of the setting's list in `lists`, which is a copy of the setting."""
        name, index = match["name"], int(match["index"])
        kind, is_list = self._types[name]
        if not is_list or match["value"] is None:
            raise ValueError(f"Must pass a value for an index of a list: {name}[{index}]")
        changed = lists.setdefault(name, list(getattr(self, name)))
        if index >= len(changed):
            raise ValueError(f"{name} has {len(changed)} values, none at [{index}]")
        changed[index] = _parse(name, kind, match["value"])

    def _parsed(self, match):
        name = match["name"]
        kind, is_list = self._types[name]
        if match["list"] is not None:
            return [_parse(name, kind, part) for part in re.split("[ ,]", match["list"]) if part]
        value = _parse(name, kind, match["value"])
        if is_list:
            return [value]
        return value

    def override_from_dict(self, values_dict: dict[str, Any]) -> HParams:
        """Changes settings from a dict; returns self."""
        for name, value in values_dict.items():
            self.set_hparam(name, value)
        return self

    def parse_json(self, values_json: str) -> HParams:
        """Changes settings from a JSON object; returns self."""
        return self.override_from_dict(json.loads(values_json))

    def to_json(
        self, indent: int | str | None = None, separators: tuple[str, str] | None = None, sort_keys: bool = False
    ) -> str:
        """Returns the settings as a JSON object, without functions."""
        values = {name: value for name, value in self.values().items() if not callable(value)}
        return json.dumps(values, indent=indent, separators=separators, sort_keys=sort_keys)

    def values(self) -> dict[str, Any]:
        """Returns a dict of the settings."""
        return {name: getattr(self, name) for name in self._types}

    def get(self, key: str, default: Any = None) -> Any:
        """Returns a setting, or `default` if it does not exist; raises ValueError if `default` has another type."""
        if key not in self._types:
            return default
        kind, is_list = self._types[key]
        if default is not None:
            for part in default if is_list and isinstance(default, list) else [default]:
                _cast(key, kind, part)
        return getattr(self, key)

    def get_model_structure(self) -> Any:
        return self._model_structure

    def set_model_structure(self, model_structure: Any) -> None:
        self._model_structure = model_structure

    def __contains__(self, key: str) -> bool:
        return key in self._types

    def __str__(self) -> str:
        return ",".join(f"{name}={value}" for name, value in self.values().items())

    def __repr__(self) -> str:
        return f"{type(self).__name__}({sorted(self.values().items())})"


def _settings(values):
    """Yields a match of `_SETTING` for each of the settings in a string."""
    position = 0
    while position < len(values):
        match = _SETTING.match(values, position)
        if match is None:
            raise ValueError(f"Malformed hyperparameter value: {values[position:]}")
        yield match
        position = match.end()


def _parse(name, kind, text):
    text = text.strip()
    if kind is bool:
        spellings = {"true": True, "1": True, "false": False, "0": False}
        if text.lower() not in spellings:
            raise ValueError(f"Could not parse {text!r} as bool for hyperparameter {name}")
        return spellings[text.lower()]
    if issubclass(kind, numbers.Number):
        try:
            return kind(text)
        except ValueError:
            raise ValueError(f"Could not parse hparam '{name}' of type '{kind.__name__}' with value {text!r}") from None
    return text


def _cast(name, kind, value):
    """Returns `value` as `kind`; raises ValueError if information would be lost."""
    is_number = isinstance(value, numbers.Number) and not isinstance(value, bool)
    if kind is type(None) or isinstance(value, kind) and (kind is not int or is_number):
        return value
    if kind is float and is_number or (kind is int and isinstance(value, numbers.Integral) and is_number):
        return kind(value)
    if issubclass(kind, str) and isinstance(value, bytes):
        return value.decode()
    raise ValueError(f"Could not cast hparam '{name}' of type '{kind.__name__}' from value {value!r}")
