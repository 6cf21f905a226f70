"""The engine's settings, under vLLM's names where it has the same thing."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from .errors import ConfigError

DTYPES = ("auto", "float32", "bfloat16", "float16")
DEVICES = ("auto", "cpu", "cuda", "mps")
POLICIES = ("trim", "refuse")
BLOCK_SIZES = (1, 2, 4, 8, 16, 32, 64, 128)
MOST_THREADS = 256


@dataclass(frozen=True)
class EngineConfig:
    """Settings of one engine.

    Attributes:
        model: path of a GGUF file or of a Hugging Face directory.
        max_model_len: longest sequence in tokens; the model's own limit when None.
        block_size: tokens per KV block.
        num_blocks: KV blocks; beats ``kv_cache_memory`` (bytes), which beats ``gpu_memory_utilization`` (share of
            the device's memory, other programs' included). When all are None the pool is the smallest of
            ``max_num_seqs x max_model_len``, half of the free memory, 2 GiB, and what is free without the weights, the
            largest step and a slack of 5 % (see `headroom`), but never under one ``max_model_len``.
        max_num_seqs: requests that run at the same time.
        max_num_batched_tokens: token budget of one step.
        threads: of the CPU kernels; by default one for each physical core that affinity and control groups allow.
        deterministic: the same ids alone and in company, in every dtype; prompts take longer.
        max_queue: requests that may wait; one more is refused.
        context_policy: what becomes of a chat that outgrows the context: "trim" leaves out its oldest turns (see
            `context_policy`), "refuse" refuses it.
        hang_timeout_s: seconds without progress after which the engine process is ended and started again (see
            `watchdog`); 0 for never.

    Raises:
        ConfigError: on a value that cannot work.
    """

    model: str
    device: str = "auto"
    dtype: str = "auto"
    max_model_len: int | None = None
    block_size: int = 16
    num_blocks: int | None = None
    gpu_memory_utilization: float | None = None
    kv_cache_memory: int | None = None
    max_num_seqs: int = 32
    max_num_batched_tokens: int = 512
    threads: int | None = None
    max_queue: int = 1000
    enable_prefix_caching: bool = True
    deterministic: bool = False
    context_policy: str = "trim"
    hang_timeout_s: float = 60.0

    def __post_init__(self) -> None:
        if self.device.split(":")[0] not in DEVICES:
            raise ConfigError(f"--device must be one of {', '.join(DEVICES)}, not {self.device!r}.")
        if self.dtype not in DTYPES:
            raise ConfigError(f"--dtype must be one of {', '.join(DTYPES)}, not {self.dtype!r}.")
        if self.block_size not in BLOCK_SIZES:
            raise ConfigError(f"--block-size must be a power of two from 1 to 128, not {self.block_size}.")
        if self.context_policy not in POLICIES:
            raise ConfigError(f"--context-policy must be one of {', '.join(POLICIES)}, not {self.context_policy!r}.")
        if not 0 <= self.hang_timeout_s < float("inf"):
            raise ConfigError(f"--hang-timeout-s must be 0 or more, not {self.hang_timeout_s:g}.")
        for name in ("max_model_len", "num_blocks", "kv_cache_memory", "max_num_seqs", "max_num_batched_tokens"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ConfigError(f"--{name.replace('_', '-')} must be at least 1, not {value}.")
            if value is not None and value >= 1 << 63:
                raise ConfigError(f"--{name.replace('_', '-')} must be below 2^63, not {value}.")
        if self.threads is not None and not 1 <= self.threads <= MOST_THREADS:
            raise ConfigError(f"--threads must lie between 1 and {MOST_THREADS}, not {self.threads}.")
        share = self.gpu_memory_utilization
        if share is not None and not 0 < share < 1:
            raise ConfigError(
                f"--gpu-memory-utilization must lie between 0 and 1, not {share:g}: weights, activations and other "
                "programs need some of the memory too; 0.9 is a common value."
            )

    def to_dict(self) -> dict[str, Any]:
        """All fields, for the wire."""
        return asdict(self)
