"""The GGUF container: header, metadata and tensor table, read with every bound checked.

    magic "GGUF" | version | tensor count | metadata count
    metadata: key, type, value ...
    tensors:  name, dimensions, type, offset ...
    padding to `general.alignment`
    tensor data

Knows nothing of models. Our own reader because it opens the default model in a tenth of a second, where building the
objects of the `gguf` package takes two seconds, and because a cut or foreign file must be told apart in plain words.
Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
"""

from __future__ import annotations

import math
import mmap
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import ModelFileError
from .quantized import GGML_TYPES, SUPPORTED_KINDS

MAX_DIMENSIONS = 4
_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_STRING, _ARRAY = 8, 9


@dataclass(frozen=True)
class TensorEntry:
    """One row of the tensor table.

    Attributes:
        kind: the ggml type's name, such as ``Q4_1``.
        shape: in torch's order, rows first.
        offset: bytes from the start of the file.
        num_bytes: bytes of data.
    """

    name: str
    kind: str
    shape: tuple[int, ...]
    offset: int
    num_bytes: int


class GGUFReader:
    """An open GGUF file, memory-mapped.

    Attributes:
        path: the file.
        metadata: all key-value pairs as plain Python values.
        tensors: the tensor table by GGUF name.
        data_start: bytes before the first tensor.

    Raises:
        ModelFileError: the file is missing, empty, no GGUF, cut, damaged, or of a version or tensor type that is not
            supported; the sentence names the file and which of these it is.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._bytes = _map_file(self.path)
        self._position = 0
        self.metadata: dict[str, Any] = {}
        self.tensors: dict[str, TensorEntry] = {}
        try:
            num_tensors, num_pairs = self._read_header()
            for _ in range(num_pairs):
                key = self._text()
                self.metadata[key] = self._value(self._number("I"))
            rows = [self._tensor_row() for _ in range(num_tensors)]
        except _OutOfFileError:
            raise ModelFileError(
                f"{self.path} is cut short: it ends inside its header, after {len(self._bytes):,} bytes. "
                "Fetch it again."
            ) from None
        alignment = self.metadata.get("general.alignment", 32)
        if not isinstance(alignment, int) or alignment < 1:
            raise self._damaged(f"its alignment is {alignment!r}")
        self.data_start = math.ceil(self._position / alignment) * alignment
        for row in rows:
            self._add_tensor(*row)
        self._check_size()

    def data(self, name: str) -> np.ndarray:
        """The raw bytes of one tensor, uint8 [num_bytes], backed by the mapped file."""
        entry = self.tensors[name]
        return np.frombuffer(self._bytes, np.uint8, entry.num_bytes, entry.offset)

    def header_bytes(self) -> memoryview:
        """Everything before the tensors."""
        return memoryview(self._bytes)[: self.data_start]

    def _read_header(self) -> tuple[int, int]:
        self._position = 4
        version = self._number("I")
        if version > 0xFFFF:
            raise ModelFileError(f"{self.path} is a big-endian GGUF file, which is not supported.")
        if version not in (2, 3):
            raise ModelFileError(f"{self.path} has GGUF version {version}; versions 2 and 3 are supported.")
        num_tensors, num_pairs = self._number("Q"), self._number("Q")
        # The smallest row takes 24 bytes and the smallest pair 13: larger counts are noise, not a header.
        if num_tensors * 24 + num_pairs * 13 > max(len(self._bytes), 1 << 24):
            raise self._damaged(f"it claims {num_tensors:,} tensors and {num_pairs:,} metadata entries")
        return num_tensors, num_pairs

    def _number(self, code: str) -> Any:
        start, size = self._position, struct.calcsize(code)
        if start + size > len(self._bytes):
            raise _OutOfFileError
        self._position = start + size
        return struct.unpack_from("<" + code, self._bytes, start)[0]

    def _raw_text(self) -> bytes:
        size = self._number("Q")
        start, self._position = self._position, self._position + size
        if self._position > len(self._bytes):
            raise _OutOfFileError
        return self._bytes[start : self._position]

    def _text(self) -> str:
        return self._raw_text().decode("utf-8", "replace")

    def _value(self, kind: int) -> Any:
        if kind in _SCALARS:
            return self._number(_SCALARS[kind])
        if kind == _STRING:
            return self._text()
        if kind != _ARRAY:
            raise self._damaged(f"it has a metadata value of unknown type {kind}")
        element, count = self._number("I"), self._number("Q")
        if element in _SCALARS:
            return self._numbers(_SCALARS[element], count)
        if element == _STRING:
            return self._texts(count)
        if count > len(self._bytes) - self._position:
            raise _OutOfFileError
        return [self._value(element) for _ in range(count)]

    def _numbers(self, code: str, count: int) -> list[Any]:
        size = struct.calcsize(code) * count
        start, self._position = self._position, self._position + size
        if self._position > len(self._bytes):
            raise _OutOfFileError
        return list(struct.unpack_from(f"<{count}{code}", self._bytes, start))

    def _texts(self, count: int) -> list[str]:
        """A long array of strings, such as a vocabulary: one tight loop, checked once it is through."""
        view, position, unpack = self._bytes, self._position, struct.Struct("<Q").unpack_from
        found = []
        try:
            for _ in range(count):
                start = position + 8
                position = start + unpack(view, position)[0]
                if position > len(view):
                    raise _OutOfFileError
                found.append(view[start:position].decode("utf-8", "replace"))
        except struct.error:
            raise _OutOfFileError from None
        self._position = position
        return found

    def _tensor_row(self) -> tuple[str, tuple[int, ...], int, int]:
        name, num_dimensions = self._text(), self._number("I")
        if not 1 <= num_dimensions <= MAX_DIMENSIONS:
            raise self._damaged(f"tensor {name!r} has {num_dimensions} dimensions")
        shape = tuple(self._number("Q") for _ in range(num_dimensions))
        return name, shape[::-1], self._number("I"), self._number("Q")

    def _add_tensor(self, name: str, shape: tuple[int, ...], type_id: int, offset: int) -> None:
        if type_id not in GGML_TYPES:
            raise ModelFileError(f"{self.path}: tensor {name!r} has the unknown type number {type_id}.")
        kind = GGML_TYPES[type_id]
        if kind.name not in SUPPORTED_KINDS:
            raise ModelFileError(
                f"{self.path} is sound, but tensor {name!r} is stored as {kind.name}, which is not supported. "
                "Take another quantization of this model, for example Q4_1, Q8_0 or F16."
            )
        if shape[-1] % kind.block_size:
            raise self._damaged(f"tensor {name!r} has rows of {shape[-1]} elements, no multiple of {kind.block_size}")
        if name in self.tensors:
            raise self._damaged(f"tensor {name!r} is listed twice")
        num_bytes = math.prod(shape) // kind.block_size * kind.block_bytes
        self.tensors[name] = TensorEntry(name, kind.name, shape, self.data_start + offset, num_bytes)

    def _check_size(self) -> None:
        needed = max((entry.offset + entry.num_bytes for entry in self.tensors.values()), default=0)
        if needed > len(self._bytes):
            raise ModelFileError(
                f"{self.path} is cut short: it has {len(self._bytes):,} of {needed:,} bytes. Fetch it again."
            )

    def _damaged(self, reason: str) -> ModelFileError:
        return ModelFileError(f"{self.path} is damaged: {reason}. Fetch it again.")


class _OutOfFileError(Exception):
    """A read would pass the end of the file."""


def _map_file(path: Path) -> mmap.mmap:
    try:
        with path.open("rb") as file:
            start = file.read(256)
            if not start:
                raise ModelFileError(f"{path} is empty. Fetch it again.")
            if start[:4] != b"GGUF":
                raise ModelFileError(f"{path} is not a GGUF file: {_what_it_is(start)}")
            # Private pages: writable for torch's sake, and never written.
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
    except FileNotFoundError:
        raise ModelFileError(f"There is no model file at {path}.") from None
    except IsADirectoryError:
        raise ModelFileError(f"{path} is a folder, not a GGUF file.") from None
    except OSError as error:
        raise ModelFileError(f"{path} cannot be read: {error.strerror or error}.") from None


def _what_it_is(start: bytes) -> str:
    text = start.lstrip().lower()
    if text.startswith((b"<!doctype", b"<html", b"<?xml", b"<head")):
        return "it is a web page, perhaps a login or error page saved under this name. Fetch it again."
    if start.startswith(b"version https://git-lfs"):
        return "it is a Git LFS pointer; run 'git lfs pull' where it was cloned, or fetch the file itself."
    if b'"__metadata__"' in start or b'"dtype"' in start:
        return "it looks like a safetensors file; give the folder that holds it instead."
    if len(start) < 24:
        return "it is too short. Fetch it again."
    return "it does not begin with the letters GGUF."
