"""The listwise lesson: the encoder learns how hybrid search ranks the whole corpus for a query."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray
from sentence_transformers import SentenceTransformer
from torch import Tensor, nn

from nearsay.data.document import JsonValue
from nearsay.training.evaluation.proxies.bm25 import Bm25
from nearsay.training.run.task import Batch, StepData, StepLosses
from nearsay.training.sentence.adaptation.pseudo_queries import PseudoQuery, damaged
from nearsay.training.sentence.fine_tuning.length_groups import length_groups
from nearsay.training.sentence.forward import padded
from nearsay.training.sentence.text_encoder import TextKind
from nearsay.training.sentence.tokens import TextTokenizer

__all__ = [
    "AdaptationNetwork",
    "AdaptationTask",
    "HybridTeacher",
    "Lessons",
    "StepSizes",
    "drift",
    "listwise_divergence",
]

_GROUP_COST: Final = 100  # tokens that one more group of texts costs on a CPU
_GROUP_TOKENS: Final = 8_192  # most padded tokens of a group


def listwise_divergence(student: Tensor, teacher: Tensor, temperature: float) -> Tensor:
    """Say how far the student's ranking of a list is from the teacher's: a scalar, 0 where they agree.

    student, teacher: (queries, passages) scores of the same passages; only differences within a row count

    `mean over queries of sum_j p_j (log p_j - log q_j)`, p = softmax(teacher / temperature), q likewise of
    the student: the Kullback-Leibler divergence. Cao et al. 2007 (ListNet),
    https://doi.org/10.1145/1273496.1273513; as distillation: Hinton et al. 2015,
    https://arxiv.org/abs/1503.02531; for retrievers that are good already, where contrastive training alone
    makes them worse: Tamber et al. 2025, https://arxiv.org/abs/2502.19712
    """
    wanted = torch.log_softmax(teacher.float() / temperature, dim=1)
    given = torch.log_softmax(student.float() / temperature, dim=1)
    return (wanted.exp() * (wanted - given)).sum(dim=1).mean()


def drift(vectors: Tensor, originals: Tensor) -> Tensor:
    """Give the mean of 1 - cosine of each vector and its original; both (texts, dimension) of length 1."""
    return (1.0 - (vectors * originals).sum(dim=1)).mean()


class HybridTeacher:
    """Scores a corpus's passages for pseudo-queries by meaning and by words.

    cosine + weight · min(BM25 / the best BM25 of another passage, 1). The passage that the query comes from
    stands first, a little above the best of the others, however many words the query has kept of it: that it
    holds the query's words is no news, and which other passages are near is what there is to learn.
    """

    def __init__(
        self, texts: Sequence[str], vectors: NDArray[np.float32], *, weight: float, lead: float
    ) -> None:
        """Index the passages.

        vectors: (passages, dimension) of length 1, by the encoder before it is adapted
        weight:  of the words, where the cosine's is 1
        lead:    of the source over the best of the others
        """
        self._words = Bm25(texts)
        self._vectors = vectors
        self._weight = weight
        self._lead = lead

    def scores(self, queries: Sequence[PseudoQuery], vectors: NDArray[np.float32]) -> NDArray[np.float32]:
        """Give (queries, passages) scores; `vectors`: the queries', (queries, dimension) of length 1."""
        rows, sources = np.arange(len(queries)), np.array([query.passage for query in queries])
        words = self._words.scores([query.text for query in queries]).astype(np.float32)
        words[rows, sources] = 0.0
        best = np.maximum(words.max(axis=1, keepdims=True), 1e-6)
        scores: NDArray[np.float32] = vectors @ self._vectors.T + np.float32(self._weight) * words / best
        scores[rows, sources] = -np.inf
        scores[rows, sources] = scores.max(axis=1) + np.float32(self._lead)
        return scores


