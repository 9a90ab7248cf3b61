"""Which encoder a generation was made by, as a command names it."""

from nearsay.app.ui.collections.encoder_choice import encoder_choices, source_of
from nearsay.indexer.catalogue.generations import EncoderRow
from nearsay.training.sentence.bundled import BUNDLED_NAME


def made_by(name: str, source: str) -> EncoderRow:
    return EncoderRow(1, name, source, "f" * 64, 384, 254, normalised=True, lineage=())


def test_the_encoder_of_a_generation_is_offered_under_the_source_that_leaves_it_out():
    own, bundled = made_by("mine", "/models/mine"), made_by(BUNDLED_NAME, "/elsewhere/all-MiniLM")
    offered = [choice.source for choice in encoder_choices([own, bundled])]
    assert offered == [BUNDLED_NAME, "/models/mine"]
    assert source_of(own) == "/models/mine"
    assert source_of(bundled) == BUNDLED_NAME
