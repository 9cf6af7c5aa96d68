"""The table of rules, and the rules of tensors that AdamW trains."""

from collections.abc import Mapping
from dataclasses import replace
from math import sqrt
from typing import Literal

from simulator.counting.tensors import TensorInfo, TensorKind, list_tensors
from simulator.parametrisation.muon import by_muon
from simulator.parametrisation.rule import FanIns, TensorRule
from simulator.specs.errors import SpecError
from simulator.specs.model import ModelSpec
from simulator.specs.run import MuonScale, ParametrisationSpec

__all__ = ["logit_factor", "rule_table", "tensor_rule"]


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


def rule_table(
    model: ModelSpec, param: ParametrisationSpec, muon_scale: MuonScale | None = None
) -> tuple[TensorRule, ...]:
    """Return the rule of every tensor of ``model``, in the order of ``list_tensors``.

    Parameters
    ----------
    model
        Any width and depth: the proxy, the target, or a rung between them.
    muon_scale
        The optimiser's own: null for AdamW, else how Muon scales the updates of hidden matrices.

    Raises
    ------
    SpecError
        If a tensor of ``model`` has no counterpart in the proxy or in the target.
    """
    proxy, target = _references(param.proxy), _references(param.target)
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
        ends = proxy[tensor.role], target[tensor.role]
        rule = tensor_rule(tensor, param, FanIns(proxy=ends[0].fan_in, target=ends[1].fan_in))
        if muon_scale is not None and tensor.kind == "matrix":
            anchor = ends[0] if param.anchor == "proxy" else ends[1]
            rule = by_muon(rule, tensor, anchor, param, muon_scale)
        table.append(rule)
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


def _references(model: ModelSpec) -> dict[str, TensorInfo]:
    """Return a tensor of every role, from a model with one layer of each sort.

    Its depth is not the reference's own, so that a cut of layers or of prediction modules on one
    side does not leave the other side's tensors without a counterpart.
    """
    moe = model.moe
    num_layers = 1 if moe is None else moe.n_dense_layers + moe.moe_layer_freq
    sample = replace(model, n_layers=num_layers, n_mtp_modules=1, tie_embeddings=False)
    return {tensor.role: tensor for tensor in list_tensors(sample)}
