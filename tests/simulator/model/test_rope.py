from dataclasses import replace
from math import log, pi

import pytest
import torch

from simulator.model.rope import (
    inverse_frequencies,
    rotary_tables,
    rotate_pairs,
    softmax_factor,
)
from simulator.specs.model import RopeScalingSpec, RopeSpec

PLAIN = RopeSpec(theta=10000.0)
YARN = RopeScalingSpec(
    kind="yarn", factor=40.0, original_max_seq_len=4096, mscale=1.0, mscale_all_dim=1.0
)
CPU = torch.device("cpu")


def test_logits_depend_on_the_distance_alone() -> None:
    torch.manual_seed(0)
    query, key = torch.randn(2, 2, 4)
    tables = rotary_tables(PLAIN, 8, 16, CPU)
    q = torch.cat(rotate_pairs(query[0].expand(16, 4), query[1].expand(16, 4), tables), -1)
    k = torch.cat(rotate_pairs(key[0].expand(16, 4), key[1].expand(16, 4), tables), -1)
    logits = q @ k.T
    torch.testing.assert_close(logits[5:, 5:], logits[:-5, :-5], rtol=1e-5, atol=1e-5)
    assert not torch.allclose(logits[0, 0], logits[5, 0])


def test_the_opposite_direction_undoes_a_rotation() -> None:
    tables = rotary_tables(PLAIN, 8, 16, CPU)
    first, second = torch.randn(2, 3, 16, 4)
    back = rotate_pairs(*rotate_pairs(first, second, tables), tables, direction=-1)
    torch.testing.assert_close(torch.stack(back), torch.stack([first, second]))


def test_yarn_keeps_fast_pairs_and_divides_slow_ones() -> None:
    plain = inverse_frequencies(PLAIN, 64, 128)
    scaled = inverse_frequencies(replace(PLAIN, scaling=YARN), 64, 128)
    turns = plain * YARN.original_max_seq_len / (2 * pi)
    fast, slow = turns > YARN.beta_fast * 1.4, turns < YARN.beta_slow / 1.4
    assert fast.any()
    assert slow.any()
    torch.testing.assert_close(scaled[fast], plain[fast])
    torch.testing.assert_close(scaled[slow], plain[slow] / YARN.factor)
    between = ~fast & ~slow
    assert (scaled[between] <= plain[between]).all()


@pytest.mark.parametrize("mscale_all_dim", [0.0, 0.707, 1.0])
def test_yarn_multiplies_the_softmax_scale_by_the_squared_temperature(
    mscale_all_dim: float,
) -> None:
    scaling = replace(YARN, mscale_all_dim=mscale_all_dim)
    assert softmax_factor(scaling) == pytest.approx((0.1 * mscale_all_dim * log(40) + 1) ** 2)
    assert softmax_factor(replace(scaling, factor=1.0)) == 1.0


def test_other_scalings_leave_the_softmax_scale() -> None:
    assert softmax_factor(None) == 1.0
    assert softmax_factor(replace(YARN, kind="llama3")) == 1.0


def test_dynamic_scaling_changes_nothing_within_the_original_context() -> None:
    scaling = RopeScalingSpec(kind="dynamic", factor=4.0, original_max_seq_len=64)
    rope = replace(PLAIN, scaling=scaling)
    torch.testing.assert_close(inverse_frequencies(rope, 16, 64), inverse_frequencies(PLAIN, 16, 1))
    assert (inverse_frequencies(rope, 16, 128) <= inverse_frequencies(PLAIN, 16, 1)).all()
