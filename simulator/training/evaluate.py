"""The held-out loss: on fixed sequences, in nats per token and bits per byte.

For a source whose exact probabilities are known, the model's loss on the sequences at hand is
compared with the exact loss on the same sequences: ``L = E + mean(nll - exact_nll)`` with ``E`` the
exact entropy. Its expectation is the plain mean's, its noise many times smaller.
"""

import math
from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

from simulator.data.corpus import ValidationSet
from simulator.model import LossParts, Transformer
from simulator.specs.run import EvalSpec
from simulator.training.records import Evaluation, FloatArray, LossArray

__all__ = ["Evaluator", "eval_steps", "final_steps"]


def final_steps(spec: EvalSpec, num_steps: int) -> tuple[int, ...]:
    """Return after how many steps the evaluations are made whose mean ranks the run.

    They end with the run and lie ``final_spacing_steps`` apart; a short run has fewer.
    """
    spacing = max(1, spec.final_spacing_steps)
    steps = (num_steps - spacing * i for i in reversed(range(max(1, spec.final_points))))
    return tuple(step for step in steps if step >= 1)


def eval_steps(spec: EvalSpec, num_steps: int) -> frozenset[int]:
    """Return after how many steps the run is evaluated; an interval of 0 means at the end only."""
    regular = (
        range(spec.interval_steps, num_steps + 1, spec.interval_steps)
        if (spec.interval_steps > 0)
        else ()
    )
    return frozenset(regular) | frozenset(final_steps(spec, num_steps))


class Evaluator:
    """Evaluates single models on every validation set.

    Parameters
    ----------
    model_of
        Returns the model of a row of the engine, without a leading axis.
    sets
        Held in memory, and on ``device``, for the whole run.
    batch_sequences
        Sequences of one forward pass.
    is_autocast
        Whether the forward pass runs in bfloat16, as in training.
    """

    def __init__(
        self,
        model_of: Callable[[int], Transformer],
        sets: Sequence[ValidationSet],
        *,
        batch_sequences: int,
        device: torch.device,
        is_autocast: bool,
    ) -> None:
        self._model_of = model_of
        self._sets = tuple(sets)
        self._tokens = [torch.from_numpy(found.tokens).to(device) for found in sets]
        self._batch_sequences = batch_sequences
        self._device = device
        self._is_autocast = is_autocast

    @torch.no_grad()
    def __call__(self, row: int) -> Evaluation:
        """Return the losses of one row's model on every validation set, K = 1."""
        model = self._model_of(row)
        loss: dict[str, FloatArray] = {}
        mtp_loss: dict[str, LossArray] = {}
        bits: dict[str, LossArray] = {}
        for found, tokens in zip(self._sets, self._tokens, strict=True):
            main, mtp = self._mean_losses(model, tokens)
            loss[found.name] = _paired(main, found)
            mtp_loss[found.name] = mtp
            bits[found.name] = _bits_per_byte(loss[found.name], found.bytes_per_token)
        return Evaluation(loss=loss, bits_per_byte=bits, mtp_loss=mtp_loss)

    def _mean_losses(self, model: Transformer, tokens: Tensor) -> tuple[FloatArray, LossArray]:
        """Return the main and the multi-token-prediction loss over a set, shape [1] each."""
        main: FloatArray = np.zeros(1)
        mtp: LossArray = None
        for chunk in torch.split(tokens, self._batch_sequences):
            share = len(chunk) / len(tokens)
            with torch.autocast(self._device.type, torch.bfloat16, enabled=self._is_autocast):
                parts: LossParts = model(chunk)
            main = main + share * _host(parts.main)
            if parts.mtp is not None:
                mtp = (0.0 if mtp is None else mtp) + share * _host(parts.mtp)
        return main, mtp


def _host(loss: Tensor) -> FloatArray:
    values: FloatArray = loss.reshape(-1).to("cpu", torch.float64).numpy()
    return values


def _paired(mean_nll: FloatArray, found: ValidationSet) -> FloatArray:
    if found.exact_nll is None or found.exact_entropy is None:
        return mean_nll
    paired: FloatArray = found.exact_entropy + (mean_nll - found.exact_nll.mean())
    return paired


def _bits_per_byte(loss: FloatArray, bytes_per_token: float | None) -> LossArray:
    return None if bytes_per_token is None else loss / (math.log(2.0) * bytes_per_token)
