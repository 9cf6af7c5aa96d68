"""How many parameters a model has, and how many one token uses."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from simulator.counting.tensors import TensorInfo, list_tensors
from simulator.specs.model import ModelSpec

__all__ = ["CONVENTIONS", "ParamCount", "count_params", "count_tensors"]

CONVENTIONS = {
    "total": "main model: embedding and head counted, multi-token-prediction modules not",
    "active": "total minus the routed experts a token does not select; embedding and head counted",
    "active_without_embedding": "active minus the input embedding, head kept; the definition "
    "behind DeepSeek-V3's 37 B, V2's 21 B and V2-Lite's 2.4 B (moe-16b's 2.8 B counts both tables)",
    "active_non_embedding": "active minus embedding and head: N in tokens per parameter",
    "embedding": "input tables; a tied head is the same tensor and counted once, here",
    "head": "output table; 0 when tied",
    "mtp": "own tensors of the multi-token-prediction modules; published checkpoints of "
    "DeepSeek-V3 repeat embedding and head there, which is why they weigh 685 B",
    "routed_experts": "all routed experts, selected or not, with their biases where they have some",
    "bias": "the balance bias of the router is a buffer, not a parameter",
}
"""What each number counts; section and model names: arXiv 2412.19437, 2405.04434, 2401.06066."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ParamCount:
    """Parameters by what they are; see ``conventions`` for what each number includes."""

    total: int
    active: int
    embedding: int
    head: int
    mtp: int
    active_non_embedding: int
    routed_experts: int
    parts: dict[str, int]
    """Main model by part; adds up to ``total``."""
    active_parts: dict[str, int]
    """The same for what one token uses; adds up to ``active``."""
    conventions: dict[str, str]

    @property
    def active_without_embedding(self) -> int:
        """Active parameters with the head but without the input embedding."""
        return self.active - self.embedding

    @property
    def trained(self) -> int:
        """Parameters the optimiser holds state for: main model and prediction modules."""
        return self.total + self.mtp


def count_params(model: ModelSpec) -> ParamCount:
    """Count the parameters of a model.

    Examples
    --------
    >>> from simulator.targets.reader import read_target
    >>> count_params(read_target("deepseek-v3").model).total
    671026404352
    """
    return count_tensors(list_tensors(model))


def count_tensors(tensors: Iterable[TensorInfo]) -> ParamCount:
    """Count the parameters of a list of tensors."""
    parts: Counter[str] = Counter()
    active_parts: Counter[str] = Counter()
    mtp = 0
    for tensor in tensors:
        if tensor.is_mtp:
            mtp += tensor.size
        else:
            parts[tensor.part] += tensor.size
            active_parts[tensor.part] += tensor.active_size
    active = active_parts.total()
    return ParamCount(
        total=parts.total(),
        active=active,
        embedding=parts["embedding"],
        head=parts["head"],
        mtp=mtp,
        active_non_embedding=active - parts["embedding"] - parts["head"],
        routed_experts=parts["routed_experts"],
        parts=dict(parts),
        active_parts=dict(active_parts),
        conventions=CONVENTIONS,
    )
