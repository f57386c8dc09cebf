"""Checkpoints that hold no values: enough for everything that does without TensorFlow, which the plan does."""

import struct
from pathlib import Path

_HEADER = b"\x00\x00\x02" + b"\x08\x01"  # no key, and a value of two bytes: there is one data file
_MAGIC = 0xDB4775248B80FB57


def pretend(folder: str | Path, *steps: int) -> None:
    """Leaves a run in `folder` with checkpoints of these global steps, in the order of their saving."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for step in steps:
        (folder / f"model.ckpt-{step}.index").write_bytes(_table())
        (folder / f"model.ckpt-{step}.data-00000-of-00001").touch()
    names = [f"model.ckpt-{step}" for step in steps]
    lines = [f'model_checkpoint_path: "{names[-1]}"', *(f'all_model_checkpoint_paths: "{name}"' for name in names)]
    (folder / "checkpoint").write_text("\n".join(lines) + "\n")


def _table():
    """Returns the content of the index of no tensors: a block of data, the block of its place, and the footer."""
    data = _block(_HEADER)
    place = bytes([0, len(data) - 5])
    places = _block(bytes([0, 1, len(place)]) + b"a" + place)
    footer = bytes([0, 0, len(data), len(places) - 5])
    return data + places + footer.ljust(40, b"\x00") + struct.pack("<Q", _MAGIC)


def _block(entry):
    return entry + struct.pack("<II", 0, 1) + bytes(5)  # a restart at 0; no compression, and no checksum
