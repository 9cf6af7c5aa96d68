"""The two doors of the data: resolve what a user wrote, and open what was resolved."""

import dataclasses
import os.path
from collections.abc import Sequence
from pathlib import Path

from simulator.data.corpus import Corpus
from simulator.data.manifest import id_manifest
from simulator.data.prepare import no_tokenizer, prepare_sources, read_texts
from simulator.data.readers.choose import id_reader
from simulator.data.synthetic_corpus import SyntheticCorpus
from simulator.data.token_corpus import TokenCorpus
from simulator.data.vocabulary import find_vocab_size, make_encoder
from simulator.data.windows import WindowShape
from simulator.specs.data import (
    DataSpec,
    SourceSpec,
    TokenizerChoice,
    TokenizerSpec,
    ValidationSpec,
)
from simulator.specs.errors import DataError, SpecError

__all__ = ["open_corpus", "resolve_data"]


def resolve_data(
    sources: Sequence[SourceSpec],
    tokenizer: TokenizerChoice,
    validation: Sequence[ValidationSpec],
    holdout_fraction: float,
    *,
    root: Path,
    cache: Path,
    seq_len: int,
    num_extra_tokens: int = 1,
) -> DataSpec:
    """Read, check and hash the data once, and return their complete specification.

    Everything that can be wrong with a data file is found here; encoded text is left in the
    cache. Repeated calls cost little while no file changes its size or time.

    Parameters
    ----------
    root
        Folder that relative paths start from.
    cache
        Folder for hashes, trained tokenizers and encoded text; made if absent.
    seq_len, num_extra_tokens
        Of the windows that the data must hold at least one of.

    Raises
    ------
    SpecError
        If the parts of the data section do not go together.
    DataError
        If a file is missing, damaged, empty, too short, or not what it claims to be.
    """
    _make_cache(cache)
    placed = tuple(_placed(source, root) for source in sources)
    own = tuple(
        dataclasses.replace(item, sources=tuple(_placed(source, root) for source in item.sources))
        for item in validation
    )
    if tokenizer.path:
        tokenizer = dataclasses.replace(tokenizer, path=_absolute(tokenizer.path, root))
    draft = DataSpec(
        sources=placed,
        tokenizer=TokenizerSpec(
            kind=tokenizer.kind,
            vocab_size=_vocab_size(placed, tokenizer, cache),
            path=tokenizer.path,
        ),
        validation=own,
        holdout_fraction=holdout_fraction,
        content_sha256="",
    )
    corpus = _build(draft, WindowShape(seq_len, num_extra_tokens), cache)
    return dataclasses.replace(draft, content_sha256=corpus.content_sha256)


def open_corpus(spec: DataSpec, *, seq_len: int, num_extra_tokens: int, cache: Path) -> Corpus:
    """Open resolved data.

    What is verified: the hash of the ids, the tokenizer and the held-out share against
    ``spec.content_sha256``. Hashes of files are remembered as long as size and time stay the
    same, so an intact cache is opened without reading the data again.

    Parameters
    ----------
    seq_len
        Predicted tokens of a sequence.
    num_extra_tokens
        Tokens of a sequence beyond those: 1 + n_mtp_modules.

    Raises
    ------
    DataError
        If the data are no longer what was resolved; otherwise as :func:`resolve_data`.
    """
    _make_cache(cache)
    corpus = _build(spec, WindowShape(seq_len, num_extra_tokens), cache)
    if corpus.content_sha256 != spec.content_sha256:
        raise DataError(
            ", ".join(source.path or source.kind for source in spec.sources),
            f"must be the data that were resolved (hash {spec.content_sha256[:12]})",
            f"hash {corpus.content_sha256[:12]}",
            "Bring the old files back (for a synthetic source: the old numpy), or start a new study"
            " on the new ones.",
        )
    return corpus


def _build(spec: DataSpec, shape: WindowShape, cache: Path) -> TokenCorpus | SyntheticCorpus:
    if shape.seq_len < 1:
        raise SpecError("batch.seq_len", "must be positive", shape.seq_len, "Give >= 1.")
    if _is_synthetic(spec.sources):
        return SyntheticCorpus(spec, shape)
    for item in spec.validation:
        if _is_synthetic(item.sources):
            raise SpecError(
                "data.validation.sources",
                "must not be synthetic where training is on text or ids",
                item.name,
                "Validate on text or ids.",
            )
    vocab_size = spec.tokenizer.vocab_size
    encoder = make_encoder(spec.tokenizer, read_texts(spec.sources, cache), cache)
    return TokenCorpus(
        spec,
        shape,
        prepare_sources(spec.sources, encoder, vocab_size, cache),
        {
            item.name: prepare_sources(item.sources, encoder, vocab_size, cache)
            for item in spec.validation
            if item.sources
        },
        tokenizer="none" if encoder is None else encoder.identity,
    )


def _vocab_size(sources: Sequence[SourceSpec], tokenizer: TokenizerChoice, cache: Path) -> int:
    languages = [source.synthetic for source in sources if source.synthetic is not None]
    if languages and tokenizer.kind != "none":
        raise SpecError(
            "data.tokenizer.kind",
            "must be 'none' for a synthetic source, which draws ids",
            tokenizer.kind,
            "Use kind 'none'.",
        )
    if tokenizer.kind != "none":
        return find_vocab_size(tokenizer)
    asked = tokenizer.vocab_size
    if languages:
        needed = max(language.vocab_size for language in languages)
    else:
        needed = asked or _ids_found(sources, cache)
    if asked is None and languages:
        return needed
    if asked is None or asked < needed:
        raise SpecError(
            "data.tokenizer.vocab_size",
            f"must be given and at least the {needed} ids of the sources",
            asked,
            f"Use {needed}, or the size of the tokenizer the ids were made with.",
        )
    return asked


def _ids_found(sources: Sequence[SourceSpec], cache: Path) -> int:
    found = 0
    for source in sources:
        reader = id_reader(source)
        if reader is None:
            raise no_tokenizer(source)
        found = max(found, id_manifest(source, reader, cache).max_id + 1)
    return found


def _is_synthetic(sources: Sequence[SourceSpec]) -> bool:
    return any(source.kind == "synthetic" for source in sources)


def _placed(source: SourceSpec, root: Path) -> SourceSpec:
    if not source.path:
        return source
    return dataclasses.replace(source, path=_absolute(source.path, root))


def _absolute(path: str, root: Path) -> str:
    """Return an absolute path without dots; links are left as they are."""
    return os.path.abspath(root / Path(path).expanduser())  # noqa: PTH100


def _make_cache(cache: Path) -> None:
    try:
        cache.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(
            str(cache),
            "must be a folder that can be written",
            error.strerror,
            "Choose another cache folder.",
        ) from None
