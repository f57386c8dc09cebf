"""One finder provides the modules at old paths, from a table that the scan reads, too."""

import importlib.util
import json
import sys

from estimator_train.compat import drop_in
from estimator_train.compat.drop_in import moved, old_paths
from estimator_train.compat.drop_in.old_paths import Provider, provider_of
from estimator_train.compat.scan.lookup import Lookup
from estimator_train.compat.tf1 import contrib_modules, private_tensorflow


def test_the_nearest_path_above_decides_who_provides_a_module():
    outer, inner = Provider(), Provider()
    table = {"old": outer, "old.inner": inner}
    assert provider_of(table, "old") is provider_of(table, "old.other.module") is outer
    assert provider_of(table, "old.inner.module") is inner
    assert provider_of(table, "older") is provider_of(table, "new.old") is None


def test_a_module_that_is_at_its_old_path_still_is_not_replaced(monkeypatch):
    monkeypatch.setitem(moved.MODULES, "json.decoder", "json.encoder")
    assert moved.Moved().spec_of("json.decoder", json.__path__).origin == json.decoder.__file__
    monkeypatch.setitem(moved.MODULES, "json.old_decoder", "json.decoder")
    module = importlib.util.module_from_spec(moved.Moved().spec_of("json.old_decoder", json.__path__))
    module.__spec__.loader.exec_module(module)
    assert module.JSONDecoder is json.JSONDecoder


def test_a_table_that_is_added_later_goes_to_the_same_finder(monkeypatch):
    monkeypatch.setattr(old_paths._FINDER, "providers", dict(old_paths._FINDER.providers))
    monkeypatch.setitem(moved.MODULES, "old_json", "json")
    assert not old_paths.is_installed("old_json")
    old_paths.install({"old_json": moved.Moved()})
    assert old_paths.is_installed("old_json") and sys.meta_path.count(old_paths._FINDER) == 1
    monkeypatch.setitem(sys.modules, "old_json", None)  # removed at the end
    del sys.modules["old_json"]
    assert importlib.import_module("old_json").loads is json.loads


def test_the_scan_finds_each_module_that_the_finder_does():
    lookup = Lookup(tf1=False)
    assert not [path for path in drop_in.PROVIDERS if importlib.util.find_spec(path) is None]
    assert not [path for path in drop_in.PROVIDERS if lookup.module(path) is None]


def test_the_table_of_tensorflow_1_answers_without_an_import():
    providers = drop_in.PROVIDERS | contrib_modules.PROVIDERS | private_tensorflow.PROVIDERS
    before = set(sys.modules)
    for path, sources in {
        "tensorflow.contrib.training": ["estimator_train.compat.tf1.contrib.training"],
        "tensorflow.contrib.no_such": None,
        "tensorflow.python.keras.layers": ["tf_keras.src.layers", "tensorflow.keras.layers"],
        "tensorflow.python.training.tracking.base": ["tensorflow.python.trackable.base"],
        "tensorflow.estimator": [],
        "tensorflow.estimator.no_such": None,
    }.items():
        assert provider_of(providers, path).sources(path) == sources, path
    assert set(sys.modules) == before
