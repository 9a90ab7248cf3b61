"""Encoders on the transformers of today load, encode, explain and train as transformers computes them."""

import json
import shutil
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pytest
import torch
from naming import Naming
from numpy.typing import NDArray
from safetensors.torch import load_file, save_file
from sentence_transformers import CrossEncoder, SentenceTransformer
from tokenizers import Tokenizer
from tokenizers.models import BPE, WordLevel
from tokenizers.pre_tokenizers import ByteLevel, Whitespace
from tokenizers.processors import TemplateProcessing
from transformers import (
    CONFIG_MAPPING,
    AutoConfig,
    AutoModel,
    AutoModelForMaskedLM,
    AutoModelForSequenceClassification,
    AutoTokenizer,
    PreTrainedTokenizerFast,
)

from nearsay.data.errors import BadInputError, NearsayError
from nearsay.data.sentence_examples.example_kind import ExampleKind
from nearsay.data.sentence_examples.examples import SentenceExamples
from nearsay.indexer.query.explain import explain_passages
from nearsay.indexer.query.hit import ExplainedPassage
from nearsay.training.encoder.folder import EncoderFolder
from nearsay.training.encoder.hardware import Precision
from nearsay.training.run.metrics_log import read_metrics
from nearsay.training.run.training_progress import Watch
from nearsay.training.sentence.cross_encoder.train_cross_encoder import CrossEncoderSet, train_cross_encoder
from nearsay.training.sentence.encoder import Encoder
from nearsay.training.sentence.fine_tuning.settings import SentenceTraining, TrainingSet
from nearsay.training.sentence.fine_tuning.train_encoder import train_sentence_encoder
from nearsay.training.sentence.loading import load_model
from nearsay.training.sentence.negatives.cross_encoder import CrossEncoderJudge
from nearsay.training.sentence.objectives.config import ObjectiveConfig
from nearsay.training.sentence.objectives.table import ObjectiveKind
from nearsay.training.sentence.refusal import EncoderRefusedError

Build = Callable[[str], Path]

GROUPED = {"num_key_value_heads": 2, "head_dim": 8}  # two heads share their keys
MODERN_BERT = {"bos_token_id": 2, "cls_token_id": 2, "sep_token_id": 3, "eos_token_id": 3}
# Each with the settings that make a tiny one of its kind.
MEAN_POOLED: dict[str, dict[str, object]] = {
    "modernbert": {**MODERN_BERT, "local_attention": 4},
    "mpnet": {"pad_token_id": 1},
    "deberta": {"relative_attention": True, "pos_att_type": ["c2p", "p2c"], "position_biased_input": False},
    "deberta-v2": {
        "relative_attention": True,
        "pos_att_type": ["c2p", "p2c"],
        "position_buckets": 4,
        "share_att_key": True,
        "norm_rel_ebd": "layer_norm",
        "position_biased_input": False,
    },
    "gemma3_text": {**GROUPED, "use_bidirectional_attention": True, "sliding_window": 4},
    "eurobert": {
        "num_key_value_heads": 2,
        "bos_token_id": 2,
        "eos_token_id": 3,
        "mask_token_id": 4,
    },
    "nomic_bert": {},
    "gte": {"type_vocab_size": 2},
    "jina_embeddings_v3": {},
}
# GPT-2's positions are absolute: padding on the left, as its tokenizer has it here, would move them.
LAST_TOKEN: dict[str, dict[str, object]] = {"qwen3": GROUPED, "llama": GROUPED, "gpt2": {}}
KINDS = {**MEAN_POOLED, **LAST_TOKEN}
CONVERTED = ["nomic_bert", "gte", "jina_embeddings_v3"]  # transformers saves them under their first names

QUICK = ("modernbert", "nomic_bert", "qwen3")  # these train in `make test`, the others in `make test-all`

WORDS = ["<pad>", "<unk>", "<end>", "the", "cat", "dog", "sat", "on", "mat", "user", ":"]
TEXTS = ["the cat sat on the mat", "dog", "the dog sat", "the mat sat on the cat on the dog"]
ROWS = [("the cat sat", "cat"), ("a dog", "the dog sat on the mat"), ("mat", "the mat"), ("on", "dog on")]


