"""A model's parameters by part and by every definition in use."""

from collections.abc import Iterator

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from simulator.counting.params import count_tensors
from simulator.specs.base import spec
from simulator.targets.target import Target
from sweeps.amounts import amount, share

__all__ = ["ModelCount", "count_target", "render_count"]

_CONVENTIONS = {
    "params_total": "main model: embedding and head counted, multi-token-prediction modules not",
    "params_active": "total minus the routed experts a token does not select; embedding and head "
    "counted",
    "params_embedding": "embedding and head together; a tied head is one tensor, counted once",
    "params_input_embedding": "input tables alone",
    "params_head": "output table alone; 0 when tied",
    "params_mtp": "own tensors of the multi-token-prediction modules; embedding and head, which "
    "published checkpoints repeat there, are not",
    "params_routed_experts": "all routed experts, selected or not",
    "params_active_without_input_embedding": "active minus the input embedding, head kept",
    "params_active_non_embedding": "active minus embedding and head: N in tokens per parameter",
    "params_checkpoint": "what a checkpoint holds that repeats embedding and head in every "
    "multi-token-prediction module, as DeepSeek-V3's does",
    "parts": "main model; adds up to params_total",
    "active_parts": "what one token uses of it; adds up to params_active",
}


@spec
class ModelCount:
    """Parameters of one model; ``conventions`` says what each number includes."""

    name: str
    model_type: str
    is_trainable: bool
    """Whether a proxy of it can be trained here."""
    why_not: str
    params_total: int
    params_active: int
    params_embedding: int
    params_input_embedding: int
    params_head: int
    params_mtp: int
    params_routed_experts: int
    params_active_without_input_embedding: int
    params_active_non_embedding: int
    params_checkpoint: int
    parts: dict[str, int]
    active_parts: dict[str, int]
    conventions: dict[str, str]
    warnings: tuple[str, ...]


def count_target(target: Target) -> ModelCount:
    """Count what was read from a configuration, trainable here or not."""
    count = count_tensors(target.tensors)
    tables = count.embedding + count.head
    num_modules = len({tensor.layer for tensor in target.tensors if tensor.is_mtp})
    return ModelCount(
        name=target.name,
        model_type=target.model_type,
        is_trainable=target.is_trainable,
        why_not=target.why_not,
        params_total=count.total,
        params_active=count.active,
        params_embedding=tables,
        params_input_embedding=count.embedding,
        params_head=count.head,
        params_mtp=count.mtp,
        params_routed_experts=count.routed_experts,
        params_active_without_input_embedding=count.active_without_embedding,
        params_active_non_embedding=count.active_non_embedding,
        params_checkpoint=count.total + count.mtp + num_modules * tables,
        parts=count.parts,
        active_parts=count.active_parts,
        conventions=_CONVENTIONS,
        warnings=target.warnings,
    )


def render_count(count: ModelCount) -> RenderableType:
    """Return the count as text and tables for a terminal."""
    title = Text(f"{count.name} ({count.model_type})", style="bold")
    tail = [*count.warnings] if count.is_trainable else [*count.warnings, count.why_not]
    return Group(
        title,
        Text("\nMain model by part"),
        _parts(count),
        Text("\nThe same model by every definition in use"),
        _definitions(count),
        *(Text(f"- {line}") for line in tail),
    )


def _parts(count: ModelCount) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, header_style="dim")
    table.add_column("part")
    for name in ("parameters", "", "share", "used by one token"):
        table.add_column(name, justify="right")
    for part, size in count.parts.items():
        if size:
            used = count.active_parts[part]
            fraction = share(size / count.params_total)
            table.add_row(part.replace("_", " "), f"{size:,}", amount(size), fraction, amount(used))
    total = count.params_total
    table.add_row("in all", f"{total:,}", amount(total), "100 %", amount(count.params_active))
    return table


def _definitions(count: ModelCount) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, header_style="dim")
    table.add_column("definition", overflow="fold")
    table.add_column("parameters", justify="right")
    table.add_column("", justify="right")
    table.add_column("published numbers that use it", overflow="fold")
    for name, value, examples in _rows(count):
        table.add_row(name, f"{value:,}", amount(value), examples)
    return table


def _rows(count: ModelCount) -> Iterator[tuple[str, int, str]]:
    yield "total, without prediction modules", count.params_total, "DeepSeek-V3's 671 B"
    if count.params_mtp:
        yield "prediction modules (MTP) alone", count.params_mtp, ""
        yield (
            "checkpoint: both, tables repeated",
            count.params_checkpoint,
            "DeepSeek-V3's 685 B on its model page",
        )
    yield (
        "active: what one token uses",
        count.params_active,
        "DeepSeekMoE-16B's 2.8 B, Qwen3-30B-A3B's 3.3 B",
    )
    yield (
        "active without input embedding",
        count.params_active_without_input_embedding,
        "DeepSeek-V3's 37 B, V2's 21 B, V2-Lite's 2.4 B, gpt-oss-20b's 3.6 B",
    )
    yield (
        "active without embedding and head (N)",
        count.params_active_non_embedding,
        "N in tokens per parameter and in scaling laws",
    )
    yield "embedding and head", count.params_embedding, ""
