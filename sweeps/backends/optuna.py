"""Optuna as the sampler, by ask and tell; the one file that knows it.

Optuna's own state is never stored. Each batch starts from a new in-memory study that is rebuilt
from what earlier batches taught, with a new sampler seeded by (search seed, batch number); so
suggestions are a function of the ledger and of nothing else. Inside a batch the trials asked for
stay open in that study, which TPE takes as bad (constant liar) and the Gaussian process as pending.
"""

import math
import warnings
from collections.abc import Iterator, Sequence
from itertools import groupby, islice

import numpy as np
import optuna
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)
from optuna.samplers import (
    BaseSampler,
    CmaEsSampler,
    GPSampler,
    GridSampler,
    QMCSampler,
    RandomSampler,
    TPESampler,
)
from optuna.trial import FrozenTrial, TrialState, create_trial

from sweeps.coordinates import decode, encode, is_ordered, levels
from sweeps.objective import Observation
from sweeps.search import Params
from sweeps.spec import ChoiceDomain, Domain, SearchSpec, SpaceSpec

__all__ = ["OptunaSearch"]

_MAX_STARTUP = 10
"""Most trials that fill the space before a model is trusted; Optuna's own default for TPE."""


class OptunaSearch:
    """Suggests points of ``space``; its ``ask`` and ``tell`` are what the study loop takes.

    Parameters
    ----------
    space
        What is searched.
    search
        Sampler, seed, and how many trials there will be.
    """

    def __init__(self, space: SpaceSpec, search: SearchSpec) -> None:
        optuna.logging.set_verbosity(optuna.logging.ERROR)  # standard error shows our progress
        self._domains = space.domains
        self._search = search
        self._distributions = {str(domain.name): _distribution(domain) for domain in space.domains}
        self._told: list[Observation] = []

    def tell(self, observations: Sequence[Observation]) -> None:
        """Take in what one finished batch taught, in the order of its trials."""
        self._told += observations

    def ask(self, batch: int) -> Iterator[Params]:
        """Yield suggestions for ``batch``, one after the other; a grid ends, the others do not."""
        search = self._search
        teaching = [seen for seen in self._told if seen.value is not None]
        match search.sampler:
            case "random":
                return self._draws(self._study(RandomSampler(seed=self._seed(batch))))
            case "grid":
                return self._grid()
            case "qmc":
                return self._space_filling()
            case "tpe" | "gp" | "cmaes" if batch == 0 or len(teaching) < self._num_startup:
                return self._space_filling()
            case "tpe":
                tpe = TPESampler(
                    seed=self._seed(batch),
                    multivariate=True,
                    constant_liar=True,
                    n_startup_trials=1,
                )
                return self._draws(self._study(tpe, teaching))
            case "gp":
                gp = GPSampler(
                    seed=self._seed(batch), n_startup_trials=1, warn_independent_sampling=False
                )
                return self._draws(self._study(gp, teaching))
            case "cmaes":
                return self._draws(self._evolved(batch))

    @property
    def _num_startup(self) -> int:
        if self._search.sampler == "cmaes":
            return 1
        return min(_MAX_STARTUP, max(self._search.batch_size, self._search.num_trials // 3))

    @property
    def _num_drawn(self) -> int:
        """Suggestions drawn so far, those that were not entered included."""
        return sum(_num_draws(told) for _, told in _by_batch(self._told))

    def _seed(self, batch: int) -> int:
        entropy = (self._search.seed % 2**32, batch)
        return int(np.random.SeedSequence(entropy).generate_state(1)[0])

    def _study(
        self, sampler: BaseSampler, teaching: Sequence[Observation] = ()
    ) -> optuna.study.Study:
        """Return a new study that knows ``teaching``."""
        study = optuna.create_study(sampler=sampler)
        is_constrained = not all(seen.is_feasible for seen in teaching)
        for seen in teaching:
            finished = self._finished(seen, is_constrained=is_constrained)
            if finished is not None:
                study.add_trial(finished)
        return study

    def _finished(
        self, seen: Observation, *, is_constrained: bool, attributes: dict[str, str] | None = None
    ) -> FrozenTrial | None:
        """Return ``seen`` as Optuna's trial; None where it teaches nothing, or not of this space.

        The incumbent may lie outside the searched range.
        """
        params = encode(self._domains, seen.trial.params)
        if params is None or seen.value is None:
            return None
        return create_trial(
            params=params,
            distributions=self._distributions,
            value=seen.value,
            system_attrs=attributes,
            constraints={"diverged": 0.0 if seen.is_feasible else 1.0} if is_constrained else None,
        )

    def _draws(self, study: optuna.study.Study) -> Iterator[Params]:
        while True:
            yield decode(self._domains, study.ask(self._distributions).params)

    def _space_filling(self) -> Iterator[Params]:
        """Yield a scrambled Sobol sequence, from where the batches before left it."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            sampler = QMCSampler(
                scramble=True, seed=self._search.seed % 2**32, warn_independent_sampling=False
            )
        study = self._study(sampler)
        # Without a trial that shows the space, the first suggestion would not be of the sequence.
        corner = {str(domain.name): levels(domain)[0] for domain in self._domains}
        study.add_trial(
            create_trial(state=TrialState.RUNNING, params=corner, distributions=self._distributions)
        )
        return islice(self._draws(study), self._num_drawn, None)

    def _grid(self) -> Iterator[Params]:
        """Yield the grid, shuffled by the seed, from where the batches before left it."""
        grid = {str(domain.name): levels(domain) for domain in self._domains}
        study = self._study(GridSampler(grid, seed=self._search.seed % 2**32))
        size = math.prod(len(values) for values in grid.values())
        return islice(self._draws(study), self._num_drawn, size)

    def _evolved(self, batch: int) -> optuna.study.Study:
        """Return a study with the CMA-ES state that the batches before ``batch`` led to.

        CMA-ES keeps its state in the trials it suggested, so the suggestions are drawn again.
        """
        study = self._study(RandomSampler(seed=0))
        for earlier, told in _by_batch(self._told):
            study.sampler = self._cmaes(earlier)
            asked = [study.ask(self._distributions).number for _ in range(_num_draws(told))]
            attributes = {number: study.trials[number].system_attrs for number in asked}
            for seen in told:
                own = attributes[asked[seen.trial.draw]] if seen.trial.draw >= 0 else {}
                finished = self._finished(seen, is_constrained=False, attributes=own)
                if finished is not None:
                    study.add_trial(finished)
        study.sampler = self._cmaes(batch)
        return study

    def _cmaes(self, batch: int) -> CmaEsSampler:
        return CmaEsSampler(seed=self._seed(batch), warn_independent_sampling=False)


def _by_batch(told: Sequence[Observation]) -> Iterator[tuple[int, list[Observation]]]:
    """Yield each batch's number and observations; the incumbent counts to batch 0."""
    for batch, group in groupby(told, key=lambda seen: max(seen.trial.batch, 0)):
        yield batch, list(group)


def _num_draws(told: Sequence[Observation]) -> int:
    return max(seen.trial.draw for seen in told) + 1


def _distribution(domain: Domain) -> BaseDistribution:
    if not isinstance(domain, ChoiceDomain):
        return FloatDistribution(domain.low, domain.high, log=True)
    if is_ordered(domain):
        return IntDistribution(0, len(domain.values) - 1)
    return CategoricalDistribution(domain.values)