@pytest.fixture
def build(make_folder_of: Callable[..., Path]) -> Build:
    """Build a tiny random encoder of a kind, pooled as the encoders of this kind are."""

    def make(kind: str) -> Path:
        if kind == "gte" and kind not in CONFIG_MAPPING:  # the others are in every version that is promised
            pytest.skip(f"transformers {version('transformers')} has no code for gte, which 5.18 has")
        folder = make_folder_of(kind, **{"pad_token_id": 0, **KINDS[kind]})
        if kind in LAST_TOKEN:
            tokens_of_a_decoder(folder)
            change(folder / "1_Pooling" / "config.json", pooling_mode="lasttoken")
        return folder

    return make


def tokens_of_a_decoder(folder: Path) -> None:
    """Replace the tokenizer by one as Qwen3's embedders have: padded on the left, an end after each text."""
    words = Tokenizer(WordLevel({word: number for number, word in enumerate(WORDS)}, unk_token="<unk>"))
    words.pre_tokenizer = Whitespace()
    words.post_processor = TemplateProcessing(
        single="$A <end>", pair="$A <end> $B <end>", special_tokens=[("<end>", 2)]
    )
    for file in ("tokenizer.json", "tokenizer_config.json", "vocab.txt"):
        (folder / file).unlink(missing_ok=True)
    PreTrainedTokenizerFast(
        tokenizer_object=words,
        pad_token="<pad>",
        unk_token="<unk>",
        eos_token="<end>",
        padding_side="left",
        chat_template="user : {{ messages[0]['content'] }}",
    ).save_pretrained(folder)


def change(file: Path, **changes: object) -> None:
    content = json.loads(file.read_text("utf-8")) if file.is_file() else {}
    file.write_text(json.dumps(content | changes), "utf-8")


def load(folder: Path) -> Encoder:
    return Encoder.load(folder, device="cpu", precision=Precision.FLOAT32)


def by_transformers(folder: Path, *, last: bool, normalised: bool = True) -> NDArray[np.float32]:
    """Each text alone through transformers, so that nothing is padded, and pooled by hand."""
    model = AutoModel.from_pretrained(folder, dtype=torch.float32).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    vectors = []
    for text in TEXTS:
        encoded = tokenizer(text, return_tensors="pt", truncation=True, max_length=16)
        with torch.inference_mode():
            states = model(
                input_ids=encoded["input_ids"], attention_mask=encoded["attention_mask"]
            ).last_hidden_state[0]
        pooled = states[-1] if last else states.mean(dim=0)
        vectors.append((pooled / pooled.norm() if normalised else pooled).numpy())
    return np.stack(vectors)


@pytest.mark.parametrize("kind", KINDS)
def test_vectors_are_those_of_transformers(kind: str, build: Build) -> None:
    folder = build(kind)
    encoder = load(folder)
    vectors = encoder.encode(TEXTS)
    np.testing.assert_allclose(vectors, by_transformers(folder, last=kind in LAST_TOKEN), atol=1e-5)
    np.testing.assert_array_equal(load(folder).encode(TEXTS), vectors)


@pytest.mark.parametrize("kind", KINDS)
def test_mean_pooled_kinds_are_explained_exactly_and_the_others_by_leaving_words_out(
    kind: str, build: Build
) -> None:
    encoder = load(build(kind))
    (query, passage) = encoder.encode([TEXTS[2], TEXTS[0]])
    told = explain_passages(encoder, TEXTS[2], [ExplainedPassage("", TEXTS[0])], sentences=False)[0]
    assert told.exact == (kind in MEAN_POOLED)
    assert [word.text for word in told.words] == TEXTS[0].split()
    assert any(abs(word.share) > 1e-4 for word in told.words)
    if told.exact:
        total = sum(word.share for word in told.words) + told.rest
        assert total == pytest.approx(float(query @ passage), abs=1e-5)


