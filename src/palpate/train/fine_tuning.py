"""How the weights of a transformer are adapted: AdamW, and a learning rate that rises, then falls."""

from __future__ import annotations

from typing import Any

import torch

_NO_DECAY = ("bias", "norm.weight")


def adamw(network: Any, weight_decay: float) -> Any:
    """AdamW, without weight decay for biases and norms."""
    named = [(name.lower(), weight) for name, weight in network.named_parameters() if weight.requires_grad]
    decayed = [weight for name, weight in named if not name.endswith(_NO_DECAY)]
    others = [weight for name, weight in named if name.endswith(_NO_DECAY)]
    groups = [{"params": decayed, "weight_decay": weight_decay}, {"params": others, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=1.0)


def warm_up(done: int, total: int, share: float) -> float:
    """The factor of the learning rate after `done` of `total` steps: it rises for a share of them, then falls to 0."""
    warm = int(total * share)
    return (done + 1) / warm if done < warm else max(0.0, (total - done) / max(1, total - warm))
