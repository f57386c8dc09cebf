"""Tells without TensorFlow whether the files of a checkpoint are there, and as long as its index says."""

import struct
from collections.abc import Iterator, Sequence

from estimator_train._engine.host.files import size_and_time
from estimator_train._engine.host.paths import StrPath, as_path

# The index is a table in the format of LevelDB: blocks of sorted keys, found through a block at the end. Its first
# value is a BundleHeaderProto, the others are a BundleEntryProto each; see tensor_bundle.proto of TensorFlow.
_MAGIC = 0xDB4775248B80FB57
_FOOTER = 48  # bytes
_NUM_SHARDS = 1  # a field of the header
_SHARD, _OFFSET, _SIZE = 3, 4, 5  # fields of an entry


def damage_of_files(prefix: StrPath) -> str | None:
    """Returns in one line which file of the checkpoint at a path prefix is missing or too short; None if none is.

    A wrong byte, which changes no size, is left to TensorFlow, whose readers verify checksums.
    """
    index = as_path(f"{prefix}.index")
    if not index.is_file():
        return f"there is no {index}"
    try:
        shards, lengths = _lengths(index.read_bytes())
    except (IndexError, KeyError, ValueError, struct.error):
        return f"{index} is damaged"
    for shard in range(shards):
        path = as_path(f"{prefix}.data-{shard:05d}-of-{shards:05d}")
        if not path.is_file():
            return f"there is no {path}"
        size, _ = size_and_time(path)
        if size < lengths.get(shard, 0):
            return f"{path} has {size} bytes of {lengths[shard]}"
    return None


def all_damaged(model_dir: StrPath, newest: str, intact: Sequence[str]) -> str:
    """Says that the checkpoints that count are damaged, the `newest` among them; `intact` are others, oldest first."""
    state = as_path(model_dir, "checkpoint")
    mend = "restore a copy"
    if intact:
        mend = f"delete {state} to resume from {intact[-1]}"
    return (
        f"Every checkpoint in {model_dir} is damaged, the newest is {newest}; {mend}, or use another model_dir to "
        "start over."
    )


def _lengths(table: bytes) -> tuple[int, dict[int, int]]:
    """Returns the number of data files, and the bytes of each by its number, from the content of an index file."""
    footer = table[-_FOOTER:]
    if struct.unpack("<Q", footer[-8:]) != (_MAGIC,):
        raise ValueError("no table")
    *_, offset, size = _varints(footer, 4)
    ends: dict[int, int] = {}
    header: dict[int, int] = {}
    for block in _values(table, offset, size):
        for value in _values(table, *_varints(block, 2)):
            if not header:
                header = _numbers(value)
                continue
            entry = _numbers(value)
            shard = entry.get(_SHARD, 0)
            ends[shard] = max(ends.get(shard, 0), entry.get(_OFFSET, 0) + entry.get(_SIZE, 0))
    return header[_NUM_SHARDS], ends


def _values(table: bytes, offset: int, size: int) -> Iterator[bytes]:
    """Yields the values of a block."""
    block = table[offset : offset + size]
    if len(block) < size or table[offset + size]:
        raise ValueError("a block is cut off or compressed")  # TensorFlow compresses none
    (restarts,) = struct.unpack("<I", block[-4:])
    place, end = 0, len(block) - 4 * (restarts + 1)
    while place < end:
        (_, unshared, length), place = _read_varints(block, 3, place)
        place += unshared + length
        yield block[place - length : place]


def _numbers(message: bytes) -> dict[int, int]:
    """Returns the integers of a protocol buffer, by the numbers of their fields."""
    numbers, place = {}, 0
    while place < len(message):
        (key,), place = _read_varints(message, 1, place)
        field, kind = key >> 3, key & 7
        if kind in (0, 2):
            (number,), place = _read_varints(message, 1, place)
            if kind == 0:
                numbers[field] = number
            else:
                place += number
        else:
            place += {1: 8, 5: 4}[kind]
    return numbers


def _varints(data: bytes, count: int) -> list[int]:
    numbers, _ = _read_varints(data, count, 0)
    return numbers


def _read_varints(data: bytes, count: int, place: int) -> tuple[list[int], int]:
    """Returns `count` integers of 7 bits a byte, the lowest first, and the place after them."""
    numbers = []
    for _ in range(count):
        number = shift = 0
        while data[place] & 0x80:
            number |= (data[place] & 0x7F) << shift
            place, shift = place + 1, shift + 7
        numbers.append(number | data[place] << shift)
        place += 1
    return numbers, place
