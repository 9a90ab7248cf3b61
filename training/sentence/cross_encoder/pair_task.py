"""What the training of a cross-encoder gives to the loop: steps of pairs, and their loss."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from sentence_transformers import CrossEncoder
from tokenizers import Encoding
from torch import Tensor, nn

from nearsay.data.sentence_examples.example_kind import ExampleKind
from nearsay.data.sentence_examples.examples import SentenceExamples
from nearsay.data.sentence_examples.mixing import ExampleMix
from nearsay.training.encoder.hardware import Precision
from nearsay.training.run.processes import Processes
from nearsay.training.run.task import Batch, StepData, StepLosses
from nearsay.training.sentence.cross_encoder.losses import CrossLoss, losses_of_rows
from nearsay.training.sentence.fine_tuning.network import group_features
from nearsay.training.sentence.fine_tuning.sentence_task import GroupedTask
from nearsay.training.sentence.forward import padded
from nearsay.training.sentence.negatives.cross_encoder import PairTokens


@dataclass(frozen=True, slots=True)
class PairRows:
    """One set as rows of a query, its passages and their targets."""

    examples: SentenceExamples
    loss: CrossLoss
    negatives: int  # from the batch, for pairs without negatives
    guide: str | None = None  # computes the passages' scores, if a loss needs them and there are none

    def targets(self) -> NDArray[np.float32]:
        """The target of each passage, (rows, passages): see `losses_of_rows`.

        Scores of pairs are scaled to 0 to 1, from the lowest to the highest of the set; so are a teacher's,
        except for MARGIN_MSE.
        """
        examples = self.examples
        if self.loss.row.scored and examples.scores is not None:
            given = examples.scores
        elif examples.labels is not None:
            given = examples.labels[:, None]
        else:
            passages = 1 + self.negatives if examples.kind is ExampleKind.PAIRS else len(examples.columns) - 1
            given = np.zeros((len(examples), passages))
            given[:, 0] = 1.0
        if examples.kind is not ExampleKind.LABELLED and self.loss is not CrossLoss.MARGIN_MSE:
            low, high = given.min(), given.max()
            given = (given - low) / max(high - low, np.finfo(np.float64).tiny)
        return given.astype(np.float32)

    def pairs(self, rows: Sequence[int], rng: np.random.Generator) -> list[list[tuple[str, str]]]:
        """Each row's query with its passages; a pair's negatives are other rows' second texts."""
        texts = self.examples.texts.many(rows)
        if self.examples.kind is not ExampleKind.PAIRS:
            return [[(query, passage) for passage in passages] for query, *passages in texts]
        count = min(self.negatives, len(texts) - 1)
        found = []
        for place, (query, positive) in enumerate(texts):
            others = rng.choice(len(texts) - 1, count, replace=False)
            negatives = [texts[other + (other >= place)][1] for other in others]
            found.append([(query, passage) for passage in (positive, *negatives)])
        return found


class PairNetwork(nn.Module):
    """Scores a step's pairs, in groups of similar length."""

    def __init__(self, model: CrossEncoder) -> None:
        super().__init__()
        self.model = model

    def forward(self, batch: Batch) -> Tensor:
        """Compute the pairs' logits, (pairs,) float32.

        batch: input_ids_0, attention_mask_0 if a pair is padded, token_type_ids_0 if the model has them,
               input_ids_1 … (pairs, tokens) int64; order (pairs,) int64: the index of each pair in the
               concatenated groups
        """
        parts = [self.model(features)["scores"].reshape(-1) for features in group_features(batch)]
        return torch.cat(parts).float()[batch["order"]]


class PairTask(GroupedTask):
    """Several processes divide each step's rows; a batch larger than the budget is computed in parts."""

    def __init__(
        self,
        network: PairNetwork,
        sets: Sequence[PairRows],
        mix: ExampleMix,
        tokens: PairTokens,
        *,
        seed: int,
        tokens_at_once: int | None = None,
        precision: Precision = Precision.AUTO,
        joined: Processes,
    ) -> None:
        """Take the sets in the mix' order; `seed`: of the negatives that are drawn of a batch."""
        super().__init__(
            network,
            network.model,
            mix,
            names=[one.examples.name for one in sets],
            tokens_at_once=tokens_at_once,
            precision=precision,
            joined=joined,
        )
        self._sets, self._tokens, self._seed = sets, tokens, seed
        self._targets = [one.targets() for one in sets]
        tokenizer = network.model.tokenizer
        self._pad_id = int(tokenizer.pad_token_id or 0)
        self._pad_left = tokenizer.padding_side == "left"
        self._segments = "token_type_ids" in tokenizer.model_input_names

    def step_data(self, step: int, progress: float) -> StepData:
        """The data of step `step`, from 0; depends only on the step's number."""
        del progress
        drawn = self._mix.batch(step)
        rows = self._sets[drawn.source].pairs(drawn.rows, np.random.default_rng((self._seed, step)))
        width = len(rows[0])
        targets = self._targets[drawn.source][list(drawn.rows), :width]
        own = slice(self._joined.rank, None, self._joined.count)
        rows, targets = rows[own], targets[own]
        encodings = self._tokens.encodings([pair for row in rows for pair in row])
        longest = [max(map(len, encodings[at : at + width])) for at in range(0, len(encodings), width)]
        batches: list[Batch] = []
        start = 0
        for end in range(1, len(rows) + 1):
            if (
                end == len(rows)
                or max(longest[start : end + 1]) * width * (end + 1 - start) > self.budget.tokens
            ):
                batch = self._of_pairs(encodings[start * width : end * width])
                batch["targets"] = torch.from_numpy(targets[start:end])
                batch["source"] = torch.tensor(drawn.source)
                batch["rows"] = torch.tensor(len(drawn.rows))
                batches.append(batch)
                start = end
        return StepData(batches, {"step": step + 1})

    def losses(self, model: nn.Module, batch: Batch) -> StepLosses:
        """Compute a part of a step with `model`: its share of the mean over the step's rows."""
        logits, targets = model(batch), batch["targets"]
        one = self._sets[int(batch["source"])]
        with torch.autocast(targets.device.type, enabled=False):
            loss = losses_of_rows(one.loss, logits.reshape(targets.shape), targets).sum() / batch["rows"]
        return self._told(loss, batch, len(targets) / int(batch["rows"]))

    def _of_pairs(self, encodings: Sequence[Encoding]) -> Batch:
        def inputs(group: NDArray[np.int64], width: int) -> dict[str, Tensor]:
            members = [encodings[at] for at in group]
            ids, mask = padded(
                [one.ids for one in members], pad_id=self._pad_id, left=self._pad_left, width=width
            )
            found = {"input_ids": ids, "attention_mask": mask}
            if self._segments:
                types = [one.type_ids for one in members]
                found["token_type_ids"], _ = padded(types, pad_id=0, left=self._pad_left, width=width)
            return {name: torch.from_numpy(array) for name, array in found.items()}

        return self._grouped(np.array([len(one) for one in encodings], dtype=np.int64), inputs)
