"""How quick the inside of an encoder is: a text read, a sample of tokens made and searched.

    python tests/benchmarks/inside.py [--out FILE.json]

On 800 passages of some 200 tokens, each five of the sample corpus drawn and joined: longer than most, so that
the weights of attention are many. The peer for the sample is transformers' eager forward pass over the same
texts, one at a time and eight together, with nothing kept. Takes some five minutes on two cores.
"""

import argparse
import hashlib
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from machine import commit, machine
from transformers import AutoTokenizer, BertConfig, BertModel

from nearsay.data.samples import folder as sample_folder
from nearsay.indexer import Collection, Library
from nearsay.indexer.inside.tokens import SearchBy
from nearsay.training.bert.attention import AttentionReader
from nearsay.training.sentence.bundled import bundled_folder

TEXT = (
    "In the morning the rain fell on river and town, and the old bridge by the mill was under water again, "
    "so that nobody came."
)  # 30 tokens with [CLS] and [SEP]
PASSAGES, SEED, LAYER = 800, 0, 4
GOALS = {"read_s": 0.3, "search_s": 0.3, "sample_s": 180.0}


def passages() -> list[dict[str, str]]:
    rows = [json.loads(line) for line in (sample_folder() / "corpus.jsonl").read_text("utf-8").splitlines()]
    drawn = np.random.default_rng(SEED).integers(0, len(rows), (PASSAGES, 5))
    return [
        {"id": str(at), "text": " ".join(rows[each]["text"] for each in some)}
        for at, some in enumerate(drawn)
    ]


def seconds(what: Callable[[], object], times: int = 7) -> dict[str, float]:
    """Median and spread, after one run that warms it up."""
    what()
    taken = []
    for _ in range(times):
        begun = time.perf_counter()
        what()
        taken.append(time.perf_counter() - begun)
    return {
        name: round(of(taken), 4)
        for name, of in (("median", statistics.median), ("least", min), ("most", max))
    }


def base_size(folder: Path) -> Path:
    """A BERT of the base size, with random weights: as quick as any."""
    torch.manual_seed(0)
    tokenizer = AutoTokenizer.from_pretrained(bundled_folder())
    BertModel(BertConfig(vocab_size=len(tokenizer))).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def sample(collection: Collection, name: str | Path, layer: int) -> tuple[Any, dict[str, object]]:
    reader = AttentionReader.load(name, device="cpu", deepest=layer)
    row = collection.explore.sample_tokens(reader, layer, anew=True)
    path = collection._store.segment(row.collection_id, row.sha256)
    told = {
        "layer": layer,
        "tokens": row.tokens,
        "passages": row.parameters["texts"],
        "seconds": row.parameters["seconds"],
        "megabytes": round(path.stat().st_size / 1e6, 1),
    }
    return row, told


def peer(texts: list[str], layer: int, *, together: int) -> float:
    """transformers' own pass over the texts, longest first, padded; seconds."""
    folder = bundled_folder()
    model = BertModel.from_pretrained(folder, attn_implementation="eager", num_hidden_layers=layer).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    ordered = sorted(texts, key=len, reverse=True)
    begun = time.perf_counter()
    with torch.inference_mode():
        for at in range(0, len(ordered), together):
            some = tokenizer(
                ordered[at : at + together],
                truncation=True,
                max_length=256,
                padding=True,
                return_tensors="pt",
            )
            model(**some, output_attentions=True, output_hidden_states=True)
    return round(time.perf_counter() - begun, 2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--out", type=Path)
    out = parser.parse_args().out
    rows = passages()
    digest = hashlib.sha256(json.dumps(rows).encode()).hexdigest()
    with tempfile.TemporaryDirectory() as home, Library.open(Path(home) / "library") as library:
        collection = library.collection("passages")
        collection.add_rows(rows)
        row, made = sample(collection, bundled_folder(), LAYER)
        texts = collection.explore.drawn_texts(int(made["passages"]))
        beside = {f"transformers_{count}_texts": peer(texts, LAYER, together=count) for count in (1, 8)}
        opened = seconds(lambda: collection.explore.open_sample(row), 5)
        reader, kept = AttentionReader.load(device="cpu"), collection.explore.open_sample(row)
        read = reader.read(TEXT)
        vectors = {SearchBy.EMBEDDING: read.states[LAYER][5], SearchBy.CONTEXT: read.contexts[LAYER - 1][5]}
        searched = {
            by.value: seconds(
                lambda by=by: collection.explore.search_tokens(kept, reader, vectors[by], by=by, heads=[1, 4])
            )
            for by in SearchBy
        }
        long = " ".join(text["text"] for text in rows[:4])
        result = {
            "commit": commit(),
            "machine": machine(),
            "seed": SEED,
            "data": {"passages": len(rows), "sha256": digest},
            "goals": GOALS,
            "read": {
                "tokens": len(read.tokens),
                "attention_s": seconds(lambda: reader.read(TEXT)),
                "with_shares_and_gradient_s": seconds(
                    lambda: (reader.read(TEXT), reader.relevance(TEXT, query="floods"))
                ),
                "attention_of_512_tokens_s": seconds(lambda: reader.read(long), 5),
            },
            "sample": {"bundled": made, "beside": beside, "opened_s": opened},
            "search_s": searched,
        }
        _, result["sample"]["base_size"] = sample(collection, base_size(Path(home) / "base"), 12)
    if out:
        out.write_text(json.dumps(result, indent=1) + "\n", "utf-8")
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
