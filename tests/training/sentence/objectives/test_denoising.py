"""TSDAE: writing a text from the vector of a damaged one."""

import copy
import math
from pathlib import Path

import pytest
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.losses import DenoisingAutoEncoderLoss
from torch import Tensor
from transformers import (
    BertConfig,
    BertModel,
    BertTokenizer,
    DistilBertConfig,
    DistilBertModel,
    RobertaConfig,
    RobertaModel,
)

from nearsay.data.errors import BadInputError
from nearsay.data.sentence_examples.example_kind import ExampleKind
from nearsay.training.run.checkpoint import weights_of
from nearsay.training.sentence.objectives.config import ObjectiveConfig
from nearsay.training.sentence.objectives.denoising import DenoisingObjective
from nearsay.training.sentence.objectives.making import make_objective
from nearsay.training.sentence.objectives.table import ObjectiveKind

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "cat", "dog", "sat", "ran"]
# [CLS] the cat sat [SEP]; [CLS] dog ran [SEP] [PAD]
TOKENS = torch.tensor([[2, 5, 6, 8, 3], [2, 7, 9, 3, 0]])


@pytest.fixture(name="tokenizer", scope="module")
def _tokenizer() -> BertTokenizer:
    return BertTokenizer(vocab={word: number for number, word in enumerate(WORDS)})


@pytest.fixture(name="base")
def _base() -> BertModel:
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(WORDS),
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=16,
    )
    return BertModel(config).eval()


@pytest.fixture(name="objective")
def _objective(base: BertModel, tokenizer: BertTokenizer) -> DenoisingObjective:
    torch.manual_seed(1)
    return DenoisingObjective(base, tokenizer).eval()


def test_a_decoder_that_knows_nothing_pays_the_logarithm_of_the_vocabulary(
    objective: DenoisingObjective, base: BertModel
) -> None:
    # With all output weights 0 each of the 10 tokens has the chance 1/10: log 10 for each that is written.
    with torch.no_grad():
        base.embeddings.word_embeddings.weight.zero_()
    loss = objective([torch.randn(2, 16)], TOKENS)
    assert loss.item() == pytest.approx(math.log(10), rel=1e-5)
    assert (loss.dtype, loss.shape) == (torch.float32, ())


def test_the_mean_is_over_the_tokens_that_are_written(objective: DenoisingObjective) -> None:
    # 4 tokens follow the first in row 1 and 3 in row 2: 7 in all, the padding is none.
    vectors = torch.randn(2, 16)
    first = objective([vectors[:1]], TOKENS[:1])
    second = objective([vectors[1:]], TOKENS[1:])
    both = objective([vectors], TOKENS)
    assert both.item() == pytest.approx(((4 * first + 3 * second) / 7).item(), rel=1e-5)
    more_padding = torch.cat([TOKENS, torch.zeros(2, 3, dtype=torch.long)], dim=1)
    assert objective([vectors], more_padding).item() == pytest.approx(both.item(), rel=1e-5)


def test_a_token_is_told_from_those_before_it_and_the_vector_alone(objective: DenoisingObjective) -> None:
    vectors = torch.randn(1, 16)

    def last_token_changed(place: int) -> list[float]:
        """Each token's loss, by taking the difference of ever longer texts' sums."""
        tokens = TOKENS[:1].clone()
        tokens[0, place] = 9
        sums = [(length - 1) * objective([vectors], tokens[:, :length]).item() for length in range(2, 6)]
        return [after - before for before, after in zip([0.0, *sums], sums, strict=False)]

    plain, changed = last_token_changed(0), last_token_changed(3)
    assert len(plain) == 4
    unchanged = last_token_changed(4)
    assert changed[:2] == pytest.approx(unchanged[:2], abs=1e-5)  # tokens before the changed one
    assert changed[3] != pytest.approx(unchanged[3], abs=1e-4)  # and the one after it


def test_its_layers_are_the_encoders_own(objective: DenoisingObjective, base: BertModel) -> None:
    shared = {id(parameter) for parameter in base.parameters()}
    own = {name for name, parameter in objective.named_parameters() if id(parameter) not in shared}
    assert own
    assert all("crossattention" in name or "cls.predictions" in name for name in own)
    tied = {id(parameter) for parameter in objective.parameters()} & shared
    pooler = {id(parameter) for parameter in base.pooler.parameters()}
    assert tied == shared - pooler
    assert objective.decoder.get_output_embeddings().weight is base.embeddings.word_embeddings.weight


def test_tied_weights_are_saved_once(objective: DenoisingObjective, base: BertModel) -> None:
    both = torch.nn.ModuleDict({"encoder": base, "objective": objective})
    names = [name for name in weights_of(both) if name.startswith("objective.")]
    assert names
    assert all("crossattention" in name or "cls.predictions" in name for name in names)


def test_the_encoder_stays_an_encoder(base: BertModel, tokenizer: BertTokenizer) -> None:
    before = copy.deepcopy(base)(TOKENS).last_hidden_state
    DenoisingObjective(base, tokenizer)
    assert not base.config.is_decoder
    assert torch.equal(base(TOKENS).last_hidden_state, before)


