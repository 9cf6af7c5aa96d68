"""The outcome in plain sentences: what was found, how surely, and what that leaves out.

::

    state(selection, discrepancy=..., seeds_needed=..., vacuous=..., caveats=...) -> str
"""

from collections.abc import Sequence

from scaling.outcome import Discrepancy, RankedConfig, Selection

__all__ = ["state"]


def state(
    selection: Selection,
    *,
    discrepancy: Discrepancy,
    seeds_needed: int,
    vacuous: Sequence[str],
    caveats: Sequence[str],
) -> str:
    """Return the verdict and its probabilities, in sentences that name what they account for.

    Parameters
    ----------
    selection
        Whose ``statement`` is still empty.
    seeds_needed
        Seeds of a configuration that would show a difference as large as the margin.
    vacuous, caveats
        See :func:`scaling.selection.select`.
    """
    match selection.verdict:
        case "incomplete":
            return (
                f"Incomplete: none of the {selection.num_configs} configurations finished with a "
                "finite loss, so there is nothing to choose from."
            )
        case "vacuous":
            reasons = "; ".join(vacuous)
            return f"Vacuous: {reasons}. The order below says nothing about the target."
    sentences = (
        _found(selection),
        _resolution(selection, seeds_needed),
        _odds(selection),
        _limits(selection, discrepancy, caveats),
    )
    return " ".join(filter(None, sentences))


def _found(selection: Selection) -> str:
    found = f"Of {selection.num_configs} configurations tested, {_names(selection.top)} came first"
    return found + (
        f"; {_names(selection.ties)} tie with the last of them." if selection.ties else "."
    )


def _resolution(selection: Selection, seeds_needed: int) -> str:
    if selection.verdict == "resolved":
        return ""
    if selection.noise is None:
        return (
            "Not resolved: no configuration has two finished seeds, so the noise is unknown. "
            "Give the finalists more seeds."
        )
    counted = (
        f"Not resolved: {selection.num_tied} of the {selection.num_configs} cannot be told apart "
        f"by the margin of {_margin(selection)}."
    )
    if selection.runs_needed == 0:
        return f"{counted} More seeds would not change that: they are equal to within the margin."
    return (
        f"{counted} About {selection.runs_needed} more runs ({seeds_needed} seeds of each) would "
        "show every difference as large as the margin."
    )


def _odds(selection: Selection) -> str:
    if selection.p_within_delta is None or selection.p_contains_best is None:
        return ""
    size = len(selection.top) + len(selection.ties)
    return (
        f"At the target, the best of these {size} is within {_margin(selection)} of the best of "
        f"those tested with probability {_percent(selection.p_within_delta)}; it is itself the "
        f"best of those tested with probability {_percent(selection.p_contains_best)}."
    )


def _limits(selection: Selection, discrepancy: Discrepancy, caveats: Sequence[str]) -> str:
    if selection.noise is None or selection.p_within_delta is None:
        return ""
    excluded = ["configurations that were not tested", *caveats]
    return (
        f"This accounts for the noise between seeds (sd {selection.noise_std:.2g} nats a run, "
        f"{selection.noise.degrees_of_freedom} degrees of freedom) and for a discrepancy between "
        f"proxy and target of sd {discrepancy.std:g} nats ({discrepancy.source}). It does not "
        f"account for {'; '.join(excluded)}."
    )


def _margin(selection: Selection) -> str:
    share = 100.0 * selection.delta / selection.top[0].mean_loss
    return f"{selection.delta:.2g} nats ({share:.2g} %)"


def _percent(probability: float) -> str:
    """Return whole percents, never the certainty that a finite number of draws cannot give."""
    if probability >= 0.995:
        return "over 99 %"
    if probability < 0.005:
        return "under 1 %"
    return f"{100 * probability:.0f} %"


def _names(configs: Sequence[RankedConfig]) -> str:
    names = [f"#{config.config}" for config in configs]
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
