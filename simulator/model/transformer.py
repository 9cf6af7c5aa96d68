"""The whole model: embedding, layers, head and multi-token-prediction modules.

Shapes: B sequences, W tokens of a window, T predicted positions of it, N = B * T, D width of the
residual stream, V vocabulary, H heads, E routed experts; ``*K`` an optional leading axis of models.
A window holds ``W = T + 1 + n_mtp_modules`` tokens: position i of T reads token i, the main head
predicts token i + 1, prediction module k (from 0) also reads token i + k + 1 and predicts token
i + k + 2.
"""

from collections.abc import Iterable, Sequence
from typing import Literal

import torch
from torch import Tensor, nn

from simulator.model.block import Block
from simulator.model.linear import Embedding, Linear
from simulator.model.loss import LossParts, TokenNLL, cross_entropy
from simulator.model.moe import MoE, MoEStatistics
from simulator.model.norm import RMSNorm
from simulator.model.rope import RotaryTables, rotary_tables
from simulator.model.routing import updated_bias
from simulator.specs.model import MLASpec, ModelSpec

__all__ = ["PredictionModule", "Transformer", "build_model"]


class PredictionModule(nn.Module):
    """One multi-token-prediction module (arXiv 2412.19437, section 2.2).

    Embedding and head are the main model's and are called by it. As in the published checkpoints,
    the embedding comes first in the concatenation and the hidden state is the normalised one that
    the head sees.
    """

    def __init__(self, model: ModelSpec) -> None:
        super().__init__()
        self.embed_norm = RMSNorm(model.dim, model.norm_eps)
        self.hidden_norm = RMSNorm(model.dim, model.norm_eps)
        self.proj = Linear(2 * model.dim, model.dim)
        self.block = Block(model, is_moe=model.is_mtp_block_moe)
        self.norm = RMSNorm(model.dim, model.norm_eps)

    def forward(
        self, embedded_ND: Tensor, hidden_ND: Tensor, tables: RotaryTables
    ) -> tuple[Tensor, MoEStatistics | None]:
        """Return the hidden state for the head, ``[*K, N, D]``, and the routing's statistics."""
        both = torch.cat([self.embed_norm(embedded_ND), self.hidden_norm(hidden_ND)], dim=-1)
        x_ND, statistics = self.block(self.proj(both), tables)
        return self.norm(x_ND), statistics


