"""The two sides of a transfer: how long, how large and with what batch each is trained.

::

    RunScale(active_params, num_tokens, batch_tokens)   one side
    Exponents(beta, gamma, ...)                         how the best rate moves, with uncertainty
    Transfer(proxy, target, parametrisation, beta2)     both sides and their ratios
    Multipliers(matrix_lr, head_lr, ...)                of one model under the parametrisation
    multipliers_of(model, parametrisation, muon_scale) -> Multipliers
"""

from collections import Counter
from dataclasses import dataclass

from scaling.priors import BATCH_EXPONENT, HORIZON_EXPONENT
from simulator.parametrisation import TensorRule, rule_table
from simulator.specs.errors import SpecError
from simulator.specs.model import ModelSpec
from simulator.specs.run import MuonScale, ParametrisationSpec

__all__ = ["Exponents", "Multipliers", "RunScale", "Transfer", "multipliers_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunScale:
    """One side of a transfer."""

    active_params: int
    """Active parameters without embeddings and head."""
    num_tokens: int
    batch_tokens: int

    def __post_init__(self) -> None:
        """Refuse a run without parameters, tokens or batch."""
        for name in ("active_params", "num_tokens", "batch_tokens"):
            if getattr(self, name) <= 0:
                raise SpecError(name, "must be positive", getattr(self, name), "Give >= 1.")

    @property
    def num_steps(self) -> int:
        """Optimiser steps, at least 1."""
        return max(1, self.num_tokens // self.batch_tokens)

    @property
    def tokens_per_param(self) -> float:
        """Training tokens per active non-embedding parameter."""
        return self.num_tokens / self.active_params


@dataclass(frozen=True, slots=True, kw_only=True)
class Exponents:
    """How the best peak rate moves with horizon, batch and width, and how surely.

    The defaults are priors; a ladder of horizons on the proxy replaces them.

    References
    ----------
    beta: arXiv 2409.19913. gamma: arXiv 2205.10287. tau: arXiv 2505.13738 (0.527, rounded).
    """

    beta: float = HORIZON_EXPONENT
    """LR* ~ tokens^-beta at a fixed batch."""
    beta_std: float = 0.12
    gamma: float = BATCH_EXPONENT
    """LR* ~ batch^gamma up to twice the optimal batch."""
    gamma_std: float = 0.15
    tau_exponent: float = 0.53
    """LR * decay ~ tokens-per-parameter^tau_exponent at a fixed number of steps."""
    drift_std_octaves: float = 0.2
    """Drift of the best rate per doubling of the width that the rule leaves over."""
    source: str = "priors"


@dataclass(frozen=True, slots=True, kw_only=True)
class Multipliers:
    """Factors of the base learning rate and decay in one model."""

    matrix_lr: float
    """The commonest factor among the hidden matrices."""
    head_lr: float
    """The embedding's where they are one table."""
    embedding_lr: float
    matrix_decay: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Transfer:
    """Both sides of a transfer and the rule between their widths."""

    proxy: RunScale
    target: RunScale
    parametrisation: ParametrisationSpec
    """Holds both models."""
    beta2: float = 0.95
    """The target's own."""
    exponents: Exponents = Exponents()
    muon_scale: MuonScale | None = None
    """The optimiser's own; null for AdamW."""

    @property
    def tokens_ratio(self) -> float:
        """kD, target over proxy."""
        return self.target.num_tokens / self.proxy.num_tokens

    @property
    def batch_ratio(self) -> float:
        """kB, target over proxy."""
        return self.target.batch_tokens / self.proxy.batch_tokens

    @property
    def steps_ratio(self) -> float:
        """kS, target over proxy."""
        return self.target.num_steps / self.proxy.num_steps

    @property
    def tokens_per_param_ratio(self) -> float:
        """The ratio r of tokens per active parameter, target over proxy."""
        return self.target.tokens_per_param / self.proxy.tokens_per_param

    @property
    def width_ratio(self) -> float:
        """The ratio s of the hidden matrices' commonest fan-in, target over proxy."""
        return self.parametrisation.target.dim / self.parametrisation.proxy.dim


def multipliers_of(
    model: ModelSpec, parametrisation: ParametrisationSpec, muon_scale: MuonScale | None = None
) -> Multipliers:
    """Return the factors that the parametrisation gives the tensors of ``model``.

    Parameters
    ----------
    muon_scale
        The optimiser's own; null for AdamW.

    Raises
    ------
    SpecError
        If the parametrisation has no rule for a tensor of the model.
    """
    rules = rule_table(model, parametrisation, muon_scale)
    matrix = _commonest([rule for rule in rules if rule.kind == "matrix"])
    embedding = next(rule for rule in rules if rule.kind == "embedding")
    head = next((rule for rule in rules if rule.kind == "head"), embedding)
    return Multipliers(
        matrix_lr=matrix.lr_multiplier,
        head_lr=head.lr_multiplier,
        embedding_lr=embedding.lr_multiplier,
        matrix_decay=matrix.decay_multiplier,
    )


def _commonest(rules: list[TensorRule]) -> TensorRule:
    """Return a rule with the learning-rate factor that most tensors share."""
    ((factor, _),) = Counter(rule.lr_multiplier for rule in rules).most_common(1)
    return next(rule for rule in rules if rule.lr_multiplier == factor)
