"""Which layer and which pooling of a BERT serve best: all of them, measured on one pass over the texts."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from time import perf_counter

import numpy as np
import torch
from numpy.typing import NDArray

from nearsay.data.errors import BadInputError
from nearsay.data.mapped import MappedArray
from nearsay.data.retrieval_set import RetrievalSet
from nearsay.data.sentence_examples.similarity_pairs import ScoredPair
from nearsay.training.bert.bert_folder import BertFolder
from nearsay.training.bert.layers import HiddenStates, LayerChoice, LayerRule, Pooling, layer_choices, pooled
from nearsay.training.encoder.hardware import Precision, choose_hardware
from nearsay.training.evaluation.figure_names import figure_name
from nearsay.training.evaluation.judged.judged_corpus import RetrievalJudgedSet
from nearsay.training.evaluation.judged.pairs import StsSet
from nearsay.training.evaluation.judged.reports import LayerScore
from nearsay.training.sentence.prompts import prompts_of
from nearsay.training.sentence.text_encoder import EncodedWindow, TextKind
from nearsay.training.sentence.tokens import TextTokenizer
from nearsay.training.sentence.vectors import checked_vectors

_WINDOW_TEXTS = 256  # texts whose features are in memory: 31 MB for 12 layers of 768


class StoredFeatures:
    """Every layer's pooled vectors of some texts, as far as `layer_choices` goes.

    `StoredEncoder` gives those of one choice. They are in a file without a name, in the folder that TMPDIR
    tells: (layers + 3) * poolings * width * 4 bytes a text. Memory holds one window of texts at a time.
    """

    def __init__(
        self,
        bert: BertFolder,
        texts: Mapping[TextKind, Sequence[str]],
        *,
        device: str,
        precision: Precision,
        progress: Callable[[int, int], None] | None = None,
    ) -> None:
        """Compute the features of the texts, each different one once.

        texts:     by their kind, which decides the prompt that is put before them, if the folder defines one
        precision: a resolved one
        progress:  called with different texts done and in all
        Raises DiskFullError, and NearsayError for a vector that is NaN, infinite or all zero.
        """
        self.bert = bert
        self.layers = int(bert.config.num_hidden_layers)
        self.prompts = prompts_of(bert.folder)
        self.tokenizer = TextTokenizer(bert.pretrained_tokenizer, bert.max_tokens)
        self._width = int(bert.config.hidden_size)
        # Concatenated layers are not kept: they are the single ones side by side, pooled or not.
        kept = [choice for choice in layer_choices(self.layers) if choice.rule is not LayerRule.CONCAT_LAST_4]
        self._slots = {both: slot for slot, both in enumerate(product(kept, Pooling))}
        different = dict.fromkeys(
            self.prompts[kind] + text for kind, of_kind in texts.items() for text in of_kind
        )
        self._row = {text: row for row, text in enumerate(different)}
        if not self._row:
            raise BadInputError("there are no texts to measure the layers on. Give some")
        self._cut = np.zeros(len(self._row), dtype=np.bool_)
        with MappedArray(np.float32) as vectors:
            self._compute(
                HiddenStates(bert, device=device, precision=precision),
                vectors,
                progress or (lambda _done, _all: None),
            )
            self._vectors = vectors.mapped(at_random=True).reshape(len(self._row), len(self._slots), -1)

    def window(
        self, texts: Sequence[str], kind: TextKind, choice: LayerChoice, pooling: Pooling
    ) -> EncodedWindow:
        """Return the texts' vectors for one choice; raises KeyError for a text that was not given."""
        rows = [self._row[self.prompts[kind] + text] for text in texts]
        stored = [choice]
        if choice.rule not in {LayerRule.SUM_LAST_4, LayerRule.SUM_ALL}:
            stored = [LayerChoice(number=layer) for layer in choice.taken(self.layers)]
        parts = [self._vectors[rows, self._slots[part, pooling]] for part in stored]
        return EncodedWindow(np.concatenate(parts, axis=1), int(self._cut[rows].sum()))

    def _compute(
        self, states: HiddenStates, stored: MappedArray[np.float32], progress: Callable[[int, int], None]
    ) -> None:
        texts = list(self._row)
        for start in range(0, len(texts), _WINDOW_TEXTS):
            window = texts[start : start + _WINDOW_TEXTS]
            encodings = self.tokenizer.encodings(window)
            vectors = np.empty((len(window), len(self._slots), self._width), dtype=np.float32)

            def take(
                batch: NDArray[np.int64],
                layers: Sequence[torch.Tensor],
                mask: torch.Tensor,
                into: NDArray[np.float32] = vectors,
            ) -> None:
                for (choice, pooling), slot in self._slots.items():
                    chosen = choice.combined([layers[layer] for layer in choice.taken(self.layers)])
                    into[batch, slot] = pooled(chosen, mask, pooling).cpu().numpy()

            states.run([encoding.ids for encoding in encodings], take)
            self._cut[start : start + len(window)] = [bool(encoding.overflowing) for encoding in encodings]
            for slot in self._slots.values():
                checked_vectors(vectors[:, slot], window, self.bert.name)
            stored.append(vectors)
            progress(start + len(window), len(texts))


