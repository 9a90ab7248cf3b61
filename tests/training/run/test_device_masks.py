"""Attention masks of a GPU that nobody waits for."""

from typing import Any

import pytest
import torch
from transformers import AutoConfig, AutoModel, PreTrainedModel
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS

from nearsay.training.run.device_masks import masks_without_waiting

KINDS: dict[str, dict[str, Any]] = {
    "bert": {},
    "modernbert": {
        "local_attention": 4,
        "global_attn_every_n_layers": 2,
        "pad_token_id": 0,
        "bos_token_id": 1,
        "eos_token_id": 2,
        "cls_token_id": 1,
        "sep_token_id": 2,
    },
    "qwen3": {"num_key_value_heads": 2, "head_dim": 8},
}


def model_of(kind: str) -> PreTrainedModel:
    torch.manual_seed(0)
    config = AutoConfig.for_model(
        kind,
        vocab_size=50,
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=32,
        max_position_embeddings=32,
        initializer_range=0.5,
        **KINDS[kind],
    )
    model: PreTrainedModel = AutoModel.from_config(config, attn_implementation="sdpa").eval()
    return model


@pytest.mark.parametrize("lengths", [[8, 3, 5], [8, 8, 8]], ids=["padded", "not padded"])
@pytest.mark.parametrize("kind", list(KINDS))
def test_the_states_are_the_same_and_no_mask_is_read(kind: str, lengths: list[int]) -> None:
    model, ids = model_of(kind), torch.arange(24).reshape(3, 8) + 3
    mask = (torch.arange(8) < torch.tensor(lengths)[:, None]).long()
    with torch.no_grad():
        wanted = model(input_ids=ids, attention_mask=mask).last_hidden_state
        alone = model(input_ids=ids).last_hidden_state
        with masks_without_waiting():
            found = model(input_ids=ids, attention_mask=mask).last_hidden_state
            torch.testing.assert_close(model(input_ids=ids).last_hidden_state, alone)
            model.to("meta")(input_ids=ids.to("meta"), attention_mask=mask.to("meta"))
    torch.testing.assert_close(found[mask.bool()], wanted[mask.bool()], atol=1e-5, rtol=1e-5)
    with pytest.raises(RuntimeError, match="meta tensors"):  # so it would be noticed
        model(input_ids=ids.to("meta"), attention_mask=mask.to("meta"))


def test_after_the_block_transformers_is_as_before() -> None:
    before = ALL_MASK_ATTENTION_FUNCTIONS["sdpa"]

    def use() -> None:
        with masks_without_waiting():
            assert ALL_MASK_ATTENTION_FUNCTIONS["sdpa"] is not before
            with masks_without_waiting():
                pass
            raise KeyError

    with pytest.raises(KeyError):
        use()
    assert ALL_MASK_ATTENTION_FUNCTIONS["sdpa"] is before
