"""Which weights decay."""

from torch import nn

__all__ = ["parameter_groups"]


def parameter_groups(model: nn.Module, weight_decay: float) -> list[dict[str, object]]:
    """Give AdamW's two groups: weights that decay, and biases and norms, which do not.

    Parameters without gradient are left out. Devlin et al. 2019's optimiser excludes what its code calls
    "LayerNorm", "layer_norm" and "bias"; here that is every parameter of fewer than two dimensions.
    """
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    return [
        {"params": [p for p in trained if p.dim() >= 2], "weight_decay": weight_decay},
        {"params": [p for p in trained if p.dim() < 2], "weight_decay": 0.0},
    ]
