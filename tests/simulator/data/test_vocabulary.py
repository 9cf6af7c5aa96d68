"""Tokenizers: bytes, a BPE of our own, the user's file."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tokenizers
from tokenizers.processors import TemplateProcessing

from simulator.data.encoders import ByteEncoder, TextEncoder
from simulator.data.prepare import read_texts
from simulator.data.vocabulary import TextSource, find_vocab_size, make_encoder, sample_text
from simulator.specs.data import SourceSpec, TokenizerChoice, TokenizerSpec
from simulator.specs.errors import DataError, SpecError

WORDS = ["the cat sat on the mat. ", "a dog ran after the cat; ", "café über naïve.\n"]


def _texts(folder: Path, num_words: int = 2000) -> tuple[TextSource, ...]:
    text = "".join(WORDS[(index * index + index // 7) % 3] for index in range(num_words))
    (folder / "a.txt").write_text(text, encoding="utf-8")
    source = SourceSpec(kind="text", path=str(folder / "a.txt"))
    return read_texts([source], folder / "cache")


def _bpe(folder: Path, vocab_size: int = 270) -> TextEncoder:
    tokenizer = TokenizerSpec(kind="bpe", vocab_size=vocab_size)
    encoder = make_encoder(tokenizer, _texts(folder), folder / "cache")
    assert encoder is not None
    return encoder


def _trained_file(folder: Path) -> Path:
    (path,) = (folder / "cache" / "tokenizers").glob("*/tokenizer.json")
    return path


def test_bytes_are_their_own_ids() -> None:
    (ids,) = ByteEncoder().encode(["né"])
    assert ids.tolist() == [0x6E, 0xC3, 0xA9]


def test_bpe_is_shorter_and_stays_inside_its_vocabulary(tmp_path: Path) -> None:
    (ids,) = _bpe(tmp_path).encode(["".join(WORDS)])
    assert ids.max() < 270
    assert ids.size < len("".join(WORDS).encode())


def test_bpe_spells_what_it_never_saw(tmp_path: Path) -> None:
    (ids,) = _bpe(tmp_path).encode(["日本語 \U0001f600 \x00"])
    assert ids.max() < 256


def test_bpe_is_trained_once(tmp_path: Path) -> None:
    first = _bpe(tmp_path)
    changed = _trained_file(tmp_path).stat().st_mtime_ns
    assert _bpe(tmp_path).identity == first.identity
    assert _trained_file(tmp_path).stat().st_mtime_ns == changed


def test_damaged_bpe_is_trained_again_and_is_the_same(tmp_path: Path) -> None:
    first = _bpe(tmp_path)
    path = _trained_file(tmp_path)
    path.write_text(path.read_text()[:-100])
    assert _bpe(tmp_path).identity == first.identity


def test_training_text_is_capped_and_spread(tmp_path: Path) -> None:
    lines = "".join(f"line number {index}\n" for index in range(100_000))
    (tmp_path / "a.txt").write_text(lines)
    source = SourceSpec(kind="text", path=str(tmp_path / "a.txt"))
    texts = read_texts([source], tmp_path / "cache")
    pieces = list(sample_text(texts, 500_000))
    assert 400_000 < sum(len(piece.encode()) for piece in pieces) <= 500_000
    assert lines.index(pieces[-1]) > 0.7 * len(lines)


def test_training_text_without_line_ends_is_cut_at_the_cap(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("é" * 100_000, encoding="utf-8")
    source = SourceSpec(kind="text", path=str(tmp_path / "a.txt"))
    texts = read_texts([source], tmp_path / "cache")
    assert "".join(sample_text(texts, 1001)) == "é" * 500


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        (TokenizerChoice(kind="bytes", vocab_size=257), "must be 256 or left out"),
        (TokenizerChoice(kind="bpe"), "must be given and >= 257 .*; got None"),
        (TokenizerChoice(kind="bpe", vocab_size=256), "must be given and >= 257 .*; got 256"),
    ],
)
def test_size_that_does_not_go_with_the_kind_is_refused(
    choice: TokenizerChoice, message: str
) -> None:
    with pytest.raises(SpecError, match=rf"data\.tokenizer\.vocab_size {message}"):
        find_vocab_size(choice)


def test_bpe_larger_than_the_text_yields_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"must not exceed the \d+ ids that the text yields"):
        _bpe(tmp_path, 5000)


def test_bpe_without_text_is_refused(tmp_path: Path) -> None:
    tokenizer = TokenizerSpec(kind="bpe", vocab_size=300)
    with pytest.raises(SpecError, match="needs at least one training source of text"):
        make_encoder(tokenizer, (), tmp_path)


def test_users_tokenizer_is_read_without_special_tokens(tmp_path: Path) -> None:
    _bpe(tmp_path)
    library = tokenizers.Tokenizer.from_file(str(_trained_file(tmp_path)))
    library.add_special_tokens(["<s>"])
    library.post_processor = TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 270)])
    library.enable_truncation(3)
    library.enable_padding(length=20)
    path = tmp_path / "tokenizer.json"
    library.save(str(path))
    vocab_size = find_vocab_size(TokenizerChoice(kind="file", path=str(path)))
    tokenizer = TokenizerSpec(kind="file", vocab_size=vocab_size, path=str(path))
    encoder = make_encoder(tokenizer, (), tmp_path)
    assert vocab_size == 271
    assert encoder is not None
    mine, plain = encoder.encode(WORDS), _bpe(tmp_path).encode(WORDS)
    assert all(np.array_equal(one, other) for one, other in zip(mine, plain, strict=True))


@pytest.mark.needs_shared
def test_public_tokenizer_gives_the_public_ids(shared_data: Path) -> None:
    path = str(shared_data / "formats" / "tokenizer_wiki_en_bpe4096.json")
    assert find_vocab_size(TokenizerChoice(kind="file", path=path)) == 4096
    assert find_vocab_size(TokenizerChoice(kind="file", path=path, vocab_size=5000)) == 5000
    with pytest.raises(SpecError, match="at least the tokenizer's own 4096 ids; got 4000"):
        find_vocab_size(TokenizerChoice(kind="file", path=path, vocab_size=4000))
    encoder = make_encoder(TokenizerSpec(kind="file", vocab_size=4096, path=path), (), Path())
    assert encoder is not None
    (ids,) = encoder.encode(["20th-century classical music"])
    assert ids[:4].tolist() == [1516, 333, 13, 2243]


@pytest.mark.parametrize("content", [b"", b"{}", b'{"model": {"type": "Nonsense"}}', b"not json"])
def test_file_that_is_no_tokenizer_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_bytes(content)
    with pytest.raises(SpecError, match=r"must name a tokenizer\.json"):
        find_vocab_size(TokenizerChoice(kind="file", path=str(path)))


def test_tokenizer_path_is_checked(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_bytes(b"\xff")
    for path, message in (
        (tmp_path / "tokeniser.json", r"Did you mean '.*tokenizer\.json'"),
        (tmp_path, "must be a file; got 'a folder'"),
        (tmp_path / "tokenizer.json", "not UTF-8 at offset 0"),
    ):
        with pytest.raises(DataError, match=message):
            find_vocab_size(TokenizerChoice(kind="file", path=str(path)))


def test_missing_library_is_named_with_the_way_to_get_it(tmp_path: Path) -> None:
    """In a process of its own, where the library cannot be imported."""
    code = (
        "import sys\nsys.modules['tokenizers'] = None\n"
        "from simulator.data.vocabulary import find_vocab_size\n"
        "from simulator.specs.data import TokenizerChoice\n"
        "from simulator.specs.errors import SpecError\n"
        f"path = {str(tmp_path / 'tokenizer.json')!r}\nopen(path, 'w').write('{{}}')\n"
        "assert find_vocab_size(TokenizerChoice(kind='bytes')) == 256\n"
        "try:\n    find_vocab_size(TokenizerChoice(kind='file', path=path))\n"
        "except SpecError as error:\n    print(error)\n"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "pip install 'eighthscale[data]'" in found.stdout
