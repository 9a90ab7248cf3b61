"""Which of the jobs before is the same look."""

import pytest

from nearsay.app.jobs.command_line import checked

OURS = ["explore", "pairs", "papers", "--limit", "20"]


@pytest.mark.parametrize(
    ("ran", "same"),
    [
        (OURS, True),
        (["explore", "pairs", "-n20", "papers", "--json"], True),
        (["explore", "pairs", "--device", "cpu", "papers", "--limit", "20"], True),
        (["explore", "pairs", "papers", "--limit", "30"], False),
        (["explore", "pairs", "notes", "--limit", "20"], False),
        (["explore", "pairs", "papers", "--limit", "20", "--threshold", "0.9"], False),
    ],
)
def test_a_look_is_the_same_however_it_was_asked_for_and_wherever_its_encoder_ran(ran, same):
    assert (checked(ran, device="cuda").subject == checked(OURS).subject) is same
