"""What a reply is made to begin with: ids of another version down to a token, and the one that was chosen there.

::

    version 1    header │ The │ sea │ is │ blue │ . │ <end>
    version 2    header │ The │ sea │ may │ be …            branched at the third token: three ids are given
                         '----- given ----'
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Given:
    """The beginning of a reply that branches off another one.

    Attributes:
        ids: of the reply, behind its header.
        params: sampling of the run that it branches off, which it goes on with; the seed is a new one.
        own: those of them that were chosen for that reply alone.
    """

    ids: list[int]
    params: dict[str, Any]
    own: dict[str, Any] = field(default_factory=dict)
