"""The campaigns' frame, and a short run of each kind."""

import random
from types import SimpleNamespace

import pytest

from estimator_train.app.cli.commands.train import train
from tests.fuzz import __main__ as campaigns
from tests.fuzz import command, graphs, keras, resumed_trainings, resumes, sides, toy
from tests.fuzz.process import CheckingProcess

# Kind, seed and number of each case, chosen for different models and verbs; both Kerases, and two replicas of each.
SHORT = [(keras, 21, 0), (keras, 21, 1), *((command, 28, number) for number in range(2))]
SHORT += [*((resumes, 64, number) for number in range(3)), (resumed_trainings, 64, 0)]
SHORT += [(graphs, 66, number) for number in range(2)]
SHORT += [(sides, 6, number) for number in range(8)]  # of all kinds


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "seed", "number"), SHORT, ids=lambda value: getattr(value, "__name__", value))
def test_a_case_of_a_campaign_finds_nothing(kind, seed, number, monkeypatch, mirrored, tmp_path):
    """In this process, which has TensorFlow, its devices and its strategies already."""
    strategies = {1: None, 2: mirrored(2)}
    monkeypatch.setattr(keras, "_strategy", strategies.get)
    monkeypatch.setattr(command, "_shared_replicas", lambda: lambda count, all_reduce=None: strategies[count])
    kind.check(campaigns.case_of(kind, seed, number), tmp_path)


def test_a_campaign_prints_the_seed_and_the_shrunk_case_of_each_failure(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["fuzz", "toy", "--seed", "3", "--cases", "3"])
    assert campaigns.main() == 1
    lines = capsys.readouterr().out.splitlines()
    assert "--seed 3 --only 0" in next(line for line in lines if line.startswith("FAILED"))
    assert '{"number": 21}' in lines
    assert lines[-1].startswith("3 cases, ")


def test_a_campaign_survives_cases_that_hang_or_kill_their_process():
    with CheckingProcess("toy", 2) as process:
        assert "TimeoutError: no result after 2 s" in process.failure({"number": 99})
        assert process.failure({"number": 1}) is None
        assert "ProcessEnded: exit code -9" in process.failure({"number": 98})
        assert process.failure({"number": 1}) is None
        assert process.failure({"number": 30}).endswith("ValueError: 30 is above 20")


def test_a_kind_that_lists_its_cases_has_each_checked_once():
    kind = SimpleNamespace(every=lambda: [{"number": number} for number in range(5)])
    cases = [campaigns.case_of(kind, 3, number) for number in range(5)]
    assert cases != kind.every() and sorted(case["number"] for case in cases) == [0, 1, 2, 3, 4]


def test_a_case_is_not_shrunk_to_another_failure():
    def check(case):
        return None if case["number"] < 5 else "KeyError: a" if case["number"] < 30 else "ValueError: b"

    assert campaigns.shrink({"number": 80}, "ValueError: b", toy.smaller, check)[0] == {"number": 30}


def test_the_campaign_of_the_command_draws_every_flag_of_train():
    words = set()
    for seed in range(1000):
        case = command.draw(random.Random(seed))
        lines = [command.arguments(case["flags"]), command.arguments(case["resumed"] or {}), *case["verbs"]]
        words |= {word.partition("=")[0] for line in lines for word in line}
    flags = {flag for parameter in train.params for flag in parameter.opts if flag.startswith("--")}
    assert flags - words == set()
