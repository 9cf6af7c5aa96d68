"""What each form of a training step costs: float32 or bfloat16, eager or compiled, solo or stacked.

Two tables. The first has, for each width, batch and number K of stacked models, the CPU time of one
step of one model (forward, backward, gradients added, copies of the weights renewed; no optimiser)
in the four forms, and beside them a solo model in eager float32. The second compares the solo
step with the DeepSeek-V3 of `transformers` and with a plain dense decoder of as many active
floating-point operations, eager against eager and compiled against compiled, per floating-point
operation.

All arms of a case alternate in rounds within one process of one thread, so that they see the same
machine; times are medians of CPU time. Shares are of square products timed in every round, float32
and bfloat16. The first step of a compiled arm is the wall time of compiling: cold unless --cache
names a folder that an earlier run has filled.

Run: OMP_NUM_THREADS=1 python benchmarks/step_speed.py [--cache DIR] [--json]
"""

import argparse
import json
import statistics
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from proxy_throughput import INIT_STD, SEQ_LEN, VOCAB_SIZE, make_spec, their_model
from torch import Tensor, nn
from torch.nn import functional

from simulator.counting.flops import flops_per_token
from simulator.model import Transformer, build_model
from simulator.specs.model import ModelSpec
from simulator.training.stepping import Precision, make_stepper

PEAK_SIZE = 1024
HEAD_DIM = 32
MAX_COMPILES = 64

Step = Callable[[], object]


@dataclass(frozen=True)
class Arm:
    name: str
    step: Step
    num_models: int
    flops: float
    """Training operations of one model's step."""
    peak: str
    """Name of the arm whose rate is this one's peak."""
    first_seconds: float


@dataclass(frozen=True)
class Result:
    dim: int
    batch_tokens: int
    num_models: int
    arm: str
    milliseconds: float
    """CPU time of one step of one model, median."""
    ratio: float
    """Median over rounds of the first arm's time per operation divided by this one's."""
    ratio_low: float
    ratio_high: float
    peak_share: float
    first_seconds: float
    """Wall time of the first step, which compiles."""


