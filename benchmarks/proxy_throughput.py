"""Training speed of our proxy beside the DeepSeek-V3 of `transformers`, eager against eager.

One step is forward, backward and a fused AdamW update on the same batch, one thread, float32. Both
models have the same dimensions and random weights of the same scale; the library runs its default
expert implementation. The two alternate in rounds of several steps within one process, so that both
see the same machine. Time is the CPU time of the process, which other work on the machine
disturbs least; the share of the matmul peak compares it with a square product timed in every
round.

Run: OMP_NUM_THREADS=1 python benchmarks/proxy_throughput.py [--rounds 7] [--json]
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass

import torch
from torch import nn
from transformers import DeepseekV3Config, DeepseekV3ForCausalLM

from simulator.counting.flops import flops_per_token
from simulator.model import build_model
from simulator.specs.model import MLASpec, ModelSpec, MoESpec, RopeSpec

SEQ_LEN = 128
VOCAB_SIZE = 256
INIT_STD = 0.02
PEAK_SIZE = 1024

Step = Callable[[], None]


@dataclass(frozen=True)
class Case:
    dim: int
    num_sequences: int

    @property
    def num_tokens(self) -> int:
        return self.num_sequences * SEQ_LEN


@dataclass(frozen=True)
class Result:
    dim: int
    batch_tokens: int
    ratio: float
    """Median over rounds of the library's time divided by ours."""
    ratio_low: float
    ratio_high: float
    ours_tokens_per_second: float
    theirs_tokens_per_second: float
    ours_peak_share: float
    theirs_peak_share: float
    peak_gflops: float


