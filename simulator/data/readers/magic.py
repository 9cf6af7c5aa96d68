"""Formats that are recognised by their first bytes, so that none is read as something else."""

import struct

__all__ = ["known_format"]

_LLM_C_FIX = (
    "Drop its 1,024-byte header, for example with"
    " numpy.fromfile(path, dtype, offset=1024).tofile(new_path), and name the new file."
)

_MAGICS = (
    (b"\x93NUMPY", "a NumPy .npy array", 'Use kind = "npy".'),
    # llm.c: 256 int32 of header, the first of which is a magic number.
    (struct.pack("<i", 20240520), "an llm.c file (magic 20240520, uint16 ids)", _LLM_C_FIX),
    (struct.pack("<i", 20240801), "an llm.c file (magic 20240801, uint32 ids)", _LLM_C_FIX),
    (b"MMIDIDX\x00\x00", "the index of a Megatron data set", "Name the .bin file beside it."),
    (b"TNTIDX\x00\x00", "the index of a legacy Megatron data set", "Name the .bin file beside it."),
    (b"PK\x03\x04", "a zip archive (.npz and .pt are)", "Take the array out and save it alone."),
    (b"\x1f\x8b\x08\x00", "gzip-compressed", "Decompress it first."),
    (b"\x1f\x8b\x08\x08", "gzip-compressed", "Decompress it first."),
    (b"\x28\xb5\x2f\xfd", "zstd-compressed", "Decompress it first."),
    (b"PAR1", "a parquet file", "Export its ids or its text first."),
    (b"ARROW1", "an Arrow file", "Export its ids or its text first."),
)


def known_format(head: bytes) -> tuple[str, str] | None:
    """Return (what the file is, what to do with it) for the first bytes of a file, else ``None``.

    Every magic has four bytes or more: two would be met by chance in headerless ids.
    """
    for magic, name, fix in _MAGICS:
        if head.startswith(magic):
            return name, fix
    return None
