"""Which of the runs before is the same look."""

import pytest

from nearsay.app.ui.explore.looking import same_command

OURS = ["explore", "pairs", "papers", "--limit", "20"]


@pytest.mark.parametrize(
    ("ran", "same"),
    [
        (OURS, True),
        (["explore", "pairs", "--device", "cpu", "papers", "--limit", "20"], True),
        (["explore", "pairs", "--device", "cpu", "--precision", "float32", "papers", "--limit", "20"], True),
        (["explore", "pairs", "papers", "--limit", "30"], False),
        (["explore", "pairs", "papers", "--limit", "20", "--threshold", "0.9"], False),
    ],
)
def test_a_look_is_the_same_wherever_its_encoder_ran(ran, same):
    assert same_command(ran, OURS) is same
