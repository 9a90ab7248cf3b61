"""Which of the runs before is the same look."""

import pytest

from nearsay.app.ui.explore.looking import same_command

OURS = ["explore", "pairs", "papers", "--top", "20"]


@pytest.mark.parametrize(
    ("ran", "same"),
    [
        (OURS, True),
        (["explore", "pairs", "--device", "cpu", "papers", "--top", "20"], True),
        (["explore", "pairs", "--device", "cpu", "--precision", "float32", "papers", "--top", "20"], True),
        (["explore", "pairs", "papers", "--top", "30"], False),
        (["explore", "pairs", "papers", "--top", "20", "--threshold", "0.9"], False),
    ],
)
def test_a_look_is_the_same_wherever_its_encoder_ran(ran, same):
    assert same_command(ran, OURS) is same