def test_training_writes_the_texts_from_their_vectors(objective: DenoisingObjective) -> None:
    vectors = torch.randn(2, 16, requires_grad=True)
    optimiser = torch.optim.Adam([*objective.parameters(), vectors], lr=0.02)
    before = objective([vectors], TOKENS).item()
    for _ in range(40):
        optimiser.zero_grad()
        loss = objective([vectors], TOKENS)
        loss.backward()
        optimiser.step()
    assert loss.item() < before / 4
    # The vectors of the two texts now tell which is which.
    assert objective([vectors.flip(0)], TOKENS) > 2 * objective([vectors], TOKENS)


def test_a_small_step_down_the_gradient_of_the_vectors_lowers_the_loss(objective: DenoisingObjective) -> None:
    vectors = torch.randn(2, 16, requires_grad=True)
    before = objective([vectors], TOKENS)
    before.backward()
    assert vectors.grad is not None
    assert vectors.grad.norm() > 0
    moved = (vectors - 0.1 * vectors.grad / vectors.grad.norm()).detach()
    assert objective([moved], TOKENS) < before


@pytest.mark.parametrize("vectors", [torch.zeros(2, 16), torch.ones(2, 16)])
def test_gradients_are_finite_for_equal_and_zero_vectors(
    vectors: Tensor, objective: DenoisingObjective
) -> None:
    column = vectors.clone().requires_grad_()
    objective([column], TOKENS).backward()
    assert column.grad is not None
    assert column.grad.isfinite().all()


def test_rows_in_which_nothing_is_written_cost_nothing(objective: DenoisingObjective) -> None:
    vectors = torch.randn(2, 16, requires_grad=True)
    for tokens in (TOKENS[:, :1], torch.tensor([[2, 0, 0], [2, 0, 0]])):
        loss = objective([vectors], tokens)
        loss.backward()
        assert loss.item() == 0


def test_it_runs_in_the_callers_precision_with_a_loss_of_float32(objective: DenoisingObjective) -> None:
    vectors = torch.randn(2, 16)
    exact = objective([vectors], TOKENS)
    with torch.autocast("cpu", torch.bfloat16):
        loss = objective([vectors.bfloat16()], TOKENS)
    assert loss.dtype == torch.float32
    assert loss.item() == pytest.approx(exact.item(), rel=0.02)


def test_it_agrees_with_sentence_transformers(
    tmp_path: Path, base: BertModel, tokenizer: BertTokenizer
) -> None:
    base.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    encoder = SentenceTransformer(str(tmp_path), device="cpu").eval()
    peer = DenoisingAutoEncoderLoss(encoder).eval()
    bert = encoder[0].auto_model
    torch.manual_seed(1)
    ours = DenoisingObjective(bert, encoder.tokenizer).eval()
    missing, unexpected = ours.decoder.load_state_dict(peer.decoder.state_dict(), strict=True)
    assert not missing
    assert not unexpected
    damaged = {"input_ids": TOKENS[:, [0, 2, 4]], "attention_mask": torch.tensor([[1, 1, 1], [1, 1, 0]])}
    vectors = encoder(dict(damaged))["sentence_embedding"]
    whole = {"input_ids": TOKENS, "attention_mask": (TOKENS != 0).long()}
    expected = peer([dict(damaged), whole], None)  # type: ignore[arg-type]  # it looks at no labels
    assert ours([vectors], TOKENS).item() == pytest.approx(expected.item(), rel=1e-5)


def test_robertas_can_be_decoders(tokenizer: BertTokenizer) -> None:
    config = RobertaConfig(
        vocab_size=len(WORDS),
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=16,
        pad_token_id=0,
    )
    objective = DenoisingObjective(RobertaModel(config), tokenizer)
    assert objective([torch.randn(2, 16)], TOKENS).isfinite()


def test_a_base_without_decoder_is_refused(tokenizer: BertTokenizer) -> None:
    config = DistilBertConfig(vocab_size=len(WORDS), dim=16, n_layers=1, n_heads=2, hidden_dim=32)
    with pytest.raises(BadInputError, match=r"decoder .*distilbert.*bert"):
        DenoisingObjective(DistilBertModel(config), tokenizer)


def test_it_is_made_of_the_encoders_transformer(base: BertModel, tokenizer: BertTokenizer) -> None:
    config = ObjectiveConfig(ObjectiveKind.TSDAE)
    made = make_objective(config, kind=ExampleKind.TEXTS, dimension=16, base=base, tokenizer=tokenizer)
    assert (made.generates, made.labelled, made.distinct) == (True, True, False)
    assert made.config.deletion == 0.6
    with pytest.raises(BadInputError, match="this encoder has none"):
        make_objective(config, kind=ExampleKind.TEXTS, dimension=16)
    with pytest.raises(BadInputError, match=r"\b16, .*\b8"):
        make_objective(config, kind=ExampleKind.TEXTS, dimension=8, base=base, tokenizer=tokenizer)
    with pytest.raises(BadInputError, match="learns from labels"):
        made([torch.randn(2, 16)])
    with pytest.raises(ValueError, match="rows of token ids"):
        made([torch.randn(2, 16)], TOKENS[:1])
