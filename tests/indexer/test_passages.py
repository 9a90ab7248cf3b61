"""How a document becomes passages, and what of it decides whether something is embedded again."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from words_encoder import WordsEncoder

from nearsay.data.chunking import Chunking
from nearsay.data.document import Document, JsonValue
from nearsay.indexer.catalogue.passages import cut, encoded_text, prepare, text_hash

_TOKENS = Chunking()


def test_the_encoded_text_is_the_title_and_the_passage() -> None:
    assert encoded_text("A title", "the passage") == "A title the passage"
    assert encoded_text("", "the passage") == "the passage"


def test_a_text_hash_is_the_beginning_of_its_sha256() -> None:
    # printf 'a cat sat' | sha256sum
    assert text_hash("a cat sat") == "8b9d07aefc6bb91e81f419f522c008d6"
    assert text_hash("Käse") != text_hash("Kase")


@pytest.mark.parametrize(
    ("other", "content_changes", "row_changes"),
    [
        (Document("text", title="title", metadata={"year": 1}, source="/a", line=1), False, False),
        (Document("text", title="title", metadata={"year": 1}, source="/a", line=9), False, False),
        (Document("text", title="title", metadata={"year": 1}, source="/b"), False, True),
        (Document("text", title="title", metadata={"year": 2}, source="/a"), False, True),
        (Document("text", title="title", metadata={"year": "1"}, source="/a"), False, True),
        (Document("text", title="other", metadata={"year": 1}, source="/a"), True, True),
        (Document("other", title="title", metadata={"year": 1}, source="/a"), True, True),
    ],
)
def test_the_hashes_tell_what_changed(other: Document, content_changes: bool, row_changes: bool) -> None:
    first = prepare(Document("text", title="title", metadata={"year": 1}, source="/a", line=1), "x")
    second = prepare(other, "x")
    assert (first.content_hash != second.content_hash) is content_changes
    assert (first.row_hash != second.row_hash) is row_changes


def test_the_order_of_metadata_changes_no_hash() -> None:
    one: dict[str, JsonValue] = {"a": 1, "b": {"c": 2, "d": 3}}
    two: dict[str, JsonValue] = {"b": {"d": 3, "c": 2}, "a": 1}
    assert (
        prepare(Document("t", metadata=one), "x").row_hash
        == prepare(Document("t", metadata=two), "x").row_hash
    )


def test_hashes_are_those_that_libraries_hold_already() -> None:
    metadata: dict[str, JsonValue] = {"é": {"y": True, "x": 1.5}, "a": [1, None]}
    prepared = prepare(Document("a cat", title="A title", metadata=metadata, source='/a "b"'))
    # printf 'A title\0a cat' | sha256sum
    assert prepared.content_hash == "37c9e4a389f240789b82678fa6596f99"
    # printf '["37c9…", "/a \"b\"", {"a": [1, null], "é": {"x": 1.5, "y": true}}]' | sha256sum
    assert prepared.row_hash == "2545ae40d38ef406cf71f52bebe644a8"
    # printf '["%s", null, {}]' $(printf '\0a cat' | sha256sum | cut -c1-32) | sha256sum
    assert prepare(Document("a cat")).row_hash == "7cf7833cbb79569e7a365737d2cb5b26"


def test_a_document_without_an_id_of_its_own_says_so() -> None:
    assert prepare(Document("text"), "#name").named_by_content
    assert not prepare(Document("text", id="x"), "x").named_by_content


def test_a_short_text_is_one_passage_without_its_outer_white_space() -> None:
    assert _pieces(Document("  a cat \n"), _TOKENS) == ["a cat"]


def test_whole_sentences_fill_the_room_that_the_encoder_has() -> None:
    # Ten tokens a sentence with its full stop: three fit into 32, the least room there is.
    sentences = [
        f"Here are nine words that say what {name} is."
        for name in ("Ann", "Ben", "Dan", "Eve", "Fay", "Gus", "Ida")
    ]
    assert _pieces(Document(" ".join(sentences)), Chunking(overlap=0)) == [
        " ".join(sentences[0:3]),
        " ".join(sentences[3:6]),
        sentences[6],
    ]


def test_a_title_takes_its_tokens_from_the_room_of_every_passage() -> None:
    encoder = WordsEncoder(max_tokens=60)
    text = " ".join(["word"] * 60)
    assert len(_pieces(Document(text), Chunking(overlap=0), encoder)) == 1
    titled = Document(text, title="ten " * 10)
    spans = cut([titled], Chunking(overlap=0), encoder)[0]
    assert len(spans) == 2
    for begin, end in spans:
        assert len(encoded_text(titled.title, text[begin:end]).split()) <= 60


def test_a_title_as_long_as_the_encoder_takes_leaves_room_for_text() -> None:
    pieces = _pieces(Document(" ".join(["word"] * 64), title="long " * 100), Chunking(overlap=0))
    assert [len(piece.split()) for piece in pieces] == [32, 32]


def test_a_window_that_is_asked_for_is_never_larger_than_the_room() -> None:
    encoder = WordsEncoder(max_tokens=40)
    text = " ".join(["word"] * 80)
    assert [len(p.split()) for p in _pieces(Document(text), Chunking(tokens=20, overlap=0), encoder)] == [
        20
    ] * 4
    assert [len(p.split()) for p in _pieces(Document(text), Chunking(tokens=99, overlap=0), encoder)] == [
        40
    ] * 2


def test_sentences_are_cut_however_short_the_text_is() -> None:
    assert _pieces(Document("One cat. Two dogs."), Chunking.parse("sentences")) == ["One cat.", "Two dogs."]


def test_without_chunking_a_document_is_one_passage_however_long() -> None:
    text = " ".join(["One cat sat."] * 100)
    assert _pieces(Document(text), Chunking.parse("none")) == [text]


def test_the_spans_belong_to_their_documents() -> None:
    long = " ".join(f"Sentence {letter} has just a few words." for letter in "abcdefghij")
    documents = [Document("short"), Document(long), Document("short, too"), Document(long, title="Titled")]
    alone = [cut([document], _TOKENS, WordsEncoder())[0] for document in documents]
    assert cut(documents, _TOKENS, WordsEncoder()) == alone
    assert [len(spans) > 1 for spans in alone] == [False, True, False, True]


@pytest.mark.long
@given(
    text=st.text(st.characters(exclude_categories=["Cs"])).filter(lambda text: bool(text.strip())),
    chunking=st.sampled_from(["none", "sentences", "tokens", "tokens:5:2"]),
)
def test_every_text_has_passages_that_hold_all_of_it(text: str, chunking: str) -> None:
    (spans,) = cut([Document(text)], Chunking.parse(chunking), WordsEncoder())
    held = set()
    for begin, end in spans:
        assert text[begin:end] == text[begin:end].strip() != ""
        held |= set(range(begin, end))
    assert [letter for at, letter in enumerate(text) if at not in held and not letter.isspace()] == []


def _pieces(document: Document, chunking: Chunking, encoder: WordsEncoder | None = None) -> list[str]:
    (spans,) = cut([document], chunking, encoder or WordsEncoder())
    return [document.text[begin:end] for begin, end in spans]
