"""A question in a language that the encoder does not know."""

import pytest

from nearsay.indexer import Library
from nearsay.training.sentence.encoder import Encoder
from nearsay.training.sentence.known_languages import UNNAMED, unknown_language


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("冬天饥饿的动物", "Chinese characters"),
        ("冬の飢えた動物たちはどこで眠りますか", "Japanese"),
        ("会議はいつですか", "Japanese"),  # all but one of its signs are in the vocabulary
        ("カタカナ", "Japanese"),
        ("大人", "Chinese characters"),
        ("겨울에 배고픈 동물", "Korean"),
        ("голодные животные зимой", "Cyrillic script"),
        ("πεινασμένα ζώα το χειμώνα", "Greek script"),
        ("حيوانات جائعة في الشتاء", "Arabic script"),
        ("Hungrige Tiere im Winter", "German"),
        ("wie pflegt man Rosen", "German"),
        ("hongerige dieren in de winter", "Dutch"),
        ("animales hambrientos en invierno", UNNAMED),
        ("hungry animals in winter", None),
        ("die casting machine", None),
        ("café naïve résumé", None),
        ("Pyridostatin deregulates G2/M progression.", None),
        ("the meaning of 冬", None),
        ("im not able to log in", None),
        ("12 + 30", None),
        ("", None),
    ],
)
def test_the_bundled_encoder_knows_english_alone(bundled: Encoder, text: str, language: str | None) -> None:
    assert unknown_language(text, bundled) == language


def test_of_an_encoder_that_does_not_show_its_tokens_nothing_is_said() -> None:
    assert unknown_language("冬天饥饿的动物", object()) is None


def test_a_search_says_it_once_and_only_where_meaning_counts(tmp_path) -> None:
    with Library.open(tmp_path / "library", device="cpu") as library:
        notes = library.collection("notes")
        notes.add_rows([{"id": "a", "text": "Badgers hardly eat in winter."}])
        for mode, count in (("hybrid", 1), ("dense", 1), ("lexical", 0)):
            found = notes.search("Hungrige Tiere im Winter", 1, mode=mode)
            assert sum("in German, which all-MiniLM-L6-v2" in note for note in found.notes) == count
        assert not notes.search("hungry animals in winter", 1).notes
