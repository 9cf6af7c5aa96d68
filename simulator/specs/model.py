"""Architecture of a decoder language model as frozen data, under DeepSeek-V3's own key names.

Source of the names: DeepSeek-V3 inference configuration (``dim``, ``inter_dim``, ...) and
arXiv 2412.19437, sections 2.1 and 4.2.
"""

from typing import Literal

from simulator.specs.base import spec
from simulator.specs.errors import SpecError

__all__ = [
    "AttentionSpec",
    "GQASpec",
    "IndexerSpec",
    "MLASpec",
    "MoESpec",
    "ModelSpec",
    "RopeScalingSpec",
    "RopeSpec",
]


def _positive(path: str, **values: int) -> None:
    for name, value in values.items():
        if value <= 0:
            raise SpecError(f"{path}.{name}", "must be positive", value, "Give a number >= 1.")


@spec
class RopeScalingSpec:
    """Change of the rotary frequencies for contexts longer than trained on."""

    kind: Literal["yarn", "llama3", "linear", "dynamic"]
    """YaRN: arXiv 2309.00071; llama3: the Llama-3.1 reference code."""
    factor: float
    original_max_seq_len: int
    beta_fast: float = 32.0
    """YaRN only."""
    beta_slow: float = 1.0
    """YaRN only."""
    mscale: float = 1.0
    """YaRN only: weight of the attention temperature on the rotary part (DeepSeek's variant)."""
    mscale_all_dim: float = 0.0
    """YaRN only: weight of the attention temperature on the whole softmax scale."""
    low_freq_factor: float = 1.0
    """llama3 only."""
    high_freq_factor: float = 4.0
    """llama3 only."""


@spec
class RopeSpec:
    """Rotary position embedding."""

    theta: float
    """Base of the frequencies."""
    scaling: RopeScalingSpec | None = None


@spec
class IndexerSpec:
    """Sparse-attention indexer of DeepSeek-V3.2: counted, never trained by a proxy."""

    n_heads: int
    head_dim: int
    top_k: int


@spec
class MLASpec:
    """Multi-head latent attention (arXiv 2405.04434, section 2.1)."""

    kind: Literal["mla"] = "mla"
    n_heads: int
    q_lora_rank: int
    """Rank of the query latent; 0 means a full-rank query projection."""
    kv_lora_rank: int
    qk_nope_head_dim: int
    qk_rope_head_dim: int
    v_head_dim: int
    indexer: IndexerSpec | None = None

    def __post_init__(self) -> None:
        """Refuse impossible dimensions."""
        _positive(
            "model.attention",
            n_heads=self.n_heads,
            kv_lora_rank=self.kv_lora_rank,
            qk_nope_head_dim=self.qk_nope_head_dim,
            qk_rope_head_dim=self.qk_rope_head_dim,
            v_head_dim=self.v_head_dim,
        )
        if self.q_lora_rank < 0:
            raise SpecError(
                "model.attention.q_lora_rank",
                "must be >= 0",
                self.q_lora_rank,
                "Use 0 for a full-rank query.",
            )
        if self.qk_rope_head_dim % 2:
            raise SpecError(
                "model.attention.qk_rope_head_dim",
                "must be even (rotations act on pairs)",
                self.qk_rope_head_dim,
                "Use an even number.",
            )

    @property
    def qk_head_dim(self) -> int:
        """Query and key dimension of one head, both parts."""
        return self.qk_nope_head_dim + self.qk_rope_head_dim


@spec
class GQASpec:
    """Grouped-query attention; multi-head attention when ``n_kv_heads == n_heads``."""

    kind: Literal["gqa"] = "gqa"
    n_heads: int
    n_kv_heads: int
    head_dim: int
    qkv_bias: bool = False
    qk_norm: bool = False
    """RMSNorm over the head dimension of queries and keys (Qwen3)."""

    def __post_init__(self) -> None:
        """Refuse impossible dimensions."""
        _positive(
            "model.attention",
            n_heads=self.n_heads,
            n_kv_heads=self.n_kv_heads,
            head_dim=self.head_dim,
        )
        if self.n_heads % self.n_kv_heads:
            raise SpecError(
                "model.attention.n_kv_heads",
                f"must divide model.attention.n_heads ({self.n_heads})",
                self.n_kv_heads,
                "Use a divisor of the number of heads.",
            )
        if self.head_dim % 2:
            raise SpecError(
                "model.attention.head_dim",
                "must be even (rotations act on pairs)",
                self.head_dim,
                "Use an even number.",
            )


