"""What the softmax objective sees of a pair: the rows of the SBERT paper's ablation."""

from enum import StrEnum

__all__ = ["Concatenation"]


class Concatenation(StrEnum):
    """Which vectors are put side by side; |u-v| and u*v are taken in each dimension.

    Reimers & Gurevych 2019, table 6, https://arxiv.org/abs/1908.10084
    """

    BOTH = "u,v"
    DIFFERENCE = "|u-v|"
    PRODUCT = "u*v"
    DIFFERENCE_PRODUCT = "|u-v|,u*v"
    BOTH_PRODUCT = "u,v,u*v"
    BOTH_DIFFERENCE = "u,v,|u-v|"  # the paper's best
    ALL = "u,v,|u-v|,u*v"

    @property
    def both(self) -> bool:
        """Whether u and v themselves are in it."""
        return self.startswith("u,v")

    @property
    def difference(self) -> bool:
        """Whether |u-v| is in it."""
        return "|u-v|" in self

    @property
    def product(self) -> bool:
        """Whether u*v is in it."""
        return "u*v" in self

    @property
    def vectors(self) -> int:
        """How many vectors lie side by side."""
        return 2 * self.both + self.difference + self.product
