"""One face for model files, whatever the weights are stored in."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import ModelFileError

if TYPE_CHECKING:
    import torch

    from .quantized import QuantizedTensor
    from .spec import ModelSpec


class Checkpoint(ABC):
    """Weights of one model, under Hugging Face's llama names, plus what the files say about using it.

    Attributes:
        path: the GGUF file or the directory.
        name: short name for people and for ``/v1/models``.
        spec: shape of the model.
        generation_defaults: sampling values the model's makers recommend (``temperature``, ``top_p``, ``top_k``,
            ``min_p``), those that are stated.
        warnings: plain sentences about what was odd but bearable.
    """

    path: Path
    name: str
    spec: ModelSpec
    generation_defaults: dict[str, Any]
    warnings: list[str]

    @abstractmethod
    def names(self) -> Collection[str]:
        """Names of all tensors that a model should use."""

    @abstractmethod
    def shape(self, name: str) -> tuple[int, ...]:
        """Shape of a tensor in elements, rows first. Raises KeyError on an unknown name."""

    @abstractmethod
    def tensor(self, name: str) -> torch.Tensor | QuantizedTensor:
        """One tensor, in the file's own precision and memory-mapped where possible. Raises KeyError if unknown."""

    @property
    @abstractmethod
    def fingerprint(self) -> str:
        """Hash of the weights and of what shapes their use; changes when the files change in place."""

    def check_all_used(self, used: Collection[str]) -> None:
        """Refuse weights that the decoder did not take.

        Raises:
            ModelFileError: the file holds a tensor that no parameter uses.
        """
        left = sorted(set(self.names()) - set(used))
        if left:
            raise ModelFileError(
                f"{self.path} holds {len(left)} tensors that a {self.spec.architecture} model does not use, "
                f"the first is {left[0]!r}. This kind of model is not supported."
            )

    def check_complete(self) -> None:
        """Compare the tensors with the parameters of the spec.

        Raises:
            ModelFileError: a parameter has no tensor, or one of another shape.
        """
        present = set(self.names())
        if self.spec.num_layers > len(present):
            raise ModelFileError(
                f"{self.path} claims {self.spec.num_layers:,} layers but holds only {len(present):,} tensors; "
                "it is damaged or incomplete."
            )
        for name, shape in self.spec.parameter_shapes().items():
            if name not in present:
                raise ModelFileError(f"{self.path} has no tensor for {name!r}; the model is incomplete.")
            if self.shape(name) != shape:
                raise ModelFileError(
                    f"{self.path}: {name!r} has shape {list(self.shape(name))}, but the model's sizes ask for "
                    f"{list(shape)}."
                )
