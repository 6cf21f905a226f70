"""Opening model files: `open_checkpoint` gives a `Checkpoint`, whatever the weights are stored in."""

from __future__ import annotations

from pathlib import Path

from .checkpoint_base import Checkpoint
from .gguf_file import GGUFCheckpoint
from .hf_dir import HFCheckpoint

__all__ = ["Checkpoint", "open_checkpoint"]


def open_checkpoint(path: str | Path) -> Checkpoint:
    """Open a GGUF file or a Hugging Face directory (config.json and safetensors).

    Checks headers, sizes, names and shapes; reads no weights.

    Raises:
        ModelFileError: missing, cut, damaged, incomplete, or of a kind that is not supported.
    """
    path = Path(path).expanduser()
    if path.is_dir():
        return HFCheckpoint(path)
    return GGUFCheckpoint(path)
