"""The step of a model, or of stacked ones, on one micro-batch: forward, backward, gradients added.

A stepper is made once for an engine's model and serves whatever rows the model holds at the time.
Precision and compilation are its business alone: parameters and their gradients are float32 and
live where the engine put them.

References
----------
Float32 masters with products in bfloat16: arXiv 1710.03740, section 3.1.
"""

import inspect
import shutil
import warnings
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import Literal, Protocol

import torch
from torch import Tensor, nn
from torch._inductor.runtime.cache_dir_utils import temporary_cache_dir

from simulator.model import Block, LossParts, Transformer

__all__ = ["Stepper", "make_stepper", "why_not_compiled"]

Precision = Literal["fp32", "bf16"]

_KEPT_EXACT = ("gate.weight", "embed.weight")
"""Ends of the names of matrices that stay float32: of the router, whose close scores decide where
tokens go, and the token table, from which the residual stream takes its type."""

_MAX_SHAPES = 64
"""Compiled shapes of one kind of layer that a process may hold at a time."""


class Stepper(Protocol):
    """Forward and backward of one micro-batch."""

    def __call__(self, chunk: Tensor, share: float, mtp_weight: Tensor | float) -> LossParts:
        """Add the gradients of ``share`` times each model's objective to the parameters' ``.grad``.

        The objective is the next-token loss, plus ``mtp_weight`` times that of the prediction
        modules, plus the balance losses. The losses returned carry no graph.

        Parameters
        ----------
        chunk
            Windows ``[B, W]``, or ``[*K, B, W]``.
        share
            Part of the global batch that the micro-batch is.
        mtp_weight
            Of each model, ``[*K]``.
        """
        ...

    def refresh(self) -> None:
        """Take note that parameters or buffers were changed, or are other ones.

        To be called after every update and whenever rows were copied, moved or held anew. Without
        effect in float32.
        """
        ...


def make_stepper(
    model: Transformer,
    *,
    precision: Precision,
    is_compiled: bool,
    cache: Path | None = None,
    shape: Sequence[int] | None = None,
) -> Stepper:
    """Return the stepper of ``model``.

    Parameters
    ----------
    precision
        ``"bf16"`` runs matrix products and attention in bfloat16, with copies of the weights that
        ``refresh`` makes; router, norms, residual stream and losses stay float32.
    is_compiled
        Compile the layers at the first step: one layer of each kind, whatever their number. Ask
        :func:`why_not_compiled` before.
    cache
        Folder in which compiled code is kept and found again; the compiler's own if None.
    shape
        Shape of the chunks that are worth it; others run eagerly. That of the first one if None.
    """
    runner = model if precision == "fp32" else _twin(model)
    blocks = [module for module in runner.modules() if isinstance(module, Block)]
    for block in blocks if is_compiled else ():
        mode = _graph_mode(block, precision)
        block.compile(fullgraph=True, dynamic=False, mode=mode, recompile_limit=_MAX_SHAPES)
    compilation = _Compilation(cache, shape) if is_compiled else None
    return _ModelStepper(model, runner, compilation)


def why_not_compiled(device: str = "cpu") -> str | None:
    """Return why nothing can be compiled for a kind of device here, in words; None if it can."""
    if "recompile_limit" not in inspect.signature(torch.compile).parameters:
        return f"PyTorch {torch.__version__} limits compiled shapes to 8; 2.13 or newer does not"
    if device == "cpu" and not any(shutil.which(name) for name in ("g++", "clang++")):
        return "no C++ compiler is installed (g++ or clang++)"
    return None


def _graph_mode(block: nn.Module, precision: Precision) -> str | None:
    """Return the compiler's mode: recorded graphs where no product asks the host for sizes."""
    is_on_cuda = next(block.parameters()).device.type == "cuda"
    return "reduce-overhead" if is_on_cuda and precision == "bf16" else None


def _twin(model: Transformer) -> Transformer:
    """Return a model of the same shape, the weights of which are to be set."""
    device = next(model.parameters()).device
    with torch.device(device):
        return Transformer(model.spec, logit_factor=model.logit_factor)


class _Compilation:
    """Which steps run compiled, and where compiled code is kept."""

    def __init__(self, cache: Path | None, shape: Sequence[int] | None) -> None:
        self._cache = cache
        self._shape = None if shape is None else tuple(shape)
        self._is_done = False

    @contextmanager
    def around(self, chunk: Tensor) -> Iterator[None]:
        """Do what a step on ``chunk`` needs before and after."""
        if self._shape is None:
            self._shape = tuple(chunk.shape)
        with ExitStack() as stack:
            if tuple(chunk.shape) != self._shape:
                stack.enter_context(torch.compiler.set_stance("force_eager"))
            elif not self._is_done:
                self._is_done = True
                stack.enter_context(warnings.catch_warnings())
                warnings.simplefilter("ignore")  # the compiler's concern its own code
                if self._cache is not None:
                    stack.enter_context(temporary_cache_dir(str(self._cache)))
            yield


class _ModelStepper:
    """Runs ``runner``, whose weights are those of ``model``, or copies."""

    def __init__(
        self, model: Transformer, runner: Transformer, compilation: _Compilation | None
    ) -> None:
        self._model, self._runner = model, runner
        self._compilation = compilation
        self.refresh()

    def __call__(self, chunk: Tensor, share: float, mtp_weight: Tensor | float) -> LossParts:
        with nullcontext() if self._compilation is None else self._compilation.around(chunk):
            parts: LossParts = self._runner(chunk)
            objective = parts.main
            if parts.mtp is not None:
                objective = objective + mtp_weight * parts.mtp
            if parts.balance is not None:
                objective = objective + parts.balance
            # the sum is over models trained together
            grads = torch.autograd.grad((objective * share).sum(), list(self._runner.parameters()))
        totals = [p.grad for p in self._model.parameters() if p.grad is not None]
        torch._foreach_add_(totals, list(grads))
        return parts.detach()

    @torch.no_grad()
    def refresh(self) -> None:
        if self._runner is self._model:
            return
        old: list[Tensor] = []
        new: list[Tensor] = []
        masters = dict(self._model.named_parameters())
        for name, parameter in self._runner.named_parameters():
            master = masters[name]
            if master.dim() - self._stack_dims() < 2 or name.endswith(_KEPT_EXACT):
                parameter.data = master.data
                continue
            if parameter.dtype != torch.bfloat16 or parameter.shape != master.shape:
                parameter.data = torch.empty(
                    master.shape, dtype=torch.bfloat16, device=master.device
                )
            old.append(parameter.data)
            new.append(master.data)
        torch._foreach_copy_(old, new)
        for name, buffer in self._model.named_buffers():
            owner, _, leaf = name.rpartition(".")
            setattr(self._runner.get_submodule(owner), leaf, buffer)

    def _stack_dims(self) -> int:
        return self._model.norm.weight.dim() - 1
