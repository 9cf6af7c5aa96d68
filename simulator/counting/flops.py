"""Floating-point operations of one token, from the same list of tensors as the parameters."""

from collections import defaultdict
from dataclasses import dataclass

from simulator.counting.tensors import TensorInfo, list_tensors
from simulator.specs.errors import SpecError
from simulator.specs.model import GQASpec, MLASpec, ModelSpec

__all__ = ["CONVENTION", "FlopCount", "flops_per_token"]

CONVENTION = (
    "2 per multiply-add of every matrix a token uses, head included, plus scores and values of "
    "causal attention over the mean of (seq_len + 1) / 2 positions; look-ups, norms, softmax and "
    "activations are not counted. Training is 3 x forward. Multi-token prediction, with its own "
    "pass through the head, is apart."
)

_TRAINING_FACTOR = 3
"""Forward once; gradients of activations and of weights cost one forward each."""

_HAS_NO_MATMUL = ("embedding", "gain", "bias")


@dataclass(frozen=True, slots=True, kw_only=True)
class FlopCount:
    """FLOPs of one token in a sequence of a given length."""

    forward: float
    """Main model."""
    training: float
    """Main model, forward and backward."""
    mtp_forward: float
    """All multi-token-prediction modules."""
    mtp_training: float
    parts: dict[str, float]
    """Main model's forward by part; adds up to ``forward``."""
    convention: str = CONVENTION

    @property
    def training_with_mtp(self) -> float:
        """What one training token costs, prediction modules included."""
        return self.training + self.mtp_training


def flops_per_token(model: ModelSpec, seq_len: int) -> FlopCount:
    """Count the matrix FLOPs of one token, averaged over a sequence of ``seq_len`` positions.

    Notes
    -----
    A sparse-attention indexer, where the target has one, scores every earlier position and lets
    attention see at most ``top_k`` of them.

    Raises
    ------
    SpecError
        If ``seq_len`` is not positive.
    """
    if seq_len < 1:
        raise SpecError("seq_len", "must be positive", seq_len, "Give the tokens of a sequence.")
    main: defaultdict[str, float] = defaultdict(float)
    mtp = 0.0
    for tensor in list_tensors(model):
        flops = _matmul_flops(tensor)
        if tensor.is_mtp:
            mtp += flops
        else:
            main[tensor.part] += flops
    head = 2 * model.vocab_size * model.dim
    main["head"] = head
    scores = _attention_flops(model, seq_len)
    main["attention_scores"] = scores * model.n_layers
    mtp += model.n_mtp_modules * (head + scores)
    forward = sum(main.values())
    return FlopCount(
        forward=forward,
        training=_TRAINING_FACTOR * forward,
        mtp_forward=mtp,
        mtp_training=_TRAINING_FACTOR * mtp,
        parts={part: flops for part, flops in main.items() if flops},
    )


def _attention_flops(model: ModelSpec, seq_len: int) -> float:
    """Return one layer's FLOPs for scores and weighted values of one token."""
    mean_positions = (seq_len + 1) / 2
    match model.attention:
        case GQASpec() as attention:
            return 4 * attention.n_heads * attention.head_dim * mean_positions
        case MLASpec() as attention:
            head_dims = attention.qk_head_dim + attention.v_head_dim
            indexer = attention.indexer
            if indexer is None:
                return 2 * attention.n_heads * head_dims * mean_positions
            seen = _mean_of_capped_positions(seq_len, indexer.top_k)
            index = 2 * indexer.n_heads * indexer.head_dim * mean_positions
            return 2 * attention.n_heads * head_dims * seen + index


def _matmul_flops(tensor: TensorInfo) -> int:
    return 0 if tensor.kind in _HAS_NO_MATMUL else 2 * tensor.active_size


def _mean_of_capped_positions(seq_len: int, cap: int) -> float:
    """Return the mean over positions 1..seq_len of min(position, cap)."""
    short = min(seq_len, cap)
    return (short * (short + 1) / 2 + (seq_len - short) * cap) / seq_len
