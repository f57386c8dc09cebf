"""Phases of a fine-tuning, as they are read from text."""

import pytest

from estimator_train.app.models import Phase, parse_phases


def test_phases_are_read_in_their_order():
    assert parse_phases("freeze=all epochs=2 lr=1e-3; epochs=5 freeze=block4_pool;") == (
        Phase("all", 2, 1e-3),
        Phase("block4_pool", 5, None),
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "'' has an empty phase; write them as 'freeze=all epochs=2"),
        ("freeze=all epochs=1;; freeze=none epochs=1", "has an empty phase"),
        ("freeze=all", "the phase 'freeze=all' has no epochs="),
        ("epochs=1", "the phase 'epochs=1' has no freeze="),
        ("freeze=all epochs=0", "epochs=0 in the phase 'freeze=all epochs=0' is not a number of epochs such as 5"),
        ("freeze=all epochs=1.5", "epochs=1.5 in the phase"),
        ("freeze=all epochs=9223372036854775807", "is not a number of epochs such as 5"),
        ("freeze=all epochs=1 lr=fast", "lr=fast in the phase 'freeze=all epochs=1 lr=fast' is not a learning rate"),
        ("freeze=all epochs=1 lr=-1", "lr=-1 in the phase"),
        ("freeze=all epochs=1 lr=inf", "lr=inf in the phase"),
        ("freeze=all epochs=1 epochs=2", "'epochs=2' in the phase"),
        (
            "freeze=all epochs=1 rate=1",
            "'rate=1' in the phase 'freeze=all epochs=1 rate=1': a phase has freeze=, epochs= and lr=",
        ),
        ("freeze= epochs=1", "'freeze=' in the phase"),
    ],
)
def test_what_is_no_phase_is_named(text, message):
    with pytest.raises(ValueError) as caught:
        parse_phases(text)
    assert message in str(caught.value) and "\n" not in str(caught.value)
