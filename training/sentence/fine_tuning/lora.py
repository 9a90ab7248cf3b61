"""Low-rank adapters: a weight stays as it is, and the product of two small matrices beside it is trained."""

from typing import TYPE_CHECKING

import torch
from sentence_transformers import SentenceTransformer
from torch import nn
from transformers import PreTrainedModel

from nearsay.data.errors import BadInputError, MissingExtraError
from nearsay.training.sentence.fine_tuning.settings import SentenceTraining

if TYPE_CHECKING:
    from peft import LoraModel

__all__ = ["add_adapters", "merge_adapters"]

_NO_STATES = ".*pooler.*"  # a BERT's pooler, which gives no sentence's vector


def add_adapters(encoder: SentenceTransformer, options: SentenceTraining, *, name: str) -> "LoraModel | None":
    """Freeze the encoder's transformer and put adapters beside its linear layers, in place, if any are asked.

    options: their rank, scale and layers; the seed that the first matrices are drawn from
    name:    of the encoder, for messages
    returns: what `merge_adapters` takes; None when no rank was given

    The output of a layer is `x W + (alpha / rank) x A B`, and B begins with zeros: the encoder gives the same
    vectors until it has learned something. Projections after the pooling are trained as they are.
    Raises MissingExtraError without peft, BadInputError for an encoder or a target without linear layers.

    Hu et al. 2021, https://arxiv.org/abs/2106.09685
    """
    if options.lora_rank is None:
        return None
    transformer = getattr(encoder[0], "auto_model", None)
    if not isinstance(transformer, PreTrainedModel):
        raise BadInputError(
            f"LoRA trains beside a transformer's linear layers, and {name} has none. Leave --lora-rank out"
        )
    try:
        from peft import LoraConfig, LoraModel
    except ImportError as error:
        raise MissingExtraError("Training with LoRA", "lora") from error
    config = LoraConfig(
        r=options.lora_rank,
        lora_alpha=options.scale,
        target_modules=options.lora_targets.split(",") if options.lora_targets else "all-linear",
        exclude_modules=_NO_STATES,
        bias="none",
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(options.seed)
        try:
            return LoraModel(transformer, config, "default")
        except ValueError as error:
            linear = {
                place.rpartition(".")[2]
                for place, module in transformer.named_modules()
                if isinstance(module, nn.Linear)
            }
            raise BadInputError(
                f"{name} has no linear layers {options.lora_targets}. It has: {', '.join(sorted(linear))}"
            ) from error


def merge_adapters(adapters: "LoraModel") -> None:
    """Add the adapters' products to the weights, in place: the encoder is as it was, with other weights."""
    adapters.merge_and_unload()
    adapters.model.requires_grad_(requires_grad=True)