@pytest.mark.parametrize(
    "kind", [kind if kind in QUICK else pytest.param(kind, marks=pytest.mark.long) for kind in KINDS]
)
def test_a_step_has_the_loss_of_these_vectors_and_the_trained_folder_loads(
    kind: str, build: Build, tmp_path: Path
) -> None:
    folder = build(kind)
    assert trained(folder, tmp_path / "out")
    # In-batch negatives: each query's own passage among all passages, by the scaled cosine.
    vectors = torch.from_numpy(load(folder).encode([text for column in (0, 1) for text in column_of(column)]))
    queries, passages = vectors.chunk(2)
    expected = torch.nn.functional.cross_entropy(20 * queries @ passages.T, torch.arange(len(ROWS)))
    assert losses(tmp_path / "out")[0] == pytest.approx(float(expected), rel=1e-4)
    base, now = load(folder).encode(TEXTS), load(tmp_path / "out").encode(TEXTS)
    assert np.abs(base - now).max() > 1e-5
    theirs = SentenceTransformer(str(tmp_path / "out"), device="cpu", local_files_only=True)
    np.testing.assert_allclose(now, theirs.encode(TEXTS), atol=1e-5)


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_an_interrupted_run_continues_exactly(kind: str, build: Build, tmp_path: Path) -> None:
    folder, whole, parts = build(kind), tmp_path / "whole", tmp_path / "parts"
    assert trained(folder, whole, dropout=True)
    asked = iter([False, False, True, *[False] * 100])
    assert not trained(folder, parts, dropout=True, watch=Watch(stop=lambda: next(asked)))
    assert trained(folder, parts, dropout=True)
    assert losses(whole) == losses(parts)
    assert (whole / "model.safetensors").read_bytes() == (parts / "model.safetensors").read_bytes()


def test_bytes_as_tokens_and_a_prompt_are_those_of_transformers_and_explained_word_by_word(
    make_folder_of: Callable[..., Path],
) -> None:
    folder = make_folder_of("modernbert", pad_token_id=0, vocab_size=300, **MODERN_BERT)
    special = ["<pad>", "<unk>", "<start>", "<end>"]
    signs = [*special, *sorted(ByteLevel.alphabet())]
    merged = [("t", "h"), ("th", "e"), ("\u0120", "the"), ("\u0120", "s")]  # U+0120 stands for a space
    signs += ["".join(pair) for pair in merged]
    pieces = Tokenizer(BPE({sign: number for number, sign in enumerate(signs)}, merged))
    pieces.pre_tokenizer = ByteLevel(add_prefix_space=False)
    pieces.post_processor = TemplateProcessing(
        single="<start> $A <end>", special_tokens=[("<start>", 2), ("<end>", 3)]
    )
    for file in ("tokenizer.json", "tokenizer_config.json"):
        (folder / file).unlink()
    names = dict(zip(("pad_token", "unk_token", "bos_token", "eos_token"), special, strict=True))
    PreTrainedTokenizerFast(tokenizer_object=pieces, **names).save_pretrained(folder)
    change(folder / "sentence_bert_config.json", max_seq_length=60)
    change(folder / "config_sentence_transformers.json", prompts={"search_document": "text: "})
    encoder = load(folder)
    theirs = SentenceTransformer(str(folder), device="cpu", local_files_only=True)
    np.testing.assert_allclose(encoder.encode(TEXTS), theirs.encode(TEXTS, prompt="text: "), atol=1e-5)
    told = explain_passages(encoder, "a café", [ExplainedPassage("", TEXTS[0])], sentences=False)[0]
    assert told.exact
    assert [word.text for word in told.words] == TEXTS[0].split()
    assert [word.text for word in told.query] == ["a", "café"]


def column_of(column: int) -> list[str]:
    return [row[column] for row in ROWS]


def trained(folder: Path, out: Path, *, dropout: bool = False, watch: Watch | None = None) -> bool:
    if not dropout:
        rates = ("hidden_dropout_prob", "attention_probs_dropout_prob", "attention_dropout")
        rates += ("embd_pdrop", "resid_pdrop", "attn_pdrop")
        change(folder / "config.json", **dict.fromkeys(rates, 0.0))
    pairs = SentenceExamples("pairs", ExampleKind.PAIRS, ("a", "b"), tuple(ROWS), None)
    one = TrainingSet(pairs, ObjectiveConfig(ObjectiveKind.RANKING))
    options = SentenceTraining(
        steps=4 if dropout else 2, batch=4, learning_rate=1e-3, precision=Precision.FLOAT32
    )
    return train_sentence_encoder(
        [one], out, base=folder, options=options, device="cpu", watch=watch
    ).finished


