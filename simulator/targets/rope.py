"""Rotary position embedding of a configuration, under its older and newer key names."""

from typing import Literal, assert_never

from simulator.specs.model import RopeScalingSpec, RopeSpec
from simulator.targets.keys import KeyReader, real, whole, word

__all__ = ["read_rope"]

_Kind = Literal["yarn", "llama3", "linear", "dynamic"]
_KINDS: tuple[_Kind, ...] = ("yarn", "llama3", "linear", "dynamic")
_LENGTH = "original_max_position_embeddings"
_YARN = "the default of arXiv 2309.00071"
_DEEPSEEK = "the default of DeepSeek's modelling code"


def read_rope(reader: KeyReader) -> RopeSpec:
    """Return base and scaling; newer files keep both in ``rope_parameters``."""
    newer = reader.child("rope_parameters")
    base = newer if newer is not None and not reader.has("rope_theta") else reader
    theta = base.behaviour("rope_theta", real(1.0), 1.0)
    table = reader.child("rope_scaling") or newer
    return RopeSpec(theta=theta, scaling=None if table is None else _scaling(table, reader))


def _scaling(table: KeyReader, reader: KeyReader) -> RopeScalingSpec | None:
    known = ("default", *_KINDS, "longrope", "su", "proportional")
    name = table.behaviour("rope_type", word(known), "default")
    kind = next((kind for kind in _KINDS if kind == name), None)
    if kind is None:
        if name != "default":
            reader.unsupported.append(f"{table.path}.rope_type {name!r} is not built.")
        return None
    factor = table.behaviour("factor", real(1.0), 1.0)
    scale = ", softmax scale included," if kind == "yarn" else ""
    reader.notes.append(
        f"{table.path} ({kind}, factor {factor:g}) is kept{scale} although "
        "models are usually pre-trained before their context is extended; remove it to train "
        "without."
    )
    match kind:
        case "yarn":
            return _yarn(table, factor)
        case "llama3":
            return RopeScalingSpec(
                kind="llama3",
                factor=factor,
                original_max_seq_len=table.behaviour(_LENGTH, whole(), 1),
                low_freq_factor=table.behaviour("low_freq_factor", real(), 1.0),
                high_freq_factor=table.behaviour("high_freq_factor", real(), 4.0),
            )
        case "linear" | "dynamic":
            length = reader.behaviour("max_position_embeddings", whole(), 1)
            return RopeScalingSpec(kind=kind, factor=factor, original_max_seq_len=length)
        case _ as never:
            assert_never(never)


def _yarn(table: KeyReader, factor: float) -> RopeScalingSpec:
    return RopeScalingSpec(
        kind="yarn",
        factor=factor,
        original_max_seq_len=table.behaviour(_LENGTH, whole(), 1),
        beta_fast=table.default("beta_fast", real(), 32.0, _YARN),
        beta_slow=table.default("beta_slow", real(), 1.0, _YARN),
        mscale=table.default("mscale", real(), 1.0, _DEEPSEEK),
        mscale_all_dim=table.default("mscale_all_dim", real(), 0.0, _DEEPSEEK),
    )
