"""Inside an encoder: attention, states, masks, relevance."""

import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForMaskedLM,
    AutoTokenizer,
    BertTokenizer,
)

from nearsay.data.errors import BadInputError
from nearsay.indexer.query.explain import unit_vector
from nearsay.training.bert.attention import AttentionReader, rollout
from nearsay.training.bert.fill import Filler
from nearsay.training.encoder.hardware import Precision
from nearsay.training.sentence.encoder import Encoder
from nearsay.training.sentence.text_encoder import TextKind

KINDS = ("bert", "camembert", "distilbert", "electra", "mpnet", "roberta", "xlm-roberta")
TEXT, PAIR = "the cat sat on the mat .", "a dog sat"
MakeFolder = Callable[..., Path]


def folder_of(kind: str, make_folder_of: MakeFolder) -> Path:
    """A tiny one of that kind, whose padding is where the vocabulary of the tests has it."""
    return make_folder_of(kind, pad_token_id=0, max_position_embeddings=70)


def with_words(kind: str, folder: Path) -> Path:
    """A tiny BERT of that kind with its MLM head."""
    torch.manual_seed(1)
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "cat", "dog", "sat", "on", "mat", "."]
    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 32}
    config = AutoConfig.for_model(
        kind, vocab_size=len(vocabulary), pad_token_id=0, initializer_range=0.5, **sizes
    )
    AutoModelForMaskedLM.from_config(config).save_pretrained(folder)
    BertTokenizer(vocab={token: at for at, token in enumerate(vocabulary)}).save_pretrained(folder)
    return folder


@pytest.mark.parametrize("pair", [None, PAIR], ids=["text", "pair"])
@pytest.mark.parametrize("kind", KINDS)
def test_attention_and_states_are_those_of_transformers(
    kind: str, pair: str | None, make_folder_of: MakeFolder
) -> None:
    folder = folder_of(kind, make_folder_of)
    model = AutoModel.from_pretrained(folder, attn_implementation="eager").eval()
    tokens = AutoTokenizer.from_pretrained(folder)(TEXT, pair, return_tensors="pt")
    if kind in ("distilbert", "mpnet"):  # they know no segments
        tokens.pop("token_type_ids")
    with torch.no_grad():
        wanted = model(**tokens, output_attentions=True, output_hidden_states=True)
    found = AttentionReader.load(folder, device="cpu").read(TEXT, pair)
    np.testing.assert_allclose(found.attentions, torch.cat(wanted.attentions).numpy(), atol=1e-5)
    np.testing.assert_allclose(found.states, torch.cat(wanted.hidden_states).numpy(), atol=1e-5)
    np.testing.assert_allclose(found.attentions.sum(axis=-1), 1.0, atol=1e-5)
    assert [token.segment for token in found.tokens].count(1) == (0 if pair is None else 4)


@pytest.mark.parametrize("kind", KINDS)
def test_a_layers_context_is_its_attention_times_its_values(kind: str, make_folder_of: MakeFolder) -> None:
    folder = folder_of(kind, make_folder_of)
    reader = AttentionReader.load(folder, device="cpu")
    found = reader.read(TEXT)
    weights = AutoModel.from_pretrained(folder).state_dict()
    ending = {"distilbert": "0.attention.v_lin", "mpnet": "0.attention.attn.v"}.get(
        kind, "0.attention.self.value"
    )
    (weight,) = [value.numpy() for name, value in weights.items() if name.endswith(ending + ".weight")]
    (bias,) = [value.numpy() for name, value in weights.items() if name.endswith(ending + ".bias")]
    values = (found.states[0] @ weight.T + bias).reshape(-1, reader.heads, reader.head_width)
    wanted = np.einsum("hij,jhd->ihd", found.attentions[0], values).reshape(len(found.tokens), -1)
    np.testing.assert_allclose(found.contexts[0], wanted, atol=1e-5)


