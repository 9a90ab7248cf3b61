"""From a configuration to an objective."""

import pytest

from nearsay.data.errors import BadInputError
from nearsay.data.sentence_examples.example_kind import ExampleKind
from nearsay.training.sentence.objectives.config import ObjectiveConfig
from nearsay.training.sentence.objectives.making import make_objective
from nearsay.training.sentence.objectives.table import ObjectiveKind


@pytest.mark.parametrize("kind", [kind for kind in ObjectiveKind if kind is not ObjectiveKind.TSDAE])
def test_every_objective_is_made_for_every_kind_that_it_learns_from(kind: ObjectiveKind) -> None:
    for examples in kind.loss.learns_from:
        names = ("entailment", "neutral", "contradiction") if examples is ExampleKind.NLI else ()
        objective = make_objective(ObjectiveConfig(kind), kind=examples, dimension=4, label_names=names)
        assert objective.kinds == set(kind.loss.learns_from)
        assert objective.config == ObjectiveConfig(kind).resolved()
        assert not objective.generates


def test_data_that_have_to_be_turned_first_are_refused() -> None:
    with pytest.raises(BadInputError, match=r"from nli .*tuples"):
        make_objective(ObjectiveConfig(ObjectiveKind.RANKING), kind=ExampleKind.NLI, dimension=4)
    with pytest.raises(BadInputError, match=r"pairs .*: ranking"):
        make_objective(ObjectiveConfig(ObjectiveKind.COSENT), kind=ExampleKind.PAIRS, dimension=4)