def stacked(spec: ModelSpec, num_models: int) -> Transformer:
    """Return one model without a leading axis, or several with one, in flat buffers."""
    model = build_model(spec)
    parameters = list(model.parameters())
    sizes = [-(-parameter.numel() // 64) * 64 for parameter in parameters]
    values, grads = torch.zeros(2, num_models, sum(sizes))
    stack = (num_models,) if num_models > 1 else ()
    starts = torch.tensor([0, *sizes]).cumsum(0).tolist()
    for parameter, start in zip(parameters, starts, strict=False):
        part, shape = slice(start, start + parameter.numel()), (*stack, *parameter.shape)
        values[:, part] = torch.randn(num_models, parameter.numel()) * INIT_STD
        if parameter.dim() == 1:
            values[:, part] = 1.0
        parameter.data, parameter.grad = (x[:, part].view(shape) for x in (values, grads))
    for name, buffer in list(model.named_buffers()):
        owner, _, leaf = name.rpartition(".")
        setattr(model.get_submodule(owner), leaf, buffer.expand(*stack, *buffer.shape).clone())
    return model


def our_step(spec: ModelSpec, tokens: Tensor, precision: Precision, cache: Path | None) -> Step:
    """Return the step of as many models as ``tokens`` has batches; compiled if given a cache."""
    model = stacked(spec, tokens.shape[0] if tokens.dim() > 2 else 1)
    stepper = make_stepper(model, precision=precision, is_compiled=cache is not None, cache=cache)

    def step() -> None:
        stepper(tokens, 1.0, 0.0)
        stepper.refresh()

    return step


class PlainBlock(nn.Module):
    """A layer as in nanoGPT: fused query, key and value, library attention, GELU feed-forward."""

    def __init__(self, dim: int, inter_dim: int) -> None:
        super().__init__()
        self.num_heads = max(1, dim // HEAD_DIM)
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.up, self.down = nn.Linear(dim, inter_dim), nn.Linear(inter_dim, dim)

    def forward(self, x: Tensor) -> Tensor:
        batch, length, dim = x.shape
        heads = (batch, length, 3, self.num_heads, dim // self.num_heads)
        q, k, v = self.qkv(self.norm1(x)).view(heads).permute(2, 0, 3, 1, 4).unbind()
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(x.shape))
        z: Tensor = x + self.down(functional.gelu(self.up(self.norm2(x))))
        return z


class PlainModel(nn.Module):
    """A dense decoder of as many active operations a token as a specification has."""

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__()
        dim, layers = spec.dim, spec.n_layers
        wanted = flops_per_token(spec, SEQ_LEN).training
        rest = 6 * dim * VOCAB_SIZE + layers * (6 * 4 * dim * dim + 6 * SEQ_LEN * dim)
        inter_dim = max(32, round((wanted - rest) / (layers * 12 * dim) / 32) * 32)
        self.flops = rest + layers * 12 * dim * inter_dim
        self.embed = nn.Embedding(VOCAB_SIZE, dim)
        self.blocks = nn.ModuleList(PlainBlock(dim, inter_dim) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(dim), nn.Linear(dim, VOCAB_SIZE, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embed(tokens[:, :-1])
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.norm(x))
        return functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())


def library_step(model: nn.Module, loss: Callable[[], Tensor]) -> Step:
    def step() -> None:
        model.zero_grad(set_to_none=False)
        torch.autograd.backward(loss())

    return step


def peak_step(dtype: torch.dtype) -> Step:
    a, b = torch.randn(2, PEAK_SIZE, PEAK_SIZE).to(dtype)
    out = torch.empty_like(a)
    return lambda: torch.mm(a, b, out=out)


def arm(name: str, step: Step, flops: float, *, num_models: int = 1, peak: str = "fp32") -> Arm:
    start = time.perf_counter()
    step()
    return Arm(name, step, num_models, flops, peak, time.perf_counter() - start)


def form_arms(spec: ModelSpec, sequences: int, num_models: int, cache: Path) -> Iterator[Arm]:
    """Yield the solo step in eager float32, then the four forms of the stacked one."""
    flops = flops_per_token(spec, SEQ_LEN).training * sequences * SEQ_LEN
    solo = torch.randint(VOCAB_SIZE, (sequences, SEQ_LEN + 1))
    yield arm("solo fp32 eager", our_step(spec, solo, "fp32", None), flops)
    tokens = solo if num_models == 1 else solo.repeat(num_models, 1, 1)
    precisions: tuple[Precision, ...] = ("fp32", "bf16")
    for precision in precisions:
        for form, folder in (("eager", None), ("compiled", cache)):
            step = our_step(spec, tokens, precision, folder)
            name = f"{precision} {form}"
            yield arm(name, step, flops, num_models=num_models, peak=precision)


def peer_arms(spec: ModelSpec, sequences: int, cache: Path | None) -> Iterator[Arm]:
    """Yield ours, the library's and the plain dense model; all compiled if given a cache."""
    tokens = torch.randint(VOCAB_SIZE, (sequences, SEQ_LEN + 1))
    form, count = ("eager" if cache is None else "compiled"), sequences * SEQ_LEN
    flops = flops_per_token(spec, SEQ_LEN).training * count
    yield arm(f"ours {form}", our_step(spec, tokens, "fp32", cache), flops)
    theirs, inputs = their_model(spec), tokens[:, :-1]
    plain = PlainModel(spec)
    if cache is not None:
        for model in (theirs, plain):
            model.compile(dynamic=False, recompile_limit=MAX_COMPILES)
    yield arm(
        f"transformers {form}",
        library_step(theirs, lambda: theirs(inputs, labels=inputs, use_cache=False).loss),
        flops,
    )
    yield arm(f"dense {form}", library_step(plain, lambda: plain(tokens)), plain.flops * count)


def time_in_turn(arms: list[Arm], rounds: int, steps: int) -> Mapping[str, list[float]]:
    """Return the CPU seconds of one model's step of every arm, and of the peaks, by round."""
    contenders = {a.name: (a.step, a.num_models) for a in arms}
    contenders |= {"fp32": (peak_step(torch.float32), 1), "bf16": (peak_step(torch.bfloat16), 1)}
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(rounds):
        for name, (step, num_models) in contenders.items():
            step()  # untimed: it brings this contender's memory back into the caches
            start = time.process_time()
            for _ in range(steps):
                step()
            seconds[name].append((time.process_time() - start) / steps / num_models)
    return seconds


def results(
    spec: ModelSpec, sequences: int, arms: list[Arm], options: argparse.Namespace
) -> Iterator[Result]:
    seconds = time_in_turn(arms, options.rounds, options.steps)
    base = [value / arms[0].flops for value in seconds[arms[0].name]]
    for one in arms:
        ours = seconds[one.name]
        ratios = [b / (own / one.flops) for b, own in zip(base, ours, strict=True)]
        rate = one.flops / statistics.median(ours)
        peak = 2 * PEAK_SIZE**3 / statistics.median(seconds[one.peak])
        yield Result(
            dim=spec.dim,
            batch_tokens=sequences * SEQ_LEN,
            num_models=one.num_models,
            arm=one.name,
            milliseconds=statistics.median(ours) * 1e3,
            ratio=statistics.median(ratios),
            ratio_low=min(ratios),
            ratio_high=max(ratios),
            peak_share=rate / peak,
            first_seconds=one.first_seconds,
        )


def line(r: Result) -> str:
    return (
        f"{r.dim:>5} {r.batch_tokens:>6} {r.num_models:>2} {r.arm:<22} {r.milliseconds:>8.2f}"
        f" {r.ratio:>6.2f} {r.ratio_low:>5.2f}-{r.ratio_high:<5.2f} {r.peak_share:>6.1%}"
        f" {r.first_seconds:>7.1f}"
    )


def run(options: argparse.Namespace, cache: Path) -> Iterator[Result]:
    """Yield every case's results, each case's peers after its forms."""
    for dim in options.dims:
        spec = make_spec(dim)
        for sequences in options.batches:
            groups = [form_arms(spec, sequences, models, cache) for models in options.models]
            if not options.no_peers:
                groups += [peer_arms(spec, sequences, folder) for folder in (None, cache)]
            for group in groups:
                yield from results(spec, sequences, list(group), options)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--steps", type=int, default=2, help="steps of each arm in a round")
    parser.add_argument("--dims", type=int, nargs="+", default=[64, 128, 256])
    parser.add_argument("--batches", type=int, nargs="+", default=[2, 8], help="sequences")
    parser.add_argument("--models", type=int, nargs="*", default=[1, 4], help="stacked models")
    parser.add_argument("--no-peers", action="store_true", help="only the first table")
    parser.add_argument("--cache", type=Path, help="folder of compiled code")
    parser.add_argument("--json", action="store_true", help="one JSON document and nothing else")
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    warnings.simplefilter("ignore")
    found = []
    if not options.json:
        print("width tokens  K arm                    ms/step  ratio  low-high    peak  first s")
    with tempfile.TemporaryDirectory() as scratch:
        for result in run(options, options.cache or Path(scratch)):
            found.append(result)
            if not options.json:
                print(line(result), flush=True)
    if options.json:
        print(json.dumps([asdict(result) for result in found], indent=2))


if __name__ == "__main__":
    main()