@pytest.mark.long
def test_the_bundled_encoder_is_read_as_transformers_runs_it() -> None:
    reader = AttentionReader.load(device="cpu")
    folder = reader._bert.path
    model = AutoModel.from_pretrained(folder, attn_implementation="eager").eval()
    text = "Rain fell on the river all night. " * 90
    tokens = AutoTokenizer.from_pretrained(folder)(text, return_tensors="pt", truncation=True, max_length=512)
    with torch.no_grad():
        wanted = model(**tokens, output_attentions=True, output_hidden_states=True)
    found = reader.read(text)
    assert len(found.tokens) == 512
    assert "are cut off: all-MiniLM-L6-v2 reads 512" in found.notes[0]
    assert "only the first 256 tokens" in found.notes[1]
    np.testing.assert_allclose(found.attentions, torch.cat(wanted.attentions).numpy(), atol=1e-5)
    np.testing.assert_allclose(found.states, torch.cat(wanted.hidden_states).numpy(), atol=1e-5)


def test_one_layer_of_many_texts_is_what_each_alone_gives(make_folder: MakeFolder) -> None:
    folder = make_folder(layers=3)
    texts = ["the cat", "a dog sat on the mat . the cat sat", "the"]
    whole, cut = (
        AttentionReader.load(folder, device="cpu"),
        AttentionReader.load(folder, device="cpu", deepest=2),
    )
    ids = [encoding.ids for encoding in cut.tokenizer(64).encodings(texts)]
    found = {}
    cut.layer(ids, 2, found.__setitem__)
    assert sorted(found) == [0, 1, 2]
    for place, text in enumerate(texts):
        alone = whole.read(text)
        np.testing.assert_allclose(found[place].states, alone.states[2], atol=1e-5)
        np.testing.assert_allclose(found[place].contexts, alone.contexts[1], atol=1e-5)
        np.testing.assert_allclose(found[place].attention, alone.attentions[1], atol=1e-5)
    with pytest.raises(BadInputError, match="no layer 4"):
        whole.layer(ids, 4, found.__setitem__)


@pytest.mark.parametrize("kind", KINDS)
def test_a_mask_in_the_view_is_the_mask_of_fill(kind: str, tmp_path: Path) -> None:
    folder = with_words(kind, tmp_path / kind)
    found = AttentionReader.load(folder, device="cpu").read(TEXT, masked=[2, 6], words=4)
    wanted = Filler.load(str(folder), device="cpu").fill("the [MASK] sat on the [MASK] .", 4)
    assert [each.token for place in found.words for each in place] == [each.token for each in wanted]
    np.testing.assert_allclose(
        [each.probability for place in found.words for each in place],
        [each.probability for each in wanted],
        atol=1e-5,
    )
    assert [token.text for token in found.tokens if token.masked] == ["cat", "mat"]


def test_a_special_token_cannot_be_masked(tmp_path: Path, tiny_folder: Path) -> None:
    reader = AttentionReader.load(tiny_folder, device="cpu")
    assert not reader.has_words
    assert reader.read("the cat", masked=[1]).words == ()
    for place in (0, 3, 9, -1):
        with pytest.raises(BadInputError, match="cannot be masked"):
            reader.read("the cat", masked=[place])


@pytest.mark.parametrize("pooling", ["mean", "max"])
def test_shares_are_those_of_the_encoders_own_explanation(pooling: str, make_folder: MakeFolder) -> None:
    folder = make_folder(
        pooling=pooling, prompts={"query": "query: ", "passage": "passage: "}, max_seq_length=32
    )
    encoder = Encoder.load(folder, device="cpu", precision=Precision.FLOAT32)
    passage, query = (
        encoder.contributions([TEXT])[0],
        encoder.contributions(["a dog"], kind=TextKind.QUERY)[0],
    )
    found = AttentionReader.load(folder, device="cpu").relevance(TEXT, query="a dog")
    asked = unit_vector(query.total)
    np.testing.assert_allclose(found.query, passage.vectors @ asked, atol=1e-5)
    cosine = float(unit_vector(passage.total) @ asked)
    assert found.cosine == pytest.approx(cosine, abs=1e-5)
    assert found.query.sum() + found.query_rest == pytest.approx(cosine, abs=1e-5)
    assert found.vector.sum() + found.vector_rest == pytest.approx(1.0)
    assert found.exact is (pooling == "mean")
    assert found.rollout.sum() == pytest.approx(1.0)


