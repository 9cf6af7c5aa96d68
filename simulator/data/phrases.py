"""A synthetic language of exactly known entropy: Zipf phrases that come in bursts.

There are ``K`` phrases with probabilities ``p_k ~ (k + q)^-(1 + alpha)``. A text is a row of
blocks; the first block draws a phrase from ``p``, each later one keeps the phrase before it with
probability ``rho`` and draws afresh otherwise. A block spells its phrase with two cue tokens (an
injective code) and then gives ``r`` answer tokens from a fixed table, each replaced by another
answer with probability ``eps``. Because the code is injective, cues carry exactly the entropy of
the phrase, and a reader of whole blocks always knows the phrase: every conditional probability,
and therefore the lowest loss any model can reach, has a closed form.

Shape letters: ``N`` rows, ``B`` blocks of ``n = 2 + r`` tokens, ``L`` tokens of a row, ``K``
phrases, ``C`` cues, ``A`` answers.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import entr

from simulator.specs.data import SyntheticSpec

__all__ = [
    "PhraseTables",
    "exact_nll",
    "make_tables",
    "predicted_entropy",
    "sample_rows",
    "unigram_entropy",
    "window_entropy",
]

_TABLE_STREAM = 0x5A5053
"""Keeps the generator of the tables apart from every generator of samples."""

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class PhraseTables:
    """The fixed tables of one language."""

    spec: SyntheticSpec
    probabilities: Floats
    """Of the phrases, shape (K,)."""
    cumulative: Floats
    """Cumulative probabilities, shape (K,); the last is 1."""
    cues: Ints
    """First and second cue token of each phrase, shape (K, 2)."""
    answers: Ints
    """Answer tokens of each phrase, shape (K, r), from C up to C + A."""
    phrase_of_cues: npt.NDArray[np.int32]
    """Phrase of a pair of cues at ``first * C + second``, -1 for none; shape (C * C,)."""
    first_cue_probabilities: Floats
    """Marginal of the first cue, shape (C,)."""


def make_tables(spec: SyntheticSpec) -> PhraseTables:
    """Return the tables of a language, a pure function of its specification."""
    num_phrases, num_cues = spec.num_phrases, spec.num_cues
    rng = np.random.default_rng([_TABLE_STREAM, spec.table_seed])
    rank = np.arange(1, num_phrases + 1, dtype=np.float64)
    weights = (rank + spec.shift) ** -(1.0 + spec.alpha)
    probabilities = weights / weights.sum()
    cumulative = np.cumsum(probabilities)
    cumulative[-1] = 1.0
    code = rng.permutation(num_cues**2)[:num_phrases].astype(np.int64)
    phrase_of_cues = np.full(num_cues**2, -1, dtype=np.int32)
    phrase_of_cues[code] = np.arange(num_phrases, dtype=np.int32)
    cues = np.stack([code // num_cues, code % num_cues], axis=1)
    answers = rng.integers(num_cues, spec.vocab_size, size=(num_phrases, spec.answer_len))
    first_cues = np.bincount(cues[:, 0], probabilities, minlength=num_cues).astype(np.float64)
    return PhraseTables(
        spec=spec,
        probabilities=probabilities,
        cumulative=cumulative,
        cues=cues,
        answers=answers,
        phrase_of_cues=phrase_of_cues,
        first_cue_probabilities=first_cues,
    )


def sample_rows(
    tables: PhraseTables, rng: np.random.Generator, *, num_rows: int, num_blocks: int
) -> Ints:
    """Draw rows of whole blocks, shape (num_rows, num_blocks * n)."""
    spec = tables.spec
    shape = (num_rows, num_blocks)
    fresh = np.searchsorted(tables.cumulative, rng.random(shape), side="right")
    is_kept = rng.random(shape) < spec.repeat
    is_kept[:, 0] = False
    # A kept phrase is the one of the last block that drew afresh.
    source = np.maximum.accumulate(np.where(is_kept, 0, np.arange(num_blocks)), axis=1)
    phrases = np.take_along_axis(fresh, source, axis=1)
    rows = np.empty((*shape, spec.block_len), dtype=np.int64)
    rows[..., :2] = tables.cues[phrases]
    answers = rows[..., 2:]
    answers[...] = tables.answers[phrases]
    is_wrong = rng.random(answers.shape) < spec.noise
    # A shift by 1 .. A-1 within the answers is uniform over the other answers.
    shift = rng.integers(1, spec.num_answers, size=int(is_wrong.sum()))
    right = answers[is_wrong] - spec.num_cues
    answers[is_wrong] = spec.num_cues + (right + shift) % spec.num_answers
    return rows.reshape(num_rows, num_blocks * spec.block_len)


def exact_nll(tables: PhraseTables, rows: Ints) -> Floats:
    """Return -ln p of every token given the tokens before it in its row, in nats.

    A forward filter that sees only the tokens.

    Parameters
    ----------
    rows
        Token ids, shape (N, L); each row starts on a block boundary, ``L`` is arbitrary.

    Returns
    -------
    array
        Shape (N, L); infinite where the language cannot produce the token.
    """
    spec = tables.spec
    num_rows, length = rows.shape
    num_blocks = -(-length // spec.block_len)
    padded = np.zeros((num_rows, num_blocks * spec.block_len), dtype=np.int64)
    padded[:, :length] = rows
    blocks = padded.reshape(num_rows, num_blocks, spec.block_len)
    probabilities = np.zeros(blocks.shape)
    phrases = _phrases(tables, blocks)
    first, joint = _cue_probabilities(tables, blocks, phrases)
    probabilities[..., 0] = first
    np.divide(joint, first, out=probabilities[..., 1], where=first > 0)
    is_right = blocks[..., 2:] == tables.answers[phrases]
    other = spec.noise / (spec.num_answers - 1)
    is_answer = (blocks[..., 2:] >= spec.num_cues) & (phrases >= 0)[..., None]
    probabilities[..., 2:] = np.where(is_right, 1 - spec.noise, other) * is_answer
    with np.errstate(divide="ignore"):
        nll = -np.log(probabilities)
    return nll.reshape(num_rows, -1)[:, :length]


def _phrases(tables: PhraseTables, blocks: Ints) -> Ints:
    """Return the phrase each block spells, -1 where its cues spell none."""
    num_cues = tables.spec.num_cues
    is_cue = (blocks[..., :2] < num_cues).all(axis=-1)
    code = np.where(is_cue, blocks[..., 0] * num_cues + blocks[..., 1], 0)
    return np.where(is_cue, tables.phrase_of_cues[code].astype(np.int64), -1)


def _cue_probabilities(tables: PhraseTables, blocks: Ints, phrases: Ints) -> tuple[Floats, Floats]:
    """Return the probabilities of each first cue and of each phrase, given the block before."""
    spec = tables.spec
    cue = blocks[..., 0]
    fresh_cue = np.where(
        cue < spec.num_cues, tables.first_cue_probabilities[np.minimum(cue, spec.num_cues - 1)], 0
    )
    fresh_phrase = np.where(phrases >= 0, tables.probabilities[phrases], 0.0)
    first, joint = fresh_cue.copy(), fresh_phrase.copy()
    is_same_cue = cue[:, 1:] == cue[:, :-1]
    is_same_phrase = (phrases[:, 1:] == phrases[:, :-1]) & (phrases[:, 1:] >= 0)
    first[:, 1:] = spec.repeat * is_same_cue + (1 - spec.repeat) * fresh_cue[:, 1:]
    joint[:, 1:] = spec.repeat * is_same_phrase + (1 - spec.repeat) * fresh_phrase[:, 1:]
    return first, joint


def window_entropy(tables: PhraseTables, num_blocks: int) -> float:
    """Return the mean entropy of all tokens of a window of whole blocks, in nats per token.

    ``(H(p) + (B - 1) H_row + B r h) / (B n)``: the loss floor of a model that predicts every token
    of the window, the first one from nothing.
    """
    spec = tables.spec
    total = (
        float(entr(tables.probabilities).sum())
        + (num_blocks - 1) * _kept_or_fresh_entropy(tables.probabilities, spec.repeat)
        + num_blocks * spec.answer_len * _answer_entropy(spec)
    )
    return total / (num_blocks * spec.block_len)


def predicted_entropy(tables: PhraseTables, num_blocks: int) -> float:
    """Return the loss floor of a model that predicts tokens 1 .. B n of a window from token 0 on.

    The predicted tokens are the window's blocks without their very first token, and the first cue
    of the block that follows. The first token has the marginal entropy of a first cue; the last,
    given the phrase before it, keeps that phrase's cue or draws a fresh one.
    """
    spec = tables.spec
    cues = tables.first_cue_probabilities
    length = num_blocks * spec.block_len
    first = float(entr(cues).sum())
    last = _kept_or_fresh_entropy(cues, spec.repeat)
    return window_entropy(tables, num_blocks) + (last - first) / length


def unigram_entropy(tables: PhraseTables) -> float:
    """Return the entropy of the tokens' frequencies, in nats; exact, as every block has them."""
    spec = tables.spec
    weights = tables.probabilities
    frequencies = np.zeros(spec.vocab_size)
    for column in tables.cues.T:
        frequencies += np.bincount(column, weights, minlength=spec.vocab_size)
    for column in tables.answers.T:
        right = np.bincount(column, weights, minlength=spec.vocab_size)[spec.num_cues :]
        wrong = (1 - right) / (spec.num_answers - 1)
        frequencies[spec.num_cues :] += (1 - spec.noise) * right + spec.noise * wrong
    return float(entr(frequencies / spec.block_len).sum())


def _kept_or_fresh_entropy(probabilities: Floats, repeat: float) -> float:
    """Return the mean entropy of a symbol that repeats its predecessor or is drawn afresh.

    With ``x = (1 - rho) p`` and ``S = sum x ln x`` this is
    ``sum_k p_k [-(rho + x_k) ln(rho + x_k) - (S - x_k ln x_k)]``.
    """
    fresh = (1 - repeat) * probabilities
    each = entr(fresh)
    given = entr(repeat + fresh) + each.sum() - each
    return float((probabilities * given).sum())


def _answer_entropy(spec: SyntheticSpec) -> float:
    spread = spec.num_answers - 1
    return float(entr(1 - spec.noise) + entr(spec.noise) + spec.noise * np.log(spread))
