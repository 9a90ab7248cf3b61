"""Pairs grouped by anchor."""

import pytest

from nearsay.data.errors import BadInputError
from nearsay.training.sentence.negatives.candidates import AnchorSet


def test_pairs_of_one_anchor_are_one_anchor_with_several_positives() -> None:
    grouped = AnchorSet.of([("Kettle", "Boiler"), ("Lamp", "Light"), ("kettle ", "Teapot")])
    assert [(anchor.text, anchor.positives) for anchor in grouped.anchors] == [
        ("Kettle", ("Boiler", "Teapot")),
        ("Lamp", ("Light",)),
    ]
    assert list(grouped.positives()) == ["Boiler", "Teapot", "Light"]
    assert grouped.repeated == 0


def test_repeated_pairs_and_pairs_of_a_text_with_itself_are_counted_and_left_out() -> None:
    grouped = AnchorSet.of([("a cup", "a mug"), ("A CUP", "a  mug"), ("a cup", "A cup?"), ("soap", "Soap.")])
    assert [anchor.text for anchor in grouped.anchors] == ["a cup"]
    assert grouped.repeated == 3


@pytest.mark.parametrize(
    ("text", "belongs"),
    [
        ("sofa", True),  # itself
        ("couch", True),  # its positive
        ("settee", True),  # it is the positive of this one
        ("davenport", True),  # shares the partner couch
        ("divan", False),  # three pairs away
        ("lamp", False),  # in no pair at all
    ],
)
def test_what_two_pairs_link_belongs_together_and_what_is_farther_does_not(text: str, belongs: bool) -> None:
    pairs = [("sofa", "couch"), ("settee", "sofa"), ("davenport", "couch"), ("davenport", "divan")]
    grouped = AnchorSet.of(pairs)
    assert grouped.belongs(grouped.anchors[0], text) is belongs


def test_without_pairs_of_different_texts_there_is_nothing_to_mine_for() -> None:
    with pytest.raises(BadInputError, match=r"no pairs .*different"):
        AnchorSet.of([("same", "Same!")])
