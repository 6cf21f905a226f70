"""Identity of weights: a hash that changes whenever the files do.

Files of up to `WHOLE_LIMIT` bytes in all are hashed whole (98 MB take 0.15 s; large ones are remembered, see
`known_digests`). Of larger ones the header, the size, the time of the last change and three pages of every tensor are
hashed: an edit in place moves the time, a swapped tensor moves its pages.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path

from .known_digests import known_digest

WHOLE_LIMIT = 1 << 30
PAGE = 4096


def fingerprint_files(
    files: Sequence[Path], headers: Iterable[bytes], ranges: Mapping[Path, Sequence[tuple[int, int]]]
) -> str:
    """Hash of files in their order, as 32 hexadecimal digits.

    Args:
        headers: what shapes the use of the weights and may lie outside the files, such as config.json.
        ranges: for each file the (offset, bytes) of its tensors, used when the files are large.
    """
    total = hashlib.blake2b(digest_size=16)
    for header in headers:
        total.update(hashlib.blake2b(header).digest())
    sizes = [path.stat().st_size for path in files]
    whole = sum(sizes) <= WHOLE_LIMIT
    for path, size in zip(files, sizes, strict=True):
        total.update(size.to_bytes(8, "little"))
        if whole:
            total.update(known_digest(path, partial(_digest, path)))
            continue
        with path.open("rb") as file:
            total.update(path.stat().st_mtime_ns.to_bytes(8, "little"))
            for offset, length in ranges.get(path, ()):
                for start in (offset, offset + length // 2, offset + max(length - PAGE, 0)):
                    file.seek(start)
                    total.update(file.read(min(PAGE, length)))
    return total.hexdigest()


def _digest(path: Path) -> bytes:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "blake2b").digest()
