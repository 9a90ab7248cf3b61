"""The model card that is saved beside a model."""

import re
from dataclasses import replace

import pytest
import yaml
from huggingface_hub import ModelCard as HubCard

from nearsay.training.run.model_card import ModelCard


@pytest.fixture
def card() -> ModelCard:
    return ModelCard(
        title="harbour-bert",
        summary="Fills words in.",
        library="transformers",
        tags=("bert", "fill-mask"),
        usage="from transformers import AutoModel\n",
        figures={"mlm_accuracy": 0.51237, "mlm_loss": 2.0},
        figures_note="On 100 held-out rows.",
        lineage=("vocabulary small", "pretraining: 6 steps"),
        settings={"batch": 8, "texts": ["a|b.txt"], "clip_norm": 1.0},
        limits=("It knows little.",),
    )


def test_the_front_matter_is_yaml_that_hubs_read(card: ModelCard) -> None:
    _, front, body = card.markdown().split("---\n", 2)
    assert yaml.safe_load(front) == {
        "library_name": "transformers",
        "pipeline_tag": "fill-mask",
        "tags": ["bert", "fill-mask"],
    }
    assert body.startswith("\n# harbour-bert\n\nFills words in.\n")


def test_figures_lineage_and_settings_are_told(card: ModelCard) -> None:
    text = card.markdown()
    assert "On 100 held-out rows." in text
    assert "| mlm accuracy | 0.5124 |\n| mlm loss | 2.0000 |" in text
    assert "1. vocabulary small\n2. pretraining: 6 steps\n" in text
    assert "| batch | 8 |" in text
    assert "- It knows little.\n" in text
    assert re.search(r"```python\nfrom transformers import AutoModel\n```", text)


def test_a_bar_in_a_setting_does_not_end_its_cell(card: ModelCard) -> None:
    row = next(line for line in card.markdown().splitlines() if line.startswith("| texts"))
    assert len(re.findall(r"(?<!\\)\|", row)) == 3


def test_what_is_not_there_has_no_heading(card: ModelCard) -> None:
    text = replace(card, figures={}, limits=()).markdown()
    assert "## Measured" not in text
    assert "## Limits" not in text
    assert "On 100 held-out rows" not in text
    assert "## Where it comes from" in text


def test_the_hub_reads_base_and_results(card: ModelCard) -> None:
    told = replace(card, base="owner/base", results=[("sts: dev", "spearman", 71.5)])
    data = HubCard(told.markdown()).data
    assert data.base_model == "owner/base"
    assert data.model_name == "harbour-bert"
    (result,) = data.eval_results
    assert (result.task_type, result.dataset_name) == ("fill-mask", "sts: dev")
    assert (result.metric_type, result.metric_value) == ("spearman", 71.5)