class Transformer(nn.Module):
    """Decoder language model of one ``ModelSpec``.

    Parameters may carry a leading axis of models (set so, or given by
    ``torch.func.functional_call``); every result then carries it too.
    """

    def __init__(self, spec: ModelSpec, *, logit_factor: float = 1.0) -> None:
        super().__init__()
        self.spec = spec
        self.logit_factor = logit_factor
        self.embed = Embedding(spec.vocab_size, spec.dim)
        self.layers = nn.ModuleList(
            Block(spec, is_moe=spec.is_moe_layer(layer)) for layer in range(spec.n_layers)
        )
        self.norm = RMSNorm(spec.dim, spec.norm_eps)
        self.head = None if spec.tie_embeddings else Linear(spec.dim, spec.vocab_size)
        self.mtp = nn.ModuleList(PredictionModule(spec) for _ in range(spec.n_mtp_modules))
        self._tables: dict[tuple[int, torch.device], RotaryTables] = {}

    def forward(self, tokens: Tensor, *, aux: bool = True) -> LossParts:
        """Return the losses of a batch of windows, each a mean over its predicted positions.

        Parameters
        ----------
        tokens
            Windows ``[B, W]``, or ``[*K, B, W]`` when every model reads its own.
        aux
            Also compute the prediction modules' and the balance losses.
        """
        hidden_ND, statistics = self._hidden(self._inputs(tokens, 0))
        main = self._nll(hidden_ND, self._inputs(tokens, 1)).mean(dim=-1)
        mtp = None
        if aux and self.mtp:
            nlls, more = self._predict_further(tokens, hidden_ND)
            statistics = [*statistics, *more]
            mtp = torch.stack([nll.mean(dim=-1) for nll in nlls]).mean(dim=0)
        balances = [s.balance for s in statistics if aux and s.balance is not None]
        balance = torch.stack(balances).sum(dim=0) if balances else None
        load = tuple(s.load for s in statistics)
        return LossParts(main=main, mtp=mtp, balance=balance, expert_load=load)

    def logits(self, tokens: Tensor) -> Tensor:
        """Return the next-token logits ``[*K, B, T, V]`` of sequences ``[B, T]``."""
        logits_NV = self._logits(self._hidden(tokens)[0])
        return logits_NV.view(*logits_NV.shape[:-2], *tokens.shape[-2:], -1)

    def token_nll(self, tokens: Tensor) -> Tensor:
        """Return the next-token loss of every position of windows ``[B, W]``, ``[*K, B, T]``."""
        hidden_ND, _ = self._hidden(self._inputs(tokens, 0))
        return self._by_position(self._nll(hidden_ND, self._inputs(tokens, 1)), tokens)

    def all_token_nll(self, tokens: Tensor) -> TokenNLL:
        """Return the losses of every position of windows ``[B, W]``, prediction modules' too."""
        hidden_ND, _ = self._hidden(self._inputs(tokens, 0))
        main = self._nll(hidden_ND, self._inputs(tokens, 1))
        further, _ = self._predict_further(tokens, hidden_ND)
        return TokenNLL(
            main=self._by_position(main, tokens),
            mtp=tuple(self._by_position(nll, tokens) for nll in further),
        )

    @torch.no_grad()
    def max_attention_logits(self, tokens: Tensor) -> tuple[Tensor, ...]:
        """Return each main layer's largest attention logit per head, ``[*K, H]``, float32.

        Parameters
        ----------
        tokens
            Sequences ``[B, T]``.
        """
        tables = self._rotary_tables(tokens)
        x_ND = self.embed(tokens.flatten(-2))
        largest = []
        for block in self._blocks():
            largest.append(block.max_attention_logits(x_ND, tables))
            x_ND, _ = block(x_ND, tables)
        return tuple(largest)

    @torch.no_grad()
    def update_balance_bias(self, loads: Sequence[Tensor], rate: Tensor | float) -> None:
        """Move every balance bias by ``rate`` towards even load, in place.

        Parameters
        ----------
        loads
            Choices of one optimiser step's whole batch on each expert, ``[*K, E]``, one tensor for
            each layer with routed experts, in the order of ``LossParts.expert_load``.
        rate
            Size of the move, >= 0; of each model where it is a tensor, ``[*K, 1]``.
        """
        gates = [module.gate for module in self.modules() if isinstance(module, MoE)]
        for gate, load_E in zip(gates, loads, strict=True):
            if gate.bias is not None:
                gate.bias.copy_(updated_bias(gate.bias, load_E, rate))

    def _blocks(self) -> Iterable[Block]:
        return (block for block in self.layers if isinstance(block, Block))

    def _inputs(self, tokens: Tensor, shift: int) -> Tensor:
        """Return the T tokens of each window that start at ``shift``, ``[*K, B, T]``."""
        return tokens.narrow(-1, shift, tokens.shape[-1] - 1 - self.spec.n_mtp_modules)

    def _hidden(self, inputs_BT: Tensor) -> tuple[Tensor, list[MoEStatistics]]:
        """Return the normalised last hidden state ``[*K, N, D]`` and every routing's statistics."""
        tables = self._rotary_tables(inputs_BT)
        x_ND = self.embed(inputs_BT.flatten(-2))
        statistics = []
        for block in self.layers:
            x_ND, routed = block(x_ND, tables)
            statistics.append(routed)
        return self.norm(x_ND), [routed for routed in statistics if routed is not None]

    def _predict_further(
        self, tokens: Tensor, hidden_ND: Tensor
    ) -> tuple[list[Tensor], list[MoEStatistics]]:
        """Return each prediction module's losses ``[*K, N]`` and the routings' statistics."""
        nlls, statistics = [], []
        for depth, module in enumerate(self.mtp):
            inputs_BT = self._inputs(tokens, depth + 1)
            embedded_ND = self.embed(inputs_BT.flatten(-2))
            hidden_ND, routed = module(embedded_ND, hidden_ND, self._rotary_tables(inputs_BT))
            nlls.append(self._nll(hidden_ND, self._inputs(tokens, depth + 2)))
            statistics.append(routed)
        return nlls, [routed for routed in statistics if routed is not None]

    def _nll(self, hidden_ND: Tensor, targets_BT: Tensor) -> Tensor:
        return cross_entropy(self._logits(hidden_ND), targets_BT.flatten(-2))

    def _logits(self, hidden_ND: Tensor) -> Tensor:
        if self.logit_factor != 1.0:
            hidden_ND = hidden_ND * self.logit_factor
        logits_NV: Tensor
        if self.head is None:
            logits_NV = self.embed(hidden_ND, as_head=True)
        else:
            logits_NV = self.head(hidden_ND)
        return logits_NV

    def _by_position(self, nll_N: Tensor, tokens: Tensor) -> Tensor:
        return nll_N.view(*nll_N.shape[:-1], *self._inputs(tokens, 0).shape[-2:])

    def _rotary_tables(self, inputs_BT: Tensor) -> RotaryTables:
        """Return the tables for these sequences; made once for each length and device."""
        key = (inputs_BT.shape[-1], inputs_BT.device)
        if key not in self._tables:
            with torch.inference_mode(mode=False):  # made in an evaluation, used in training too
                self._tables[key] = rotary_tables(self.spec.rope, _rotary_dim(self.spec), *key)
        return self._tables[key]


def build_model(
    model: ModelSpec,
    *,
    logit_factor: float = 1.0,
    device: torch.device | str | Literal["cpu", "meta"] = "cpu",
    dtype: torch.dtype = torch.float32,
) -> Transformer:
    """Return the model with gains of one and every other parameter zero.

    Parameters
    ----------
    logit_factor
        Factor of the logits (tied embeddings under width scaling).
    device
        ``"meta"`` gives a model of shapes without memory.
    dtype
        Type of the parameters; balance biases stay float32.
    """
    with torch.device(device):
        built = Transformer(model, logit_factor=logit_factor)
    for parameter in built.parameters():
        parameter.data = parameter.data.to(dtype)
    return built


def _rotary_dim(model: ModelSpec) -> int:
    attention = model.attention
    return attention.qk_rope_head_dim if isinstance(attention, MLASpec) else attention.head_dim
