"""A sample of a collection's tokens: made, kept, searched, summed up."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from naming import Naming
from transformers import BertForTokenClassification

from nearsay.data.errors import BadInputError
from nearsay.indexer import Collection, Library
from nearsay.indexer.doctor import examine
from nearsay.indexer.inside.tokens import KwicPart, SearchBy, TokenMatch
from nearsay.indexer.vectors.errors import DamagedSegmentError
from nearsay.indexer.writing.compaction import remove_orphans
from nearsay.training.bert.attention import AttentionReader

WORDS = ["rain", "snow", "fell", "on", "the", "town", "a", "cat", "slept", "9", "."]
ROWS = [
    {"id": "wet", "text": "Rain fell on the town .", "kind": "weather", "title": "Wet"},
    {"id": "white", "text": "Snow fell on the town . Snow fell .", "kind": "weather"},
    {"id": "warm", "text": "A cat slept on the 9 .", "kind": "animals"},
]


VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]
SHAPE = {
    "seed": 3,
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 32,
    "max_position_embeddings": 64,
}


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory, save_bert: Callable[..., Path]) -> Path:
    return save_bert(tmp_path_factory.mktemp("bert"), VOCABULARY, **SHAPE)


@pytest.fixture(scope="module")
def reader(bert: Path) -> AttentionReader:
    return AttentionReader.load(bert, device="cpu")


@pytest.fixture
def weather(library: Library) -> Collection:
    collection = library.collection("weather")
    collection.add_rows(ROWS)
    return collection


def test_states_contexts_and_weights_are_the_readers_own(
    weather: Collection, reader: AttentionReader
) -> None:
    row = weather.explore.sample_tokens(reader, 2)
    sample = weather.explore.open_sample(row)
    assert (row.layer, row.parameters["texts"], row.parameters["cut"]) == (2, 3, 0)
    assert row.parameters["lineage"][-1].startswith("layer 2 over 3 passages")
    stored = weather._store.segment(row.collection_id, row.sha256)
    assert stored.is_file()
    texts = {text.split()[0]: text for text in weather.explore.drawn_texts(3)}
    for number, (first, count, _) in enumerate(sample.texts.tolist()):
        name = {1: "Wet", 2: "Snow", 3: "A"}[int(sample.tokens[first, 0])]
        alone = reader.read(texts[name])
        assert count == len(alone.tokens)
        states = alone.states[2] / np.linalg.norm(alone.states[2], axis=1, keepdims=True)
        np.testing.assert_allclose(sample.states[first : first + count], states, atol=1e-5)
        np.testing.assert_allclose(sample.contexts[first : first + count], alone.contexts[1], atol=1e-5)
        for place in range(count):
            assert sample.text_of(first + place) == number
            wanted = alone.attentions[1, [1, 3], place].mean(axis=0)
            np.testing.assert_allclose(sample.attention(first + place, [1, 3]), wanted, atol=1e-3)


def test_what_is_kept_is_given_back_and_anew_replaces_it(
    weather: Collection, reader: AttentionReader
) -> None:
    explore = weather.explore
    first = explore.sample_tokens(reader, 1)
    assert explore.sample_tokens(reader, 1) == first
    other = explore.sample_tokens(reader, 1, tokens=12)
    assert other.tokens <= 12
    assert explore.token_samples() == [other]
    explore.sample_tokens(reader, 2)
    assert [row.layer for row in explore.token_samples(reader.fingerprint)] == [2, 1]
    assert explore.token_samples("another") == []


def test_the_nearest_by_embedding_is_the_exact_order(weather: Collection, reader: AttentionReader) -> None:
    sample = weather.explore.open_sample(weather.explore.sample_tokens(reader, 2))
    vector = reader.read("the snow fell on the cat").states[2][2]
    found = weather.explore.search_tokens(sample, reader, vector, k=40)
    own = sample.tokens[:, 2] > sample.tokens[:, 1]
    cosines = sample.states[own] @ (vector / np.linalg.norm(vector))
    np.testing.assert_allclose([match.score for match in found.matches], np.sort(cosines)[::-1], atol=1e-6)
    assert found.searched == len(found.matches) == own.sum()
    assert all(match.text[match.start : match.end] == match.token for match in found.matches)
    assert [match.rank for match in found.matches] == list(range(1, len(found.matches) + 1))


def test_the_context_is_of_the_chosen_heads_alone(weather: Collection, reader: AttentionReader) -> None:
    sample = weather.explore.open_sample(weather.explore.sample_tokens(reader, 2))
    vector = reader.read("the snow fell").contexts[1][2]
    found = weather.explore.search_tokens(
        sample, reader, vector, by=SearchBy.CONTEXT, heads=[0, 2], k=5
    ).matches
    mask = np.repeat([1.0, 0.0, 1.0, 0.0], 4)
    own = np.flatnonzero(sample.tokens[:, 2] > sample.tokens[:, 1])
    masked, asked = sample.contexts[own] * mask, vector * mask
    cosines = masked @ asked / np.linalg.norm(masked, axis=1) / np.linalg.norm(asked)
    best = own[np.argsort(-cosines)[:5]]
    np.testing.assert_allclose([match.score for match in found], np.sort(cosines)[::-1][:5], atol=1e-5)
    for token, match in zip(best.tolist(), found, strict=True):
        weights = sample.attention(token, [0, 2])
        assert match.place + match.attended_offset == weights.argmax()
        assert match.attended_weight == pytest.approx(float(weights.max()))


def test_what_is_attended_to_most_can_be_a_word_of_the_text_alone(
    weather: Collection, reader: AttentionReader
) -> None:
    sample = weather.explore.open_sample(weather.explore.sample_tokens(reader, 2))
    vector = reader.read("the snow fell").states[2][2]
    with_all = weather.explore.search_tokens(sample, reader, vector).matches
    own = weather.explore.search_tokens(sample, reader, vector, special=False).matches
    assert any(match.attended in ("[CLS]", "[SEP]") for match in with_all)
    assert all(match.text[match.attended_start : match.attended_end] == match.attended for match in own)
    assert all(match.attended for match in own)


def test_summaries_count_matches_and_what_they_attend_to(
    weather: Collection, reader: AttentionReader
) -> None:
    sample = weather.explore.open_sample(weather.explore.sample_tokens(reader, 2))
    found = weather.explore.search_tokens(sample, reader, reader.read("snow").states[2][1], k=40)
    told = {summary.name: summary for summary in found.summaries}
    assert set(told) == {"token", "word shape", "position", "offset", "kind"}
    total = len(found.matches)
    for name in ("token", "word shape", "position"):
        assert sum(count for _, count in told[name].matched) == total
        assert sum(count for _, count in told[name].attended) == total
    assert sum(count for _, count in told["offset"].attended) == total
    assert dict(told["token"].matched)["fell"] == 3
    assert dict(told["word shape"].matched) == {"xx": 13, "Xxx": 4, ".": 4, "0": 1, "X": 1}
    assert dict(told["kind"].matched)["animals"] == 7


def test_a_taggers_tags_are_kept_and_counted(
    weather: Collection, reader: AttentionReader, tmp_path: Path, save_bert: Callable[..., Path]
) -> None:
    folder = tmp_path / "tagger"
    labels = {0: "O", 1: "B-THING", 2: "B-PLACE"}
    ids = {label: number for number, label in labels.items()}
    tags = {"id2label": labels, "label2id": ids}
    save_bert(folder, VOCABULARY, kind=BertForTokenClassification, **SHAPE, **tags)
    from nearsay.training.bert.heads.tagger import Tagger

    row = weather.explore.sample_tokens(reader, 1, tagger=str(folder))
    sample = weather.explore.open_sample(row)
    texts = ["Wet Rain fell on the town .", *(each["text"] for each in ROWS[1:])]
    wanted = dict(
        zip(texts, Tagger.load(folder, device="cpu").predict([t.split() for t in texts]), strict=True)
    )
    found = weather.explore.search_tokens(sample, reader, reader.read("snow").states[1][1], k=40)
    for match in found.matches:
        assert match.tag == wanted[match.text][match.place - 1]
    assert "tag" in {summary.name for summary in found.summaries}


def test_passages_that_were_removed_are_not_found(weather: Collection, reader: AttentionReader) -> None:
    sample = weather.explore.open_sample(weather.explore.sample_tokens(reader, 1))
    weather.remove(["white"])
    found = weather.explore.search_tokens(sample, reader, reader.read("snow").states[1][1], k=40)
    assert {match.id for match in found.matches} == {"wet", "warm"}
    assert found.notes[0] == Naming("9 tokens", "removed")


def test_compaction_keeps_the_segment_and_deleting_the_collection_takes_it(
    weather: Collection, reader: AttentionReader, library: Library
) -> None:
    old = weather.explore.sample_tokens(reader, 1)
    new = weather.explore.sample_tokens(reader, 1, tokens=20)
    store = library.store
    removed = remove_orphans(store, weather.snapshot().collection, grace=0)
    assert removed.files == 1
    assert not store.segment(old.collection_id, old.sha256).exists()
    assert store.segment(new.collection_id, new.sha256).exists()
    weather.compact()
    assert weather.explore.open_sample(new).row == new
    weather.delete()
    assert "weather" not in library.names()


def test_a_changed_file_is_refused_and_the_doctor_names_it(
    weather: Collection, reader: AttentionReader, library: Library
) -> None:
    row = weather.explore.sample_tokens(reader, 1)
    assert all(finding.sound for finding in examine(library))
    path = library.store.segment(row.collection_id, row.sha256)
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(DamagedSegmentError, match="damaged"):
        weather.explore.open_sample(row)
    (finding,) = [finding for finding in examine(library) if not finding.sound]
    assert "--layer 1" in finding.detail


@pytest.mark.parametrize(
    ("options", "said"), [({"layer": 3}, "no layer 3"), ({"layer": 1, "tokens": 4}, "too few")]
)
def test_what_cannot_be_made_is_told(
    weather: Collection, reader: AttentionReader, options: dict[str, int], said: str
) -> None:
    with pytest.raises(BadInputError, match=said):
        weather.explore.sample_tokens(reader, **options)


def test_an_empty_collection_has_no_tokens(library: Library, reader: AttentionReader) -> None:
    collection = library.collection("empty")
    collection.add_rows([{"id": "a", "text": "rain"}])
    collection.remove(["a"])
    with pytest.raises(BadInputError, match="holds no passages"):
        collection.explore.sample_tokens(reader, 1)


def test_a_query_of_another_shape_is_told(weather: Collection, reader: AttentionReader) -> None:
    sample = weather.explore.open_sample(weather.explore.sample_tokens(reader, 1))
    for options in ({"heads": [4]}, {"k": 0}):
        with pytest.raises(BadInputError, match=r"head 5|k is 0"):
            weather.explore.search_tokens(sample, reader, np.ones(16, np.float32), **options)
    with pytest.raises(BadInputError, match=r"\(3,\).* 16 "):
        weather.explore.search_tokens(sample, reader, np.ones(3, np.float32))


def _match(text: str, own: str, other: str) -> TokenMatch:
    start, there = text.index(own), text.index(other) if other else 0
    return TokenMatch(
        1, 0.5, "d", "", 1, text, own, start, start + len(own), 1, None, other, there,
        there + len(other), 1, 0.5, None, None, {},
    )  # fmt: skip


@pytest.mark.parametrize(
    ("own", "other", "width", "line"),
    [
        ("cat", "sat", 3, "…he {cat} [sat]…"),
        ("cat", "mat", 3, "…he {cat} sa … [mat]"),
        ("mat", "One", 4, "[One] … the {mat}."),
        ("cat", "cat", 3, "…he <cat> sa…"),
        ("cat", "", 3, "…he {cat} sa…"),
        ("One", "day", 4, "{One} [day]…"),
        ("cat", "the", 1, "…[the] {cat} …"),
    ],
)
def test_a_line_shows_the_match_and_what_it_attends_to(own: str, other: str, width: int, line: str) -> None:
    signs = {KwicPart.MATCH: "{}", KwicPart.ATTENDED: "[]", KwicPart.BOTH: "<>"}
    pieces = _match("One day the cat sat\non the mat.", own, other).line(width)
    shown = [signs[part][0] + text + signs[part][1] if part in signs else text for part, text in pieces]
    assert "".join(shown) == line