def make_spec(dim: int) -> ModelSpec:
    """Return 4 layers (1 dense, 3 with 8 experts of which 2 act and 1 shared) of a width."""
    head_dim = 16 if dim < 128 else 32
    return ModelSpec(
        vocab_size=VOCAB_SIZE,
        dim=dim,
        inter_dim=3 * dim,
        n_layers=4,
        attention=MLASpec(
            n_heads=max(4, dim // head_dim),
            q_lora_rank=dim // 2,
            kv_lora_rank=dim // 4,
            qk_nope_head_dim=head_dim,
            qk_rope_head_dim=head_dim // 2,
            v_head_dim=head_dim,
        ),
        moe=MoESpec(
            n_routed_experts=8,
            n_activated_experts=2,
            n_shared_experts=1,
            moe_inter_dim=dim // 2,
            n_dense_layers=1,
            score_func="sigmoid",
            route_scale=2.5,
            norm_topk_prob=True,
            balance="bias",
        ),
        rope=RopeSpec(theta=10000.0),
        init_std=INIT_STD,
        max_seq_len=SEQ_LEN,
    )


def our_step(spec: ModelSpec, tokens: torch.Tensor) -> Step:
    model = build_model(spec)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.normal_(std=INIT_STD)
    optimizer = _optimizer(model)

    def step() -> None:
        model(tokens).main.backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def their_model(spec: ModelSpec) -> nn.Module:
    """Return the library's model of the same dimensions."""
    return DeepseekV3ForCausalLM(_their_config(spec)).train()


def their_step(spec: ModelSpec, tokens: torch.Tensor) -> Step:
    model = their_model(spec)
    optimizer = _optimizer(model)
    inputs = tokens[:, :-1]

    def step() -> None:
        model(inputs, labels=inputs, use_cache=False).loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def _optimizer(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)


def _their_config(spec: ModelSpec) -> DeepseekV3Config:
    attention, moe = spec.attention, spec.moe
    assert isinstance(attention, MLASpec)
    assert moe is not None
    return DeepseekV3Config(
        vocab_size=spec.vocab_size,
        hidden_size=spec.dim,
        intermediate_size=spec.inter_dim,
        moe_intermediate_size=moe.moe_inter_dim,
        num_hidden_layers=spec.n_layers,
        num_attention_heads=attention.n_heads,
        num_key_value_heads=attention.n_heads,
        n_shared_experts=moe.n_shared_experts,
        n_routed_experts=moe.n_routed_experts,
        routed_scaling_factor=moe.route_scale,
        kv_lora_rank=attention.kv_lora_rank,
        q_lora_rank=attention.q_lora_rank,
        qk_rope_head_dim=attention.qk_rope_head_dim,
        v_head_dim=attention.v_head_dim,
        qk_nope_head_dim=attention.qk_nope_head_dim,
        n_group=1,
        topk_group=1,
        num_experts_per_tok=moe.n_activated_experts,
        first_k_dense_replace=moe.n_dense_layers,
        norm_topk_prob=moe.norm_topk_prob,
        max_position_embeddings=spec.max_seq_len,
        initializer_range=INIT_STD,
        rope_parameters={"rope_type": "default", "rope_theta": spec.rope.theta},
        num_mtp_layers=0,
        bos_token_id=None,
        eos_token_id=None,
    )


def peak_step() -> Step:
    """Return a square product, the highest rate this machine gives one thread."""
    a, b = torch.randn(2, PEAK_SIZE, PEAK_SIZE)
    out = torch.empty(PEAK_SIZE, PEAK_SIZE)

    def step() -> None:
        torch.mm(a, b, out=out)

    return step


def run_case(case: Case, *, rounds: int, steps: int) -> Result:
    """Time the steps in turn and compare them round by round."""
    torch.manual_seed(0)
    spec = make_spec(case.dim)
    tokens = torch.randint(VOCAB_SIZE, (case.num_sequences, SEQ_LEN + 1))
    contenders = {"ours": our_step(spec, tokens), "theirs": their_step(spec, tokens)}
    contenders["peak"] = peak_step()
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    for index in range(rounds + 1):
        for name, step in contenders.items():
            step()  # untimed: it brings this contender's memory back into the caches
            start = time.process_time()
            for _ in range(steps):
                step()
            if index:  # the first round is a warm-up
                seconds[name].append((time.process_time() - start) / steps)
    return _result(case, spec, seconds)


def _result(case: Case, spec: ModelSpec, seconds: dict[str, list[float]]) -> Result:
    ratios = [b / a for a, b in zip(seconds["ours"], seconds["theirs"], strict=True)]
    ours, theirs = statistics.median(seconds["ours"]), statistics.median(seconds["theirs"])
    peak = 2 * PEAK_SIZE**3 / statistics.median(seconds["peak"])
    step_flops = flops_per_token(spec, SEQ_LEN).training * case.num_tokens
    return Result(
        dim=case.dim,
        batch_tokens=case.num_tokens,
        ratio=statistics.median(ratios),
        ratio_low=min(ratios),
        ratio_high=max(ratios),
        ours_tokens_per_second=case.num_tokens / ours,
        theirs_tokens_per_second=case.num_tokens / theirs,
        ours_peak_share=step_flops / ours / peak,
        theirs_peak_share=step_flops / theirs / peak,
        peak_gflops=peak / 1e9,
    )


def _line(result: Result) -> str:
    return (
        f"{result.dim:>5} {result.batch_tokens:>6}"
        f" {result.ratio:>7.2f} {result.ratio_low:>5.2f}-{result.ratio_high:<5.2f}"
        f" {result.ours_tokens_per_second:>10,.0f} {result.theirs_tokens_per_second:>10,.0f}"
        f" {result.ours_peak_share:>6.1%} {result.theirs_peak_share:>6.1%}"
        f" {result.peak_gflops:>8.0f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--steps", type=int, default=8, help="steps of each model in a round")
    parser.add_argument("--dims", type=int, nargs="+", default=[64, 128, 256])
    parser.add_argument("--batches", type=int, nargs="+", default=[8, 2], help="sequences")
    parser.add_argument("--json", action="store_true", help="one JSON document and nothing else")
    options = parser.parse_args()
    torch.set_num_threads(1)
    results = []
    if not options.json:
        print("width tokens   ratio low-high      ours t/s theirs t/s  ours theirs  peak GF/s")
    for dim in options.dims:
        for num_sequences in options.batches:
            case = Case(dim=dim, num_sequences=num_sequences)
            results.append(run_case(case, rounds=options.rounds, steps=options.steps))
            if not options.json:
                print(_line(results[-1]), flush=True)
    if options.json:
        print(json.dumps([asdict(result) for result in results], indent=2))


if __name__ == "__main__":
    main()
