"""Points and coordinates."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sweeps.coordinates import decode, encode, levels
from sweeps.spec import ChoiceDomain, FloatDomain

DOMAINS = (
    FloatDomain(name="peak_lr", low=1e-3, high=6.4e-2),
    ChoiceDomain(name="tau", values=(0.4, 0.1, 0.2)),
    ChoiceDomain(name="schedule", values=("constant", "linear_to_zero")),
)


@given(
    lr=st.floats(1e-3, 6.4e-2),
    tau=st.sampled_from([0.1, 0.2, 0.4]),
    schedule=st.sampled_from(["constant", "linear_to_zero"]),
)
def test_encoding_undoes_decoding(lr: float, tau: float, schedule: str) -> None:
    coordinates = encode(DOMAINS, {"peak_lr": lr, "tau": tau, "schedule": schedule})
    assert coordinates is not None
    params = decode(DOMAINS, coordinates)
    assert params["peak_lr"] == pytest.approx(lr, rel=5e-4)  # four digits
    assert (params["tau"], params["schedule"]) == (tau, schedule)
    again = encode(DOMAINS, params)
    assert again is not None
    assert decode(DOMAINS, again) == params


def test_numbers_are_ordered_and_words_are_not() -> None:
    params = {"peak_lr": 2e-3, "tau": 0.2, "schedule": "linear_to_zero"}
    assert encode(DOMAINS, params) == {"peak_lr": 2e-3, "tau": 1, "schedule": "linear_to_zero"}


@pytest.mark.parametrize("change", [{"peak_lr": 0.1}, {"tau": 0.3}, {"schedule": "other"}])
def test_points_outside_have_no_coordinates(change: dict[str, float | str]) -> None:
    params: dict[str, float | str] = {"peak_lr": 2e-3, "tau": 0.2, "schedule": "constant"}
    assert encode(DOMAINS, params | change) is None
    params.pop("tau")
    assert encode(DOMAINS, params) is None


def test_rounding_stays_inside_the_range() -> None:
    domain = FloatDomain(name="peak_lr", low=1.23446e-3, high=6.54365e-3)
    assert decode((domain,), {"peak_lr": domain.low}) == {"peak_lr": domain.low}
    assert decode((domain,), {"peak_lr": domain.high}) == {"peak_lr": domain.high}


def test_grid_of_a_real_has_its_ends_and_whole_octaves() -> None:
    found = levels(DOMAINS[0])
    assert found == pytest.approx([1e-3 * 2**octave for octave in range(7)])
    assert (found[0], found[-1]) == (1e-3, 6.4e-2)
    assert levels(FloatDomain(name="tau", low=0.2, high=0.2)) == [0.2]
    assert levels(FloatDomain(name="tau", low=0.2, high=0.21)) == [0.2, 0.21]
