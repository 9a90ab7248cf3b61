"""The passages and the encoder of BERT-base's size that GPU encoding is measured with."""

import json
from pathlib import Path

import numpy as np
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Normalize, Pooling, Transformer
from tokenizers import Tokenizer
from transformers import AutoTokenizer, BertConfig, BertModel

from nearsay.data import samples
from nearsay.data.pretraining.prepare import prepare_text
from nearsay.data.pretraining.prepared_text import PreparedText
from nearsay.data.pretraining.special_tokens import SpecialTokens
from nearsay.training.sentence.bundled import bundled_folder

__all__ = ["HOW_MADE", "flops_a_passage", "made_pairs", "made_passages", "made_text", "random_bert"]

HOW_MADE = (
    "words of the sample corpus drawn at random, to a normal length of mean 70 and deviation 20 tokens, cut "
    "at 16 and 128, special tokens included; seeded"
)


def made_passages(count: int, seed: int) -> tuple[list[str], np.ndarray]:
    """So many texts, and the tokens (count,) of each with [CLS] and [SEP]."""
    tokenizer = AutoTokenizer.from_pretrained(str(bundled_folder()))
    rows = (samples.folder() / "corpus.jsonl").read_text("utf-8").splitlines()
    words = sorted({word for row in rows for word in json.loads(row)["text"].split()})
    lengths = np.array([len(ids) - 2 for ids in tokenizer(words)["input_ids"]])
    generator = np.random.default_rng(seed)
    wanted = np.clip(generator.normal(70, 20, count).round(), 16, 128).astype(int) - 2
    texts = []
    for tokens in wanted:
        drawn = generator.integers(len(words), size=tokens)
        cut = int(np.searchsorted(np.cumsum(lengths[drawn]), tokens, side="right"))
        texts.append(" ".join(words[place] for place in drawn[: max(1, cut)]))
    counts = [len(ids) for ids in tokenizer(texts)["input_ids"]]
    return texts, np.array(counts)


def made_pairs(count: int, seed: int) -> tuple[tuple[str, str], ...]:
    """So many pairs of some words of a passage, every third one, and the passage."""
    passages, _ = made_passages(count, seed)
    return tuple((" ".join(passage.split()[::3]), passage) for passage in passages)


def made_text(folder: Path, passages: int, seed: int) -> tuple[PreparedText, SpecialTokens]:
    """A text to pretrain on, of documents of eight passages each, in the bundled encoder's vocabulary."""
    texts, _ = made_passages(passages, seed)
    file = folder / "documents.jsonl"
    documents = (
        " ".join(f"{text.strip('.')}." for text in texts[at : at + 8]) for at in range(0, passages, 8)
    )
    file.write_text("".join(json.dumps({"text": document}) + "\n" for document in documents), "utf-8")
    tokenizer = Tokenizer.from_file(str(bundled_folder() / "tokenizer.json"))
    return prepare_text([file], tokenizer, folder / "text"), SpecialTokens.from_tokenizer(tokenizer)


def random_bert(folder: Path, seed: int, *, small: bool) -> Path:
    """A mean-pooled, normalised encoder of BERT-base's shape with random weights; thin if small."""
    torch.manual_seed(seed)
    shape = {"num_hidden_layers": 2, "hidden_size": 96, "num_attention_heads": 4, "intermediate_size": 384}
    inner = folder / "bert"
    BertModel(BertConfig(**(shape if small else {}))).save_pretrained(inner)
    AutoTokenizer.from_pretrained(str(bundled_folder())).save_pretrained(inner)
    body = Transformer(str(inner), max_seq_length=128)
    width = body.get_embedding_dimension()
    parts = [body, Pooling(width, pooling_mode="mean"), Normalize()]
    SentenceTransformer(modules=parts, device="cpu").save(str(folder / "encoder"))
    return folder / "encoder"


def flops_a_passage(tokens: np.ndarray, layers: int, width: int, inner: int) -> float:
    """Floating-point operations of one passage's forward pass, on average, without padding.

    A multiplication and its addition count as two: 2 (4 w^2 + 2 w i) for each token and layer in the matrix
    products with weights, and 4 T^2 w for each layer in the two products of attention.
    """
    products = 2.0 * layers * (4 * width**2 + 2 * width * inner) * tokens
    attention = 4.0 * layers * width * tokens.astype(np.float64) ** 2
    return float((products + attention).mean())
