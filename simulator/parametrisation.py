"""One rule per tensor: how initial scale, learning rate and decay follow the width.

Every tensor is treated by its own fan-in, not by the model's width. For a matrix the initial
standard deviation goes as fan_in^-1/2 and Adam's learning rate as 1/fan_in; its decay coefficient
is multiplied by the inverse, so that learning rate times decay is the same at every width.
Embeddings, gains and biases keep learning rate and initial scale.

References
----------
Spectral condition: arXiv 2310.17813, sections 2 and 3. Adam's table: arXiv 2203.03466, table 3.
Standard parametrisation with full-alignment learning rates: arXiv 2407.05872. Decay: arXiv
2405.13698 and 2510.19093. The closest use, a 560 B MoE tuned at 1/8 width: arXiv 2509.01322.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import sqrt
from typing import Literal

from simulator.counting.tensors import TensorInfo, TensorKind, TensorPart, list_tensors
from simulator.specs.errors import SpecError
from simulator.specs.model import ModelSpec
from simulator.specs.run import ParametrisationSpec

__all__ = ["FanIns", "TensorRule", "logit_factor", "rule_table", "tensor_rule"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorRule:
    """How one tensor starts and learns."""

    name: str
    """As in ``named_parameters()`` of the built model."""
    shape: tuple[int, ...]
    kind: TensorKind
    """Gains start at one and biases at zero; every other kind is drawn."""
    part: TensorPart
    fan_in: int
    init_std: float
    """Standard deviation of the normal initial values; 0 for gains and biases."""
    lr_multiplier: float
    """Factor of the run's learning rate."""
    decay_multiplier: float
    """Factor of the run's decay coefficient; 0 where ``is_decayed`` is false."""
    is_decayed: bool
    source: str
    """Where the rule comes from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FanIns:
    """Fan-in of one tensor in the two reference shapes."""

    proxy: int
    target: int


_SOURCES: Mapping[TensorKind, str] = {
    "embedding": "one-hot input: width-independent (arXiv 2203.03466, table 3; 2605.21486)",
    "matrix": "std 1/sqrt(fan_in), lr 1/fan_in, decay inverse (arXiv 2310.17813; 2407.05872)",
    "router": "as a matrix, keeps the variance of the router's logits (arXiv 2601.20205)",
    "head": "std 1/sqrt(fan_in), lr 1/fan_in, decay inverse (arXiv 2407.05872; 2509.01322)",
    "gain": "width-independent, never decayed (arXiv 2203.03466, table 3)",
    "bias": "width-independent, never decayed (arXiv 2203.03466, table 3)",
}
_MUP_HEAD_SOURCE = "std 1/fan_in, lr 1/fan_in, decay inverse (arXiv 2203.03466, table 3)"
_CONTROL_SOURCE = "control: one learning rate and one decay for every tensor"


def rule_table(model: ModelSpec, param: ParametrisationSpec) -> tuple[TensorRule, ...]:
    """Return the rule of every tensor of ``model``, in the order of ``list_tensors``.

    Parameters
    ----------
    model
        Any width and depth: the proxy, the target, or a rung between them.

    Raises
    ------
    SpecError
        If a tensor of ``model`` has no counterpart in the proxy or in the target.
    """
    proxy, target = _fan_ins(param.proxy), _fan_ins(param.target)
    table = []
    for tensor in list_tensors(model):
        for shape, known in (("proxy", proxy), ("target", target)):
            if tensor.role not in known:
                raise SpecError(
                    f"parametrisation.{shape}",
                    "must hold a counterpart of every tensor of the model",
                    f"none for {tensor.name}",
                    f"Build the {shape} from the same kind of layers as the model.",
                )
        fan_ins = FanIns(proxy=proxy[tensor.role], target=target[tensor.role])
        table.append(tensor_rule(tensor, param, fan_ins))
    return tuple(table)


def tensor_rule(tensor: TensorInfo, param: ParametrisationSpec, fan_ins: FanIns) -> TensorRule:
    """Return the rule of one tensor.

    Raises
    ------
    SpecError
        If no rule matches the tensor's kind.
    """
    match tensor.kind:
        case "matrix" | "router" | "head":
            return _matrix_rule(tensor, param, fan_ins)
        case "embedding":
            return _fixed_rule(tensor, param, init_std=param.target.init_std, is_decayed=True)
        case "gain" | "bias":
            return _fixed_rule(tensor, param, init_std=0.0, is_decayed=False)
        case unknown:
            raise SpecError(
                f"parametrisation.{tensor.name}",
                f"must be of a kind some rule matches ({', '.join(_SOURCES)})",
                unknown,
                "Give the tensor one of these kinds or write its rule.",
            )


def logit_factor(model: ModelSpec, param: ParametrisationSpec) -> float:
    """Return what the logits are multiplied by in the forward pass.

    A tied table keeps the embedding's scale at every width, so the sum over its inputs has to be
    divided by the width ratio instead (arXiv 2203.03466, appendix on tied layers); 1 for an
    untied head and for the control.
    """
    if not model.tie_embeddings or param.kind == "uniform_lr_sp":
        return 1.0
    return _anchor(param).dim / model.dim


def _anchor(param: ParametrisationSpec) -> ModelSpec:
    return param.proxy if param.anchor == "proxy" else param.target


def _matrix_rule(tensor: TensorInfo, param: ParametrisationSpec, fan_ins: FanIns) -> TensorRule:
    anchor_fan_in = fan_ins.proxy if param.anchor == "proxy" else fan_ins.target
    lr_multiplier = 1.0 if param.kind == "uniform_lr_sp" else anchor_fan_in / tensor.fan_in
    narrowing = fan_ins.target / tensor.fan_in
    is_mup_head = param.kind == "mup" and tensor.kind == "head"
    return TensorRule(
        name=tensor.name,
        shape=tensor.shape,
        kind=tensor.kind,
        part=tensor.part,
        fan_in=tensor.fan_in,
        init_std=param.target.init_std * (narrowing if is_mup_head else sqrt(narrowing)),
        lr_multiplier=lr_multiplier,
        decay_multiplier=1.0 / lr_multiplier,
        is_decayed=True,
        source=_source(tensor.kind, param.kind),
    )


def _fixed_rule(
    tensor: TensorInfo, param: ParametrisationSpec, *, init_std: float, is_decayed: bool
) -> TensorRule:
    return TensorRule(
        name=tensor.name,
        shape=tensor.shape,
        kind=tensor.kind,
        part=tensor.part,
        fan_in=tensor.fan_in,
        init_std=init_std,
        lr_multiplier=1.0,
        decay_multiplier=1.0 if is_decayed else 0.0,
        is_decayed=is_decayed,
        source=_source(tensor.kind, param.kind),
    )


def _source(
    kind: TensorKind, parametrisation: Literal["sp_fullalign", "mup", "uniform_lr_sp"]
) -> str:
    if parametrisation == "uniform_lr_sp":
        return _CONTROL_SOURCE
    if parametrisation == "mup" and kind == "head":
        return _MUP_HEAD_SOURCE
    return _SOURCES[kind]


def _fan_ins(model: ModelSpec) -> dict[str, int]:
    """Return the fan-in of every tensor role, from a model with one layer of each sort.

    Its depth is not the reference's own, so that a cut of layers or of prediction modules on one
    side does not leave the other side's tensors without a counterpart.
    """
    moe = model.moe
    num_layers = 1 if moe is None else moe.n_dense_layers + moe.moe_layer_freq
    sample = replace(model, n_layers=num_layers, n_mtp_modules=1, tie_embeddings=False)
    return {tensor.role: tensor.fan_in for tensor in list_tensors(sample)}
