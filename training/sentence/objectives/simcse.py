"""A text seen twice through dropout is nearest to itself: unsupervised SimCSE."""

from nearsay.training.sentence.objectives.ranking import RankingObjective

__all__ = ["SimcseObjective"]


class SimcseObjective(RankingObjective):
    """`loss = mean over texts i of -log softmax_j(scale * cos(x_i, x'_j))[i]`, x and x' two passes of a text.

    columns: the texts, and the same texts in a second forward pass with other dropout    labels: none

    The scale of 20 is the paper's temperature of 0.05. Without dropout both passes are equal, and nothing is
    learned but to spread the texts.

    Gao et al. 2021, section 3, https://arxiv.org/abs/2104.08821
    """

    columns = (2, 2)