def losses(out: Path) -> list[float]:
    return [float(line["loss"]) for line in read_metrics(out / "run" / "metrics.jsonl") if "loss" in line]


@pytest.mark.parametrize("kind", CONVERTED)
def test_a_weight_that_is_missing_under_its_first_name_is_named(kind: str, build: Build) -> None:
    folder = build(kind)
    weights = load_file(folder / "model.safetensors")
    lost = next(name for name in weights if "layer" in name and "norm" not in name.lower())
    del weights[lost]
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(NearsayError, match=r"lack \d+ of the encoder's parameters"):
        load(folder)


@pytest.mark.parametrize("kind", ["gte", "modernbert"])
def test_a_cross_encoder_scores_as_sentence_transformers_does(kind: str, build: Build) -> None:
    folder = build(kind)
    torch.manual_seed(0)
    config = AutoConfig.from_pretrained(folder, num_labels=1)
    AutoModelForSequenceClassification.from_config(config).save_pretrained(folder)
    for name in ("modules.json", "config_sentence_transformers.json"):
        (folder / name).unlink()
    expected = CrossEncoder(str(folder), device="cpu").predict(ROWS, show_progress_bar=False)
    np.testing.assert_allclose(CrossEncoderJudge.load(folder, device="cpu").scores(ROWS), expected, atol=1e-5)


def judge_of(folder: Path, **settings: object) -> Path:
    """Put a random cross-encoder of the kind into an encoder's folder, with a decoder's tokenizer."""
    tokens_of_a_decoder(folder)
    (folder / "chat_template.jinja").unlink()
    torch.manual_seed(0)
    config = AutoConfig.from_pretrained(folder, num_labels=1, **settings)
    model = AutoModelForSequenceClassification.from_config(config)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.4)  # so that positions matter
    model.save_pretrained(folder)
    for name in ("modules.json", "config_sentence_transformers.json"):
        (folder / name).unlink()
    return folder


def scores_of_each_pair(folder: Path) -> NDArray[np.float32]:
    judge = CrossEncoderJudge.load(folder, device="cpu")
    alone = np.concatenate([judge.scores([row]) for row in ROWS])
    assert np.ptp(alone) > 0.01
    np.testing.assert_allclose(judge.scores(ROWS), alone, atol=1e-5)
    return alone


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        ("gpt2", {}),
        ("qwen3", GROUPED),
        ("bert", {}),
        ("xlnet", {}),  # its head takes the last place, padding or not
    ],
)
def test_a_pairs_score_does_not_depend_on_its_batch_whatever_side_the_tokenizer_pads(
    kind: str, settings: dict[str, object], side: str, make_folder_of: Callable[..., Path]
) -> None:
    folder = judge_of(make_folder_of(kind, pad_token_id=0, **settings))
    change(folder / "tokenizer_config.json", padding_side=side)
    expected = [CrossEncoder(str(folder), device="cpu").predict([row])[0] for row in ROWS]
    np.testing.assert_allclose(scores_of_each_pair(folder), expected, atol=1e-6)


@pytest.mark.parametrize("padding", [None, -1, 9, 4])
def test_a_decoder_whose_configuration_names_another_padding_than_its_tokenizer_scores_each_pair_alike(
    padding: int | None, make_folder_of: Callable[..., Path]
) -> None:
    folder = judge_of(make_folder_of("gpt2", pad_token_id=0))
    change(folder / "config.json", pad_token_id=padding)
    expected = [CrossEncoder(str(folder), device="cpu").predict([row])[0] for row in ROWS]
    np.testing.assert_allclose(scores_of_each_pair(folder), expected, atol=1e-6)


def test_a_cross_encoder_without_any_padding_token_is_refused(make_folder_of: Callable[..., Path]) -> None:
    folder = judge_of(make_folder_of("gpt2", pad_token_id=0))
    change(folder / "config.json", pad_token_id=None)
    change(folder / "tokenizer_config.json", pad_token=None)
    with pytest.raises(BadInputError, match=r"padding token.*pad_token"):
        CrossEncoderJudge.load(folder, device="cpu")


