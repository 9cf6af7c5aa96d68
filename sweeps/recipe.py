"""``[target]`` resolved: the recipe its makers published, what the user changed, and rules.

A model that nobody published gets a recipe by rule; every value that came so is named in a note,
which the plan prints.
"""

from dataclasses import dataclass, replace
from math import ceil
from pathlib import Path
from typing import Literal

from full_run.plan import PUBLISHED_MTP_WEIGHT
from scaling.priors import balance_bias_rate, optimal_batch_tokens, step_law_lr, tau_law
from simulator.counting.params import count_params
from simulator.records.summary import Flag
from simulator.schedules import named_shape
from simulator.specs.errors import SpecError
from simulator.specs.model import ModelSpec
from simulator.specs.run import PhaseSpec
from simulator.targets.reader import read_target
from simulator.targets.recipes import PublishedRecipe, find_recipe
from simulator.targets.target import Target
from sweeps.spec import TargetSpec
from sweeps.tables.target import TargetTable

__all__ = ["ResolvedTarget", "bias_phases", "find_target", "resolve_target"]

DEFAULT_SCHEDULE = "cosine_to_10pct"
"""What most published recipes without a schedule of their own follow (arXiv 2203.15556)."""

DEFAULT_WARMUP_FRACTION = 0.02
"""Usual share of short runs; DeepSeek's 2,000 steps are an absolute number for long ones."""

BALANCED_FRACTION = 0.9
"""Share of a run after which balancing is switched off: DeepSeek-V3 at 14.3 of 14.8 T tokens,
earlier on short runs (arXiv 2412.19437, section 4.2)."""

USUAL_SEQ_LEN = 4096
"""Longest sequence of the long first phase in DeepSeek's and most other recipes; longer contexts
are added afterwards (arXiv 2412.19437, section 4.3)."""

_NUMBERS = ("peak_lr", "weight_decay", "beta1", "beta2", "clip_norm", "warmup_steps", "seq_len")
_OVERRIDES = (*_NUMBERS, "optimizer")


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedTarget:
    """The target and the one point of the search space its recipe is."""

    spec: TargetSpec
    peak_lr: float
    """One rate for every tensor, as recipes are published."""
    weight_decay: float
    is_known: bool
    """Whether the rate was published or given, rather than taken from a law."""
    notes: tuple[str, ...]
    """What was taken from where, one sentence each."""
    flags: tuple[Flag, ...]


def find_target(config: str, *, root: Path) -> Target:
    """Read the configuration that ``config`` names: a path below ``root``, or a built-in name.

    Raises
    ------
    SpecError
        If there is no such configuration, or it cannot be read.
    """
    placed = root / Path(config).expanduser()
    return read_target(placed if placed.exists() else config)


def resolve_target(table: TargetTable, *, root: Path) -> ResolvedTarget:
    """Return the target of a sweep, complete.

    Parameters
    ----------
    root
        Folder that a relative ``config`` starts from.

    Raises
    ------
    SpecError
        If the configuration cannot be read or trained, or what no rule gives is missing.
    """
    found = find_target(table.config, root=root)
    model = found.trainable_model()
    if table.init_std is not None:
        model = replace(model, init_std=table.init_std)
    published = find_recipe(found)
    if published is None:
        recipe, notes = _recipe_by_rule(table, model)
    else:
        recipe, notes = published, _published_notes(published, table)
    recipe = _with_phases(_overridden(recipe, table), table, model)
    std_source = "given" if table.init_std is not None else found.init_std_source
    notes = (
        *found.warnings,
        *notes,
        f"initial standard deviation {model.init_std:g}: {std_source}",
    )
    return ResolvedTarget(
        spec=_target_spec(table.name or found.name, model, recipe),
        peak_lr=recipe.peak_lr,
        weight_decay=recipe.weight_decay,
        is_known=published is not None or table.peak_lr is not None,
        notes=notes,
        flags=_flags(published, recipe.optimizer),
    )