class AdaptationNetwork(nn.Module):
    """Embeds a step's texts and gives the three parts of its loss."""

    def __init__(
        self, encoder: SentenceTransformer, corpus: Tensor, general: Tensor, temperature: float
    ) -> None:
        """`corpus`, `general`: the original vectors of passages and general texts, of length 1."""
        super().__init__()
        self.encoder = encoder
        self.register_buffer("corpus", corpus, persistent=False)
        self.register_buffer("general", general, persistent=False)
        self.corpus: Tensor
        self.general: Tensor
        self._temperature = temperature

    def forward(self, batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
        """Give ranking loss, the passages' drift and the general texts' drift, scalars in float32.

        batch: input_ids_0, attention_mask_0, … a pair for each group of texts; order (texts,): where each
               text is in the groups: first the queries, then the passages, then the general texts;
               teacher (queries, corpus): scores; passages, general: their numbers
        """
        parts: list[Tensor] = []
        while (ids := batch.get(f"input_ids_{len(parts)}")) is not None:
            features = {"input_ids": ids, "attention_mask": batch[f"attention_mask_{len(parts)}"]}
            parts.append(self.encoder(features)["sentence_embedding"])
        vectors = nn.functional.normalize(torch.cat(parts)[batch["order"]].float(), dim=1)
        teacher, passages, general = batch["teacher"], batch["passages"], batch["general"]
        asked, read, kept = torch.split(vectors, [len(teacher), len(passages), len(general)])
        # Passages that are embedded in this step learn from it too; of the others the original vector counts.
        corpus = self.corpus.index_copy(0, passages, read) if len(passages) else self.corpus
        ranking = listwise_divergence(asked @ corpus.T, teacher, self._temperature)
        return ranking, drift(read, self.corpus[passages]), drift(kept, self.general[general])


@dataclass(frozen=True, slots=True)
class Lessons:
    """What is learned from, and what is remembered."""

    passages: Sequence[str]  # as they are encoded
    queries: Sequence[PseudoQuery]
    vectors: NDArray[np.float32]  # of the undamaged queries, (queries, dimension), by the original encoder
    teacher: HybridTeacher
    general: Sequence[str]  # texts of other corpora


@dataclass(frozen=True, slots=True)
class StepSizes:
    """How many texts of each kind a step embeds."""

    queries: int = 64
    passages: int = 16  # sources of the first queries, each with its nearest other passage by hybrid search
    general: int = 24


class AdaptationTask:
    """A step: pseudo-queries with the teacher's scores, some of their passages, and general texts."""

    def __init__(
        self,
        network: AdaptationNetwork,
        tokenizers: Mapping[TextKind, TextTokenizer],
        prompts: Mapping[TextKind, str],
        lessons: Lessons,
        sizes: StepSizes,
        *,
        anchor: float,
        replay: float,
        seed: int,
    ) -> None:
        """Take what is learned and how.

        tokenizers: that cut queries and passages at their lengths in training
        anchor, replay: weights of the passages' and the general texts' drift, where the ranking's is 1
        """
        self.model: nn.Module = network
        self.encoder: nn.Module = network.encoder[0]
        self._tokenizers, self._prompts = tokenizers, prompts
        self._lessons, self._sizes = lessons, sizes
        self._anchor, self._replay = anchor, replay
        self._seed = seed
        tokenizer = network.encoder.tokenizer
        self._pad_id = int(tokenizer.pad_token_id or 0)
        self._pad_left = tokenizer.padding_side == "left"

    def step_data(self, step: int, progress: float) -> StepData:
        """Give the data of step `step`, from 0; it depends on the step's number alone."""
        del progress
        lessons, sizes = self._lessons, self._sizes
        random = np.random.default_rng((self._seed, step))
        rows = random.choice(len(lessons.queries), min(sizes.queries, len(lessons.queries)), replace=False)
        queries = [lessons.queries[row] for row in rows]
        scores = lessons.teacher.scores(queries, lessons.vectors[rows])
        # The two best of a row are the query's source and the hardest negative.
        best = np.argpartition(-scores, 1, axis=1)[: max(sizes.passages // 2, 1), :2]
        passages = np.unique(best) if sizes.passages else np.empty(0, dtype=np.int64)
        general = random.choice(len(lessons.general), min(sizes.general, len(lessons.general)), replace=False)
        texts = [
            *self._ids([damaged(query.text, random) for query in queries], TextKind.QUERY),
            *self._ids([lessons.passages[number] for number in passages], TextKind.PASSAGE),
            *self._ids([lessons.general[number] for number in general], TextKind.PASSAGE),
        ]
        batch = self._grouped(texts)
        batch["teacher"] = torch.from_numpy(scores)
        batch["passages"] = torch.from_numpy(passages)
        batch["general"] = torch.from_numpy(general)
        return StepData([batch], {"step": step + 1})

    def losses(self, model: nn.Module, batch: Batch) -> StepLosses:
        """Run a step through `model`."""
        ranking, moved, forgotten = model(batch)
        loss = ranking + self._anchor * moved + self._replay * forgotten
        sums: dict[str, tuple[Tensor | float, Tensor | float]] = {
            "ranking_loss": (ranking.detach(), 1.0),
            "passage_drift": (moved.detach(), 1.0),
            "general_drift": (forgotten.detach(), 1.0),
        }
        return StepLosses(loss, sums, tokens=int(batch["tokens"]))

    def restore(self, state: Mapping[str, JsonValue]) -> None:
        """Go to where a `StepData.state` says: nowhere, since a step's data depends on its number alone."""

    def _ids(self, texts: Sequence[str], kind: TextKind) -> list[list[int]]:
        window = self._tokenizers[kind].window(texts, self._prompts[kind])
        return [window.token_ids[place] for place in window.positions]

    def _grouped(self, texts: Sequence[list[int]]) -> Batch:
        lengths = np.array([len(ids) for ids in texts], dtype=np.int64)
        groups = length_groups(lengths, group_cost=_GROUP_COST, budget=_GROUP_TOKENS)
        batch: Batch = {"tokens": torch.tensor(int(lengths.sum()))}
        for number, group in enumerate(groups):
            ids, mask = padded([texts[row] for row in group], pad_id=self._pad_id, left=self._pad_left)
            batch[f"input_ids_{number}"] = torch.from_numpy(ids)
            batch[f"attention_mask_{number}"] = torch.from_numpy(mask)
        order = np.empty(len(texts), dtype=np.int64)
        order[np.concatenate(groups)] = np.arange(len(texts))
        batch["order"] = torch.from_numpy(order)
        return batch