class StoredEncoder:
    """One choice of layers and pooling as a `VectorEncoder`, for the texts whose features are stored."""

    def __init__(self, stored: StoredFeatures, choice: LayerChoice, pooling: Pooling) -> None:
        self.name = stored.bert.name
        self.dimension = choice.width(int(stored.bert.config.hidden_size))
        self._stored = stored
        self._choice = choice
        self._pooling = pooling

    def stream(
        self, windows: Iterable[Sequence[str]], *, kind: TextKind = TextKind.PASSAGE
    ) -> Iterator[EncodedWindow]:
        """Return one `EncodedWindow` for each window; raises KeyError for a text that is not stored."""
        for texts in windows:
            yield self._stored.window(texts, kind, self._choice, self._pooling)


_SHOWN = ("spearman", "pearson", "ndcg_at_10", "mrr_at_10", "recall_at_100")


@dataclass(frozen=True, slots=True)
class LayerReport:
    """What the choices of one BERT reached.

    cls of layer 0 is left out, as it is the same for every text; so is that of all layers of a BERT that
    attends from left to right.
    """

    encoder: str
    layers: int  # transformer layers; layer 0 is the embeddings
    measure: str  # the figure that decides: "Spearman" times 100, or "nDCG@10" from 0 to 1
    scores: tuple[LayerScore, ...]  # by layer, the combinations after them, each by pooling
    truncated: int  # texts that were cut at the length limit
    seconds: float

    @property
    def best(self) -> LayerScore:
        """The highest score; of equal ones the first."""
        return max(self.scores, key=self.figure)

    def figure(self, score: LayerScore) -> float:
        """Return the figure that decides."""
        return score.figures[self.measure]

    def shown(self, score: LayerScore) -> str:
        """Return the figure that decides, with the decimals that its measure is told with."""
        return f"{self.figure(score):.{2 if self.measure == 'Spearman' else 4}f}"


def evaluate_layers(
    bert: BertFolder,
    judged: Sequence[ScoredPair] | RetrievalSet,
    *,
    device: str | None = None,
    precision: Precision = Precision.AUTO,
    progress: Callable[[int, int], None] | None = None,
) -> LayerReport:
    """Score every layer, and the combinations, under every pooling, as if each were an encoder of its own.

    judged:   scored pairs or a retrieval set; each of the texts goes through the model once
    progress: called with different texts encoded and in all
    Raises BadInputError as measuring on a judged set does, and for a device that is not there.
    """
    started = perf_counter()
    chosen, resolved = choose_hardware(device, precision)
    scores = []
    truncated = 0
    asked: StsSet | RetrievalJudgedSet
    if isinstance(judged, RetrievalSet):
        asked = RetrievalJudgedSet(judged.name, judged)
    else:
        asked = StsSet("pairs", tuple(judged))
    stored = StoredFeatures(bert, _texts(asked), device=chosen, precision=resolved, progress=progress)
    for choice, pooling in product(layer_choices(stored.layers), Pooling):
        same = pooling is Pooling.CLS and (bert.is_causal or choice.number == 0)  # for every text
        if not same:
            found = asked.measure(StoredEncoder(stored, choice, pooling))
            figures = {figure_name(name): found.metrics[name] for name in _SHOWN if name in found.metrics}
            scores.append(LayerScore(str(choice), pooling, figures))
            truncated = found.truncated
    return LayerReport(
        encoder=bert.name,
        layers=stored.layers,
        measure=next(iter(scores[0].figures)),
        scores=tuple(scores),
        truncated=truncated,
        seconds=perf_counter() - started,
    )


def _texts(judged: StsSet | RetrievalJudgedSet) -> dict[TextKind, list[str]]:
    if isinstance(judged, RetrievalJudgedSet):
        whole = judged.retrieval_set
        return {
            TextKind.QUERY: list(whole.queries.values()),
            TextKind.PASSAGE: list(whole.corpus.values()),
        }
    return {TextKind.PASSAGE: list(judged.texts())}
