"""One pre-norm transformer layer.

Shapes: N tokens, D width of the residual stream; ``*K`` an optional leading axis of models.
"""

from torch import Tensor, nn

from simulator.model.attention import build_attention
from simulator.model.feed_forward import FeedForward
from simulator.model.moe import MoE, MoEStatistics
from simulator.model.norm import RMSNorm
from simulator.model.rope import RotaryTables
from simulator.specs.model import ModelSpec

__all__ = ["Block"]


class Block(nn.Module):
    """Attention and feed-forward, each on a normalised copy and added to the stream."""

    def __init__(self, model: ModelSpec, *, is_moe: bool) -> None:
        super().__init__()
        self.attn_norm = RMSNorm(model.dim, model.norm_eps)
        self.attn = build_attention(model)
        self.ffn_norm = RMSNorm(model.dim, model.norm_eps)
        if is_moe and model.moe is not None:
            self.ffn: MoE | FeedForward = MoE(model.dim, model.moe)
        else:
            self.ffn = FeedForward(model.dim, model.inter_dim)

    def forward(self, x_ND: Tensor, tables: RotaryTables) -> tuple[Tensor, MoEStatistics | None]:
        """Return the stream after the layer, and the routing's statistics where there is one."""
        x_ND = x_ND + self.attn(self.attn_norm(x_ND), tables)
        if isinstance(self.ffn, MoE):
            y_ND, statistics = self.ffn(self.ffn_norm(x_ND), tables.num_positions)
            return x_ND + y_ND, statistics
        return x_ND + self.ffn(self.ffn_norm(x_ND)), None

    def max_attention_logits(self, x_ND: Tensor, tables: RotaryTables) -> Tensor:
        """Return the largest attention logit of each head, ``[*K, H]``."""
        return self.attn.max_logits(self.attn_norm(x_ND), tables)
