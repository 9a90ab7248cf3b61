"""The average of several trainings of one base: one encoder that is often better than each of them."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nearsay.data.durable import require_new
from nearsay.data.errors import BadInputError
from nearsay.training.sentence.source import find_encoder

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer


def average_encoders(encoders: Sequence[str | Path], out: str | Path) -> Path:
    """Average the weights of encoders that were fine-tuned from one base, into the new folder `out`.

    Trainings from the same weights with different seeds, rates or data end in one low-loss region, and the
    mean of their weights is often better than each. Averages of encoders with different initial weights are
    useless.

    Raises BadInputError for fewer than two, and if their modules or weights differ in names or shapes;
    NearsayError and DiskFullError like loading and saving.

    Wortsman et al. 2022, "Model soups", https://arxiv.org/abs/2203.05482
    """
    if len(encoders) < 2:
        raise BadInputError(f"{len(encoders)} encoder gives no average. Name two or more")
    place = Path(out)
    require_new(place)
    for encoder in encoders:
        find_encoder(encoder)
    import torch  # seconds: after all names

    from nearsay.training.sentence.compression.derived_folder import open_model, save_derived

    first, model = open_model(encoders[0])
    others = []
    total = {name: tensor.double() for name, tensor in model.state_dict().items()}
    for encoder in encoders[1:]:
        source, other = open_model(encoder)
        weights = other.state_dict()
        shapes = {name: tensor.shape for name, tensor in weights.items()}
        alike = _structure(other) == _structure(model)
        if not alike or shapes != {name: tensor.shape for name, tensor in total.items()}:
            raise BadInputError(
                f"{source.name} and {first.name} are not built alike, so their weights have no average. "
                "Name trainings of one base with one structure"
            )
        others.append(source)
        for name, tensor in weights.items():
            total[name] += tensor.double()
    with torch.no_grad():
        for name, tensor in model.state_dict().items():
            tensor.copy_((total[name] / len(encoders)).to(tensor.dtype))
    names = [first.name, *(source.name for source in others)]
    listed = ", ".join(names)
    return save_derived(
        model,
        first,
        place,
        step=f"average of the weights of {len(names)} encoders: {listed}",
        summary=f"The average of the weights of {len(names)} trainings of one base: {listed}.",
        settings={"averaged": [str(encoder) for encoder in encoders]},
        limits=("Its lineage tells the first encoder's training; the others' stand in their folders.",),
        others=others,
    )


def _structure(model: "SentenceTransformer") -> list[tuple[type, object]]:
    """The kinds of its modules, and the settings of those behind the first, as of its pooling."""
    modules: list[Any] = [*model]
    return [(type(one), one.get_config_dict() if place else None) for place, one in enumerate(modules)]
