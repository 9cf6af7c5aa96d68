"""Transfers with named changes, and random ones for property tests."""

from typing import Any, Literal

from hypothesis import strategies as st

from scaling.scale import RunScale, Transfer
from simulator.specs.run import ParametrisationSpec
from tests.builders import make_model, widen

PARAMS: dict[str, float | str] = {
    "peak_lr": 4e-3,
    "tau": 0.4,
    "warmup_ratio": 0.06,
    "schedule": "linear_to_zero",
}


def make_parametrisation(**changes: Any) -> ParametrisationSpec:
    proxy = make_model()
    return ParametrisationSpec(**({"proxy": proxy, "target": widen(proxy)} | changes))


def make_scale(**changes: Any) -> RunScale:
    fields = {"active_params": 1_000_000, "num_tokens": 512_000, "batch_tokens": 512}
    return RunScale(**(fields | changes))


def make_transfer(**changes: Any) -> Transfer:
    """Eighth of the width; 64 times the parameters, tokens and batch, so equal steps and ratios."""
    fields: dict[str, Any] = {
        "proxy": make_scale(),
        "target": make_scale(
            active_params=64_000_000, num_tokens=64 * 512_000, batch_tokens=64 * 512
        ),
        "parametrisation": make_parametrisation(),
    }
    return Transfer(**(fields | changes))


@st.composite
def transfers(draw: st.DrawFn) -> Transfer:
    def scale() -> RunScale:
        batch = draw(st.integers(256, 2**26))
        return RunScale(
            active_params=draw(st.integers(10**5, 10**11)),
            num_tokens=batch * draw(st.integers(20, 10**6)) + draw(st.integers(0, batch - 1)),
            batch_tokens=batch,
        )

    kinds: tuple[Literal["sp_fullalign", "mup", "uniform_lr_sp"], ...]
    kinds = ("sp_fullalign", "mup", "uniform_lr_sp")
    anchors: tuple[Literal["proxy", "target"], ...] = ("proxy", "target")
    parametrisation = make_parametrisation(
        kind=draw(st.sampled_from(kinds)), anchor=draw(st.sampled_from(anchors))
    )
    return Transfer(proxy=scale(), target=scale(), parametrisation=parametrisation)
