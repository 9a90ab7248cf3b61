"""A text seen twice through dropout is nearest to itself: unsupervised SimCSE."""

import torch
from sentence_transformers import SentenceTransformer
from torch import Tensor

from nearsay.data.errors import BadInputError
from nearsay.training.sentence.objectives.denoising import DECODER_KINDS
from nearsay.training.sentence.objectives.ranking import RankingObjective
from nearsay.training.sentence.objectives.table import ObjectiveKind


class SimcseObjective(RankingObjective):
    """`loss = mean over texts i of -log softmax_j(scale * cos(x_i, x'_j))[i]`, x and x' two passes of a text.

    columns: the texts, and the same texts in a second forward pass with other dropout    labels: none

    The scale of 20 is the paper's temperature of 0.05. Without dropout both passes are equal, and nothing is
    learned but to spread the texts: `require_dropout` refuses such an encoder.

    Gao et al. 2021, section 3, https://arxiv.org/abs/2104.08821
    """

    columns = (2, 2)


def require_dropout(encoder: SentenceTransformer, name: str) -> None:
    """Raise BadInputError when two passes of a text through the encoder in training give the same vector.

    name: of the encoder, for the message
    The encoder is run, as its configuration does not say whether a rate in it is used.
    """
    transformer = getattr(encoder[0], "auto_model", None)
    config = getattr(transformer, "config", None)
    trained = encoder.training
    with torch.random.fork_rng(), torch.no_grad():
        encoder.train()
        first, second = (_vector(encoder) for _ in range(2))
        encoder.train(trained)
    if not torch.allclose(first, second, rtol=1e-4, atol=1e-6):
        return
    kind = getattr(config, "model_type", None)
    rates = [
        name
        for name, value in (config.to_dict() if config is not None else {}).items()
        if "dropout" in name and "classif" not in name and isinstance(value, int | float)
    ]
    remedies = [f"take the objective {ObjectiveKind.TSDAE}"] if kind in DECODER_KINDS else []
    if rates:
        remedies.append(f"set {' and '.join(rates)} to 0.1 in the config.json of a copy of the encoder")
    remedies.append("give pairs of texts that belong together")
    listed = ", or ".join(remedies)
    raise BadInputError(
        f"the objective {ObjectiveKind.SIMCSE} learns from two views of a text that differ by dropout alone, "
        f"and {name} has none: every rate is 0. {listed[0].upper()}{listed[1:]}"
    )


def _vector(encoder: SentenceTransformer) -> Tensor:
    inputs = encoder.preprocess(["two passes"])
    features = {name: one.to(encoder.device) for name, one in inputs.items() if isinstance(one, Tensor)}
    vector: Tensor = encoder(features)["sentence_embedding"]
    return vector.float()