def test_a_cls_vector_has_no_shares_but_a_gradient(make_folder: MakeFolder) -> None:
    found = AttentionReader.load(make_folder(pooling="cls"), device="cpu").relevance(TEXT, query="the dog")
    assert found.vector is None
    assert found.query is None
    assert -1.0 <= found.cosine <= 1.0
    assert np.abs(found.gradient).sum() > 0
    assert "one token's alone" in found.notes[0]


def test_gradient_times_input_is_what_finite_differences_say(tiny_folder: Path) -> None:
    reader = AttentionReader.load(tiny_folder, device="cpu")
    found = reader.relevance("the cat sat", query="a dog").gradient
    table = reader._body.get_input_embeddings()
    place, step = 2, 1e-2
    ids = reader.tokenizer(16).encodings(["the cat sat"])[0].ids

    def cosine(scale: float) -> float:
        with torch.no_grad():
            kept = table.weight[ids[place]].clone()
            table.weight[ids[place]] = kept * scale  # only this text has the token
            value = reader.relevance("the cat sat", query="a dog").cosine
            table.weight[ids[place]] = kept
        return float(value)

    assert found[place] == pytest.approx((cosine(1 + step) - cosine(1 - step)) / (2 * step), abs=2e-3)


def test_rollout_of_two_layers_by_hand() -> None:
    first, second = np.array([[[0.5, 0.5], [0.0, 1.0]]]), np.array([[[1.0, 0.0], [1.0, 0.0]]])
    rolled = rollout(np.stack([first, second]).astype(np.float32))
    np.testing.assert_allclose(rolled[0], [[0.75, 0.25], [0.0, 1.0]])
    np.testing.assert_allclose(rolled[1], [[0.75, 0.25], [0.375, 0.625]])


def test_divergence_is_zero_of_itself_and_one_bit_of_what_shares_nothing(make_folder: MakeFolder) -> None:
    reader, other = (
        AttentionReader.load(make_folder(f"of {seed}", seed=seed, layers=2), device="cpu") for seed in (0, 1)
    )
    assert reader.divergence(reader, [TEXT]).max() < 1e-12
    found = reader.divergence(other, [TEXT, "a dog"])
    assert found.shape == (2, 2)
    assert found.min() > 0.01
    assert found.max() <= 1.0


def test_encoders_of_other_heads_are_not_compared(make_folder: MakeFolder) -> None:
    one, two = (AttentionReader.load(make_folder(f"of {n}", layers=n), device="cpu") for n in (1, 2))
    with pytest.raises(BadInputError, match="1 layers of 2 heads"):
        one.divergence(two, [TEXT])


def test_reading_a_short_text_takes_no_core_from_threads_that_begin_meanwhile(
    tiny_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = AttentionReader.load(tiny_folder, device="cpu")
    run, during, later = reader._run, [], []

    def watched(*given: object, **more: object) -> object:
        during.append(torch.get_num_threads())
        thread = threading.Thread(target=lambda: later.append(torch.get_num_threads()))
        thread.start()
        thread.join()
        return run(*given, **more)  # type: ignore[arg-type]  # passed through

    monkeypatch.setattr(reader, "_run", watched)
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        reader.read(TEXT)
        reader.relevance(TEXT, query="a dog")
    finally:
        torch.set_num_threads(before)
    assert set(during) == {1}
    assert set(later) == {2}


def test_half_a_character_is_told(tiny_folder: Path) -> None:
    with pytest.raises(BadInputError, match="whole Unicode"):
        AttentionReader.load(tiny_folder, device="cpu").read("a \ud800 b")