def test_a_cross_encoder_on_a_decoder_that_pads_on_the_left_is_saved_so_that_plain_libraries_score_alike(
    build: Build, tmp_path: Path
) -> None:
    rows = SentenceExamples("pairs", ExampleKind.LABELLED, ("a", "b"), tuple(ROWS), (1.0, 0.0, 1.0, 0.0))
    options = SentenceTraining(steps=1, batch=4, precision=Precision.FLOAT32)
    train_cross_encoder([CrossEncoderSet(rows)], tmp_path / "out", base=build("gpt2"), options=options)
    theirs = CrossEncoder(str(tmp_path / "out"), device="cpu").predict(ROWS)
    alone = [CrossEncoderJudge.load(tmp_path / "out", device="cpu").scores([row])[0] for row in ROWS]
    np.testing.assert_allclose(theirs, alone, atol=1e-5)


@pytest.mark.parametrize("named", [True, False])
def test_the_encoder_of_a_t5_alone_is_no_base_of_a_cross_encoder(
    named: bool, make_folder_of: Callable[..., Path], tmp_path: Path
) -> None:
    folder = make_folder_of("t5")
    if not named:
        (folder / "modules.json").unlink()
    rows = SentenceExamples("pairs", ExampleKind.LABELLED, ("a", "b"), tuple(ROWS), (1.0, 0.0, 1.0, 0.0))
    with pytest.raises(BadInputError) as refused:
        train_cross_encoder([CrossEncoderSet(rows)], tmp_path / "out", base=folder, device="cpu")
    assert str(refused.value) == Naming(folder, "encoder", "t5", "decoder", "BERT")


# Folders that name code


@pytest.mark.parametrize("kind", ["modernbert", "eurobert", *CONVERTED])
def test_a_folder_that_names_code_is_run_by_transformers_own_where_that_reads_it(
    kind: str, build: Build, tmp_path: Path
) -> None:
    folder = build(kind)
    expected = load(folder).encode(TEXTS)
    change(folder / "config.json", auto_map={"AutoModel": "modeling_mine.Mine"})
    np.testing.assert_array_equal(load(folder).encode(TEXTS), expected)
    load_model(EncoderFolder(folder), "cpu").save(str(tmp_path / "saved"), create_model_card=False)
    assert "auto_map" not in (tmp_path / "saved" / "config.json").read_text("utf-8")
    np.testing.assert_array_equal(load(tmp_path / "saved").encode(TEXTS), expected)


@pytest.mark.long
@pytest.mark.parametrize("kind", ["modernbert", "nomic_bert"])
def test_a_cross_encoder_made_of_a_folder_that_names_code_names_none(
    kind: str, build: Build, tmp_path: Path
) -> None:
    folder = build(kind)
    rows = SentenceExamples("pairs", ExampleKind.LABELLED, ("a", "b"), tuple(ROWS), (1.0, 0.0, 1.0, 0.0))
    options = SentenceTraining(steps=1, batch=4, precision=Precision.FLOAT32)
    for base, out in ((folder, tmp_path / "one"), (tmp_path / "one", tmp_path / "two")):
        change(base / "config.json", auto_map={"AutoModel": "modeling_mine.Mine"})
        train_cross_encoder([CrossEncoderSet(rows)], out, base=base, options=options, device="cpu")
        assert "auto_map" not in (out / "config.json").read_text("utf-8")
        assert np.isfinite(CrossEncoderJudge.load(out, device="cpu").scores(ROWS)).all()


