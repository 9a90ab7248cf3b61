"""The sizes of published BERTs, by their names."""

from typing import Final

# Layers and width. Devlin et al. 2019, section 3, https://arxiv.org/abs/1810.04805 (base, large);
# Turc et al. 2019, table 1, https://arxiv.org/abs/1908.08962 (the others)
PUBLISHED_SIZES: Final = {
    "tiny": (2, 128),
    "mini": (4, 256),
    "small": (4, 512),
    "medium": (8, 512),
    "base": (12, 768),
    "large": (24, 1024),
}