AttentionSpec = MLASpec | GQASpec


@spec
class MoESpec:
    """DeepSeekMoE feed-forward layers (arXiv 2401.06066, 2405.04434, 2412.19437)."""

    n_routed_experts: int
    n_activated_experts: int
    n_shared_experts: int
    """Shared experts are one fused feed-forward of ``n_shared_experts * moe_inter_dim``."""
    moe_inter_dim: int
    n_dense_layers: int
    """How many of the first layers keep a dense feed-forward."""
    moe_layer_freq: int = 1
    """A layer past the dense ones is a MoE layer when its index divides by this."""
    score_func: Literal["sigmoid", "softmax"]
    route_scale: float
    norm_topk_prob: bool
    """Selected weights are divided by their sum before ``route_scale`` is applied."""
    n_expert_groups: int = 1
    n_limited_groups: int = 1
    """Groups a token may choose from; equal to ``n_expert_groups`` means no limit."""
    group_score: Literal["top2_sum", "max"] = "top2_sum"
    """How a group is scored: V3 sums its two best experts, V2 takes the best."""
    balance: Literal["bias", "aux_loss", "none"]
    """V3: bias on the scores for selection only; V1 and V2: auxiliary loss."""
    aux_loss_alpha: float = 0.0
    """Weight of the balance loss (V3: the small sequence-wise one)."""
    seq_aux: bool = True
    """The balance loss is averaged per sequence rather than over the batch."""

    def __post_init__(self) -> None:
        """Refuse impossible routing."""
        _positive(
            "model.moe",
            n_routed_experts=self.n_routed_experts,
            n_activated_experts=self.n_activated_experts,
            moe_inter_dim=self.moe_inter_dim,
            moe_layer_freq=self.moe_layer_freq,
            n_expert_groups=self.n_expert_groups,
            n_limited_groups=self.n_limited_groups,
        )
        if self.n_routed_experts % self.n_expert_groups:
            raise SpecError(
                "model.moe.n_expert_groups",
                f"must divide model.moe.n_routed_experts ({self.n_routed_experts})",
                self.n_expert_groups,
                "Use a divisor of the number of routed experts.",
            )
        reachable = self.n_routed_experts // self.n_expert_groups * self.n_limited_groups
        if self.n_limited_groups > self.n_expert_groups or self.n_activated_experts > reachable:
            raise SpecError(
                "model.moe.n_activated_experts",
                f"must not exceed the experts within reach of a token ({reachable})",
                self.n_activated_experts,
                "Raise n_limited_groups (up to n_expert_groups) or lower n_activated_experts.",
            )


@spec
class ModelSpec:
    """One decoder language model, target or proxy."""

    vocab_size: int
    dim: int
    """Width of the residual stream."""
    inter_dim: int
    """Hidden width of a dense feed-forward layer."""
    n_layers: int
    """Main layers; multi-token-prediction modules are not among them."""
    attention: AttentionSpec
    moe: MoESpec | None = None
    n_mtp_modules: int = 0
    """Depth of multi-token prediction (arXiv 2412.19437, section 2.2)."""
    rope: RopeSpec
    norm_eps: float = 1e-6
    tie_embeddings: bool = False
    init_std: float
    """Published standard deviation of every matrix at initialisation."""
    max_seq_len: int

    def __post_init__(self) -> None:
        """Refuse impossible dimensions."""
        _positive(
            "model",
            vocab_size=self.vocab_size,
            dim=self.dim,
            inter_dim=self.inter_dim,
            n_layers=self.n_layers,
            max_seq_len=self.max_seq_len,
        )
        if self.n_mtp_modules < 0:
            raise SpecError("model.n_mtp_modules", "must be >= 0", self.n_mtp_modules, "Use 0.")
        if self.init_std <= 0:
            raise SpecError("model.init_std", "must be positive", self.init_std, "Try 0.006.")

    def is_moe_layer(self, layer: int) -> bool:
        """Return whether main layer ``layer`` (from 0) has routed experts."""
        moe = self.moe
        return moe is not None and layer >= moe.n_dense_layers and layer % moe.moe_layer_freq == 0

    @property
    def is_mtp_block_moe(self) -> bool:
        """Whether the block of a multi-token-prediction module has routed experts.

        It follows the main layers past the dense ones (arXiv 2412.19437, section 2.2).
        """
        return self.moe is not None
