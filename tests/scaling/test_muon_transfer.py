"""What Muon changes in the mapping between proxy and target: rates of matrices, and doubts."""

from math import hypot, isclose, log2, sqrt
from typing import get_args

import pytest

from scaling.lr_range import proxy_lr_prior
from scaling.priors import small_scale_lr
from scaling.scale import multipliers_of
from scaling.transfer import RecipePoint, lr_std_octaves, map_to_proxy, map_to_target
from simulator.specs.run import MuonScale
from tests.scaling.transfers import PARAMS, make_parametrisation, make_scale, make_transfer

CONVENTIONS: tuple[MuonScale, ...] = get_args(MuonScale)


@pytest.mark.parametrize(("anchor", "role"), [("proxy", "target"), ("target", "proxy")])
def test_matrices_rate_goes_with_the_root_of_the_width_and_head_with_the_width(
    anchor: str, role: str
) -> None:
    parametrisation = make_parametrisation(anchor=anchor)
    ratio = 1 / 8 if role == "target" else 8.0
    found = multipliers_of(getattr(parametrisation, role), parametrisation, "rms_matched")
    assert isclose(found.matrix_lr, sqrt(ratio))
    assert isclose(found.matrix_decay, 1 / sqrt(ratio))
    assert (found.head_lr, found.embedding_lr) == (ratio, 1.0)


@pytest.mark.parametrize("convention", CONVENTIONS)
def test_every_convention_scales_matrices_alike(convention: MuonScale) -> None:
    parametrisation = make_parametrisation()
    proxy = multipliers_of(parametrisation.proxy, parametrisation, convention)
    target = multipliers_of(parametrisation.target, parametrisation, convention)
    assert isclose(target.matrix_lr / proxy.matrix_lr, sqrt(1 / 8))


@pytest.mark.parametrize("convention", CONVENTIONS)
def test_maps_are_each_other_s_inverse(convention: MuonScale) -> None:
    transfer = make_transfer(muon_scale=convention)
    recipe = map_to_target(PARAMS, transfer)
    point = RecipePoint(
        matrix_lr=recipe.matrix_lr,
        weight_decay=recipe.weight_decay,
        warmup_steps=recipe.warmup_steps,
        schedule=recipe.schedule,
    )
    back = map_to_proxy(point, transfer)
    assert isclose(float(back["peak_lr"]), float(PARAMS["peak_lr"]))
    assert isclose(float(back["tau"]), float(PARAMS["tau"]))


def test_recipe_names_the_rates_of_the_adamw_part_and_the_doubt() -> None:
    recipe = map_to_target(PARAMS, make_transfer(target=make_scale(), muon_scale="rms_matched"))
    (flag,) = [flag for flag in recipe.flags if flag.code == "muon_rule_less_certain"]
    assert flag.severity == "amber"
    assert f"head and router at {recipe.peak_lr / 8:.2g}" in flag.message


def test_recipe_for_adamw_has_no_word_of_muon() -> None:
    assert not any("Muon" in flag.message for flag in map_to_target(PARAMS, make_transfer()).flags)


def test_law_of_adamw_s_rates_says_nothing_of_muon() -> None:
    recipe = map_to_target(PARAMS, make_transfer(muon_scale="rms_matched"))
    assert "step_law_disagrees" not in {flag.code for flag in recipe.flags}


def test_width_adds_twice_the_doubt() -> None:
    found = lr_std_octaves(make_transfer(target=make_scale(), muon_scale="spectral"))
    assert isclose(found, hypot(0.0, 2 * 0.2 * log2(8)))


def test_prior_falls_with_the_root_of_the_width() -> None:
    transfer = make_transfer(muon_scale="rms_matched")
    law = small_scale_lr(64, transfer.proxy.num_tokens, transfer.proxy.batch_tokens)
    assert proxy_lr_prior(transfer).center == pytest.approx(law)
    wide = small_scale_lr(256, 1e6, 512, width_exponent=0.5)
    assert wide == pytest.approx(small_scale_lr(64, 1e6, 512) / 2)