def bias_phases(model: ModelSpec, num_steps: int) -> tuple[PhaseSpec, ...]:
    """Return the update speed of the balance bias for a run of ``num_steps`` steps.

    Empty for a model that is not balanced by a bias.
    """
    if model.moe is None or model.moe.balance != "bias":
        return ()
    return (
        PhaseSpec(until_fraction=BALANCED_FRACTION, value=balance_bias_rate(num_steps)),
        PhaseSpec(until_fraction=1.0, value=0.0),
    )


def _target_spec(name: str, model: ModelSpec, recipe: PublishedRecipe) -> TargetSpec:
    spec = TargetSpec(
        name=name,
        model=model,
        num_tokens=recipe.num_tokens,
        global_batch_sequences=max(1, recipe.global_batch_tokens // recipe.seq_len),
        seq_len=recipe.seq_len,
        shape=recipe.shape,
        warmup_steps=recipe.warmup_steps,
        recipe_source=recipe.source,
        beta1=recipe.beta1,
        beta2=recipe.beta2,
        clip_norm=recipe.clip_norm,
        optimizer=recipe.optimizer,
        mtp_weight=recipe.mtp_weight,
        bias_rate=recipe.bias_rate,
    )
    if spec.warmup_steps > spec.num_steps:
        raise SpecError(
            "target.warmup_steps",
            f"must not exceed the target's steps ({spec.num_steps})",
            spec.warmup_steps,
            "Shorten the warmup, or correct target.tokens.",
        )
    return spec


def _overridden(recipe: PublishedRecipe, table: TargetTable) -> PublishedRecipe:
    """Return ``recipe`` with what the user wrote in place of what was published."""
    given = {name: getattr(table, name) for name in _OVERRIDES}
    changes = {name: value for name, value in given.items() if value is not None}
    recipe = replace(recipe, **changes)
    if table.tokens is not None:
        recipe = replace(recipe, num_tokens=table.tokens)
    if table.global_batch_sequences is not None:
        batch_tokens = table.global_batch_sequences * recipe.seq_len
        recipe = replace(recipe, global_batch_tokens=batch_tokens)
    if table.schedule is not None:
        shape = named_shape(table.schedule, path="target.schedule")
        recipe = replace(recipe, shape=shape)
    return recipe


def _with_phases(recipe: PublishedRecipe, table: TargetTable, model: ModelSpec) -> PublishedRecipe:
    """Settle the weights that change during the run; empty where the model has no use for them."""
    mtp_weight = table.mtp_weight or recipe.mtp_weight or PUBLISHED_MTP_WEIGHT
    num_steps = max(1, recipe.num_tokens // recipe.global_batch_tokens)
    by_rule = bias_phases(model, num_steps)
    bias_rate = table.bias_rate or recipe.bias_rate or by_rule
    return replace(
        recipe,
        mtp_weight=mtp_weight if model.n_mtp_modules else (),
        bias_rate=bias_rate if by_rule else (),
    )


def _recipe_by_rule(
    table: TargetTable, model: ModelSpec
) -> tuple[PublishedRecipe, tuple[str, ...]]:
    """Return a recipe for a model that nobody published, and which rule gave what."""
    if table.tokens is None:
        raise SpecError(
            "target.tokens",
            "must be given: no published recipe is known for a model of this shape",
            None,
            "Say how many tokens the full run will train on (target.tokens, or --tokens).",
        )
    length = table.seq_len or _context(model)
    if table.global_batch_sequences is not None:
        sequences = table.global_batch_sequences
    else:
        sequences = max(1, round(optimal_batch_tokens(table.tokens) / length))
    num_steps = max(1, table.tokens // (sequences * length))
    params = count_params(model).active_non_embedding
    peak_lr = table.peak_lr or step_law_lr(params, table.tokens)
    beta2 = 0.95 if table.beta2 is None else table.beta2
    warmup = max(round(DEFAULT_WARMUP_FRACTION * num_steps), ceil(2.0 / (1.0 - beta2)))
    recipe = PublishedRecipe(
        name="by rule",
        peak_lr=peak_lr,
        weight_decay=1.0 / (peak_lr * tau_law(table.tokens / params) * num_steps),
        beta1=0.9,
        beta2=beta2,
        clip_norm=1.0,
        warmup_steps=min(warmup, num_steps),
        shape=named_shape(DEFAULT_SCHEDULE),
        num_tokens=table.tokens,
        global_batch_tokens=sequences * length,
        seq_len=length,
        init_std=None,
        source=_own_source(table),
    )
    return recipe, _rule_notes(_overridden(recipe, table), table)


def _context(model: ModelSpec) -> int:
    """Return the length the model is first trained with: its own unless that is an extension."""
    scaling = model.rope.scaling
    own = model.max_seq_len if scaling is None else scaling.original_max_seq_len
    return min(own, USUAL_SEQ_LEN)


def _own_source(table: TargetTable) -> str:
    given = table.peak_lr is not None and table.weight_decay is not None
    return "given in [target]" if given else "rules for models without a published recipe"


def _rule_notes(recipe: PublishedRecipe, table: TargetTable) -> tuple[str, ...]:
    sequences = recipe.global_batch_tokens // recipe.seq_len
    rules = {
        "seq_len": f"{recipe.seq_len:,}, the context before extensions, at most {USUAL_SEQ_LEN:,}",
        "global_batch_sequences": f"{sequences}, the batch law (arXiv 2505.13738)",
        "peak_lr": f"{recipe.peak_lr:.3g}, the Step Law (arXiv 2503.04715)",
        "weight_decay": f"{recipe.weight_decay:.3g}, the timescale law (arXiv 2505.13738)",
        "warmup_steps": f"{recipe.warmup_steps:,}, 2 % of the run and at least 2 / (1 - beta2)",
        "schedule": f"{DEFAULT_SCHEDULE}, the usual one",
        "beta1": f"{recipe.beta1}, the usual one",
        "beta2": f"{recipe.beta2}, the usual one of language models",
        "clip_norm": f"{recipe.clip_norm}, the usual one",
        "optimizer": f"{recipe.optimizer}, the usual one",
    }
    return tuple(
        f"target.{name} by rule: {rule}"
        for name, rule in rules.items()
        if getattr(table, name) is None
    )


def _published_notes(recipe: PublishedRecipe, table: TargetTable) -> tuple[str, ...]:
    published = {
        "tokens": recipe.num_tokens,
        "global_batch_sequences": recipe.global_batch_tokens // recipe.seq_len,
        **{name: getattr(recipe, name) for name in _NUMBERS},
    }
    changed = tuple(
        f"target.{name} given: {getattr(table, name):g} in place of the published {value:g}"
        for name, value in published.items()
        if getattr(table, name) not in (None, value)
    )
    caveat = (recipe.caveat,) if recipe.caveat else ()
    return (f"recipe of {recipe.name} as published ({recipe.source})", *caveat, *changed)


def _flags(
    published: PublishedRecipe | None, optimizer: Literal["adamw", "muon"]
) -> tuple[Flag, ...]:
    flags = []
    if published is not None and published.optimizer != optimizer:
        names = {"adamw": "AdamW", "muon": "Muon"}
        message = (
            f"{published.name} was trained with {names[published.optimizer]}, the proxy is trained "
            f"with {names[optimizer]}: its published learning rate is only a guess, and gains over "
            "it are indicative"
        )
        flags.append(Flag(severity="amber", code="incumbent_other_optimizer", message=message))
    if optimizer == "muon":
        message = (
            "Muon trains the hidden matrices: its rule for the width is less certain than AdamW's, "
            "and the laws of batch, horizon and decay were fitted to AdamW"
        )
        flags.append(Flag(severity="amber", code="muon_rule_less_certain", message=message))
    return tuple(flags)