def test_the_masked_language_models_head_beside_the_encoder_does_no_harm_and_is_not_reported(
    build: Build, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = build("nomic_bert")
    expected = load(folder).encode(TEXTS)
    torch.manual_seed(0)
    whole = AutoModelForMaskedLM.from_pretrained(folder)
    whole.save_pretrained(folder)
    change(folder / "config.json", auto_map={"AutoModel": "modeling_mine.Mine"})
    capfd.readouterr()
    np.testing.assert_array_equal(load(folder).encode(TEXTS), expected)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("kind", ["bert", "xlm-roberta", "new", "qwen2"])
def test_other_kinds_that_name_code_are_refused(kind: str, build: Build) -> None:
    folder = build("modernbert")
    change(folder / "config.json", model_type=kind, auto_map={"AutoModel": "modeling_mine.Mine"})
    with pytest.raises(EncoderRefusedError, match=r"config\.json .*auto_map"):
        load(folder)


def test_a_kind_that_the_installed_transformers_lacks_is_refused(
    build: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = build("modernbert")
    change(folder / "config.json", auto_map={"AutoModel": "modeling_mine.Mine"})
    monkeypatch.delitem(CONFIG_MAPPING._mapping, "modernbert")
    with pytest.raises(EncoderRefusedError, match="kind modernbert"):
        load(folder)


@pytest.mark.parametrize(
    "settings", [{"rotary_emb_base": 10_000}, {"n_head": 2}, {"prenorm": True}, {"rotary_scaling_factor": 2}]
)
def test_settings_that_transformers_own_code_does_not_read_are_refused(
    settings: dict[str, object], build: Build
) -> None:
    folder = build("nomic_bert")
    same = {"n_head": 4, "prenorm": False, "rotary_emb_base": 1000, "activation_function": "swiglu"}
    change(folder / "config.json", auto_map={"AutoModel": "modeling_mine.Mine"}, **same)
    assert load(folder).dimension == 16
    change(folder / "config.json", **settings)
    with pytest.raises(EncoderRefusedError, match=f"{next(iter(settings))} is "):
        load(folder)


@pytest.mark.parametrize("kind", CONVERTED)
def test_a_tensor_that_transformers_has_no_place_for_is_refused_where_the_folder_names_code(
    kind: str, build: Build
) -> None:
    folder = build(kind)
    weights = load_file(folder / "model.safetensors")
    save_file(
        {**weights, "encoder.relative.bias": torch.zeros(4)},
        folder / "model.safetensors",
        metadata={"format": "pt"},
    )
    assert load(folder).dimension == 16
    change(folder / "config.json", auto_map={"AutoModel": "modeling_mine.Mine"})
    with pytest.raises(NearsayError, match="no place for"):
        load(folder)


# Chat templates


@pytest.mark.parametrize("kind", LAST_TOKEN)
def test_a_plain_folder_with_a_chat_template_encodes_the_plain_text(
    kind: str, build: Build, tmp_path: Path
) -> None:
    folder = build(kind)
    change(folder / "config.json", architectures=["Qwen3ForCausalLM"])  # else the mean is taken
    shutil.rmtree(folder / "1_Pooling")
    for name in ("modules.json", "sentence_bert_config.json", "config_sentence_transformers.json"):
        (folder / name).unlink()
    assert "message" in SentenceTransformer(str(folder), device="cpu", local_files_only=True).modalities
    expected = by_transformers(folder, last=True, normalised=False)
    np.testing.assert_allclose(load(folder).encode(TEXTS), expected, atol=1e-5)
    assert trained(folder, tmp_path / "out")
    theirs = SentenceTransformer(str(tmp_path / "out"), device="cpu", local_files_only=True)
    np.testing.assert_allclose(load(tmp_path / "out").encode(TEXTS), theirs.encode(TEXTS), atol=1e-5)


def test_a_folder_saved_to_put_texts_into_its_template_encodes_the_plain_text_and_says_so(
    build: Build, caplog: pytest.LogCaptureFixture
) -> None:
    folder = build("qwen3")
    expected = load(folder).encode(TEXTS)
    assert not caplog.records
    entry = {"method": "forward", "method_output_name": "last_hidden_state"}
    change(
        folder / "sentence_bert_config.json",
        modality_config={"text": entry, "message": {**entry, "format": "flat"}},
        module_output_name="token_embeddings",
    )
    theirs = SentenceTransformer(str(folder), device="cpu", local_files_only=True).encode(TEXTS)
    assert np.abs(theirs - expected).max() > 0.1
    np.testing.assert_array_equal(load(folder).encode(TEXTS), expected)
    assert "chat template" in caplog.text
