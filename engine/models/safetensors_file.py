"""One safetensors file, memory-mapped, every offset checked against the file's size.

    8 bytes: length of the header | header: JSON of name -> dtype, shape, data_offsets | tensor data

Format: https://github.com/huggingface/safetensors#format
"""

from __future__ import annotations

import json
import math
import mmap
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import ModelFileError

if TYPE_CHECKING:
    import torch

_BYTES = {"F32": 4, "F16": 2, "BF16": 2}


@dataclass(frozen=True)
class SafetensorsEntry:
    """One tensor: its type's name, shape, and place in the file in bytes."""

    dtype: str
    shape: tuple[int, ...]
    offset: int
    num_bytes: int


class SafetensorsFile:
    """An open safetensors file.

    Attributes:
        entries: what it holds, by name.

    Raises:
        ModelFileError: missing, cut, damaged, or of a type that is not supported.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            size = path.stat().st_size
            with path.open("rb") as file:
                length = int.from_bytes(file.read(8), "little")
                if size < 8 or length > size - 8:
                    raise ModelFileError(f"{path} is cut short or no safetensors file. Fetch it again.")
                header = json.loads(file.read(length))
                # Private pages: writable for torch's sake, and never written.
                self._bytes = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
        except FileNotFoundError:
            raise ModelFileError(f"{path} is missing.") from None
        except ValueError:
            raise ModelFileError(f"{path} is damaged: its header cannot be read. Fetch it again.") from None
        except OSError as error:
            raise ModelFileError(f"{path} cannot be read: {error.strerror or error}.") from None
        start = 8 + length
        try:
            self.entries = {name: _entry(row, start) for name, row in header.items() if name != "__metadata__"}
        except (AttributeError, KeyError, TypeError, ValueError):
            raise ModelFileError(f"{path} is damaged: its header makes no sense. Fetch it again.") from None
        self._check(size)

    def tensor(self, name: str) -> torch.Tensor:
        """One tensor, backed by the mapped file."""
        import torch

        entry = self.entries[name]
        dtype = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}[entry.dtype]
        if not entry.num_bytes:
            return torch.empty(entry.shape, dtype=dtype)
        count = math.prod(entry.shape)
        return torch.frombuffer(self._bytes, dtype=dtype, count=count, offset=entry.offset).reshape(entry.shape)

    def _check(self, size: int) -> None:
        for name, entry in self.entries.items():
            if entry.dtype not in _BYTES:
                raise ModelFileError(f"{self.path} is sound, but {name!r} has the type {entry.dtype}, not supported.")
            if entry.num_bytes != math.prod(entry.shape) * _BYTES[entry.dtype]:
                raise ModelFileError(f"{self.path} is damaged: {name!r} has a size that does not fit its shape.")
        needed = max((entry.offset + entry.num_bytes for entry in self.entries.values()), default=0)
        if needed > size:
            raise ModelFileError(f"{self.path} is cut short: it has {size:,} of {needed:,} bytes. Fetch it again.")


def _entry(row: dict[str, Any], start: int) -> SafetensorsEntry:
    first, last = row["data_offsets"]
    shape = tuple(int(size) for size in row["shape"])
    if min(shape, default=0) < 0 or not 0 <= first <= last:
        raise ValueError("negative size")
    return SafetensorsEntry(str(row["dtype"]), shape, start + first, last - first)
