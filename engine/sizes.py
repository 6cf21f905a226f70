"""Sizes in words: one unit for files, memory and limits wherever people read them (the page's: ``format.js``)."""

from __future__ import annotations

_UNITS = ("KiB", "MiB", "GiB", "TiB")


def size_in_words(size: float) -> str:
    """Bytes as people read them: 1 byte, 512 bytes, 1.5 KiB, 32 MiB, 12.5 GiB.

    One decimal below ten of a unit, and of all that is counted in GiB or more.
    """
    if size < 1024:
        return f"{size:,.0f} byte{'' if size == 1 else 's'}"
    value, unit = size / 1024, 0
    while value >= 1023.5 and unit < len(_UNITS) - 1:
        value, unit = value / 1024, unit + 1
    digits = 1 if value < 9.95 or unit > 1 else 0
    return f"{value:,.{digits}f}".removesuffix(".0") + f" {_UNITS[unit]}"
