"""What an objective may be told."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from naming import Naming

from nearsay.data.errors import BadInputError
from nearsay.data.sentence_examples.example_kind import ExampleKind
from nearsay.training.sentence.objectives.config import Concatenation, ObjectiveConfig, default_objective
from nearsay.training.sentence.objectives.table import Distance, ObjectiveKind, kind_to_learn_from

CONFIGS = [
    ObjectiveConfig(ObjectiveKind.SOFTMAX, concatenation=Concatenation.DIFFERENCE_PRODUCT),
    ObjectiveConfig(ObjectiveKind.COSINE, score_range=(0.0, 5.0), cosine_range=(-1.0, 1.0)),
    ObjectiveConfig(ObjectiveKind.TRIPLET, margin=0.2, distance=Distance.COSINE),
    ObjectiveConfig(ObjectiveKind.RANKING, scale=50.0, symmetric=True, matryoshka=(384, 128, 64)),
    ObjectiveConfig(ObjectiveKind.CONTRASTIVE, online=True),
    ObjectiveConfig(ObjectiveKind.TSDAE, deletion=0.3),
    *map(ObjectiveConfig, ObjectiveKind),
]


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: str(config.kind))
def test_a_configuration_comes_back_from_json_as_it_was(config: ObjectiveConfig) -> None:
    read = ObjectiveConfig.from_json(json.loads(json.dumps(config.to_json())))
    assert read == config
    assert read.resolved((0.0, 5.0)) == config.resolved((0.0, 5.0))
    assert isinstance(read.kind, ObjectiveKind)
    assert isinstance(read.concatenation, Concatenation)
    filled = config.resolved((0.0, 5.0))
    assert ObjectiveConfig.from_json(json.loads(json.dumps(filled.to_json()))) == filled
    assert filled.resolved((7.0, 9.0)) == filled


@given(
    st.floats(0.01, 1000),
    st.lists(st.integers(1, 2048), unique=True).map(lambda dims: tuple(sorted(dims, reverse=True))),
    st.booleans(),
)
def test_any_ranking_comes_back_from_json(scale: float, dims: tuple[int, ...], symmetric: bool) -> None:
    config = ObjectiveConfig(ObjectiveKind.RANKING, scale=scale, matryoshka=dims, symmetric=symmetric)
    assert ObjectiveConfig.from_json(json.loads(json.dumps(config.to_json()))) == config


def test_json_holds_what_was_chosen() -> None:
    assert ObjectiveConfig(ObjectiveKind.COSENT).to_json() == {"kind": "cosent"}
    assert ObjectiveConfig(ObjectiveKind.COSENT).resolved().to_json() == {"kind": "cosent", "scale": 20.0}
    assert ObjectiveConfig(ObjectiveKind.RANKING, matryoshka=(8, 4)).to_json() == {
        "kind": "ranking",
        "matryoshka": [8, 4],
    }


def test_defaults_are_those_of_the_papers() -> None:
    filled = {kind: ObjectiveConfig(kind).resolved((0.0, 5.0)) for kind in ObjectiveKind}
    assert {kind: config.scale for kind, config in filled.items() if config.scale is not None} == {
        "ranking": 20.0,
        "cosent": 20.0,
        "angle": 20.0,
        "simcse": 20.0,
        "supcon": 20.0,
        "guided": 100.0,
        "kl": 20.0,
        "margin-mse": 5.0,  # as far as the data's scores lie apart
    }
    assert filled[ObjectiveKind.KL].teacher_temperature == 0.25
    assert ObjectiveConfig(ObjectiveKind.KL).resolved().teacher_temperature == 0.05
    assert {kind: config.margin for kind, config in filled.items() if config.margin is not None} == {
        "triplet": 1.0,
        "contrastive": 0.5,
        "guided": 0.0,
    }
    assert {kind: config.distance for kind, config in filled.items() if config.distance is not None} == {
        "triplet": "euclidean",
        "contrastive": "cosine",
        "teacher": "cosine",
    }
    assert filled[ObjectiveKind.COSINE].score_range == (0.0, 5.0)
    assert filled[ObjectiveKind.TSDAE].deletion == 0.6
    assert filled[ObjectiveKind.SOFTMAX].concatenation == "u,v,|u-v|"
    assert ObjectiveConfig(ObjectiveKind.TRIPLET, distance=Distance.COSINE).resolved().margin == 0.5


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"kind": "cosnt"}, "objective 'cosnt'.*softmax, cosine"),
        ({"kind": "triplet", "distance": "far"}, "distance 'far'.*euclidean, manhattan"),
        ({"kind": "softmax", "concatenation": "u+v"}, r"concatenation 'u\+v'.*'u,v'"),
        ({"kind": "cosent", "scale": 0}, "scale is 0.*above 0"),
        ({"kind": "cosent", "scale": float("nan")}, "scale is nan"),
        ({"kind": "kl", "teacher_temperature": 0}, "teacher_temperature is 0.*above 0"),
        ({"kind": "kl", "teacher_temperature": float("inf")}, r"is inf; give a finite number"),
        ({"kind": "triplet", "margin": -1}, "margin is -1.* 0 or"),
        (
            {"kind": "cosent", "margin": 1},
            "cosent .*margin .*triplet",
        ),
        ({"kind": "triplet", "scale": 20}, r"triplet has no use for scale"),
        ({"kind": "triplet", "concatenation": "u,v"}, r"triplet has no use for concatenation"),
        ({"kind": "triplet", "symmetric": True}, "symmetric .*ranking"),
        (
            {"kind": "teacher", "distance": "manhattan"},
            "manhattan",
        ),
        ({"kind": "tsdae", "deletion": 1.0}, r"deletion is 1\.0.*0 to below 1"),
        ({"kind": "tsdae", "matryoshka": [8]}, r"tsdae has no use for matryoshka"),
        (
            {"kind": "cosine", "score_range": [5, 0]},
            r"score_range is \(5, 0\)",
        ),
        ({"kind": "cosine", "score_range": [5]}, r"score_range is \(5,\).*two"),
        (
            {"kind": "cosine", "cosine_range": [-2, 1]},
            r"cosine_range is \(-2, 1\).*-1 to 1",
        ),
        ({"kind": "ranking", "matryoshka": [64, 128]}, r"\(64, 128\) .*128,64"),
        ({"kind": "ranking", "matryoshka": [64, 64]}, r"do not descend\. Give 64$"),
        ({"kind": "ranking", "matryoshka": [64, 0]}, r"matryoshka .*\(64, 0\)"),
        ({"kind": "ranking", "matryoshka": [1.5]}, r"matryoshka holds \(1\.5,\); give whole numbers"),
        ({"kind": "ranking", "scale": "much"}, "cannot be read .*type"),
        ({"kind": "ranking", "matryoshka": 64}, "cannot be read .*type"),
        ({"kind": "ranking", "temperature": 0.05}, "'temperature'.*kind, scale"),
        ({"kind": "ranking", "symmetric": "yes"}, "symmetric is 'yes'.*true or false"),
        ({"scale": 20.0}, "no objective.*kind.*softmax"),
    ],
)
def test_what_cannot_be_is_refused_with_its_remedy(content: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInputError, match=message):
        ObjectiveConfig.from_json(content)


def test_every_kind_of_data_has_a_usual_objective_that_it_can_be_turned_into() -> None:
    for kind in ExampleKind:
        config = default_objective(kind)
        assert kind_to_learn_from(config.kind, kind) in config.kind.loss.learns_from
    assert default_objective(ExampleKind.SCORED).kind == "cosent"
    assert default_objective(ExampleKind.NLI).kind == "ranking"
    assert default_objective(ExampleKind.TEXTS).kind == "simcse"
    assert default_objective(ExampleKind.CLASSES).kind == "supcon"


def test_data_are_turned_into_what_an_objective_learns_from() -> None:
    assert kind_to_learn_from(ObjectiveKind.SOFTMAX, ExampleKind.NLI) is ExampleKind.NLI
    assert kind_to_learn_from(ObjectiveKind.RANKING, ExampleKind.NLI) is ExampleKind.TUPLES
    assert kind_to_learn_from(ObjectiveKind.RANKING, ExampleKind.LABELLED) is ExampleKind.PAIRS
    assert kind_to_learn_from(ObjectiveKind.TRIPLET, ExampleKind.CLASSES) is ExampleKind.TUPLES
    assert kind_to_learn_from(ObjectiveKind.TEACHER, ExampleKind.CLASSES) is ExampleKind.TEXTS
    assert kind_to_learn_from(ObjectiveKind.TSDAE, ExampleKind.SCORED) is ExampleKind.TEXTS
    assert kind_to_learn_from(ObjectiveKind.TEACHER, ExampleKind.PAIRS) is ExampleKind.PAIRS
    for labelled in (ExampleKind.NLI, ExampleKind.SCORED, ExampleKind.LABELLED):
        assert kind_to_learn_from(ObjectiveKind.TEACHER, labelled) is ExampleKind.TEXTS


def test_data_that_do_not_fit_are_refused_with_the_objectives_that_do() -> None:
    with pytest.raises(BadInputError) as refused:
        kind_to_learn_from(ObjectiveKind.TRIPLET, ExampleKind.PAIRS)
    assert str(refused.value) == Naming(
        "triplet", "tuples", "pairs", "ranking, guided, simcse, tsdae, teacher"
    )
    with pytest.raises(BadInputError, match=r"cosine .*scored or labelled.*texts"):
        kind_to_learn_from(ObjectiveKind.COSINE, ExampleKind.TEXTS)
