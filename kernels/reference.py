"""Every operation in plain torch, on any device. The oracle that the fast kernels are compared with."""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F

from .interface import AttentionBatch, DecoderShape, DecoderWeights, Weight


def dense(weight: Weight) -> torch.Tensor:
    """The matrix as a plain tensor; blocks of a file become float32."""
    return weight if isinstance(weight, torch.Tensor) else weight.dequantize()


class DenseLinear:
    """Product with one dense matrix made of those given."""

    def __init__(self, weights: list[Weight], bias: torch.Tensor | None, device: torch.device, dtype: torch.dtype):
        parts = [dense(weight).to(device=device, dtype=dtype) for weight in weights]
        self.weight = parts[0] if len(parts) == 1 else torch.cat(parts)
        self.bias = None if bias is None else bias.to(device=device, dtype=dtype)
        self.weight_bytes = self.weight.numel() * self.weight.element_size()

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return F.linear(x, self.weight, self.bias)


class ReferenceKernels:
    """Plain torch on any device; gathers each sequence's KV through its block table."""

    name = "reference"
    compiling = False

    def __init__(self, device: torch.device | str = "cpu", dtype: torch.dtype = torch.float32, reason: str = ""):
        self.device = torch.device(device)
        self.dtype = dtype
        self.reason = reason
        self.threads = torch.get_num_threads()

    def linear(self, weights: list[Weight], bias: torch.Tensor | None = None) -> DenseLinear:
        return DenseLinear(weights, bias, self.device, self.dtype)

    def rms_norm(self, x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
        wide = x.float()
        normed = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + eps)
        return weight * normed.to(x.dtype)

    def add_rms_norm(
        self, delta: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, eps: float
    ) -> torch.Tensor:
        residual += delta
        return self.rms_norm(residual, weight, eps)

    def rotary(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, positions: np.ndarray) -> None:
        index = torch.from_numpy(positions).to(x.device, torch.int64)
        c, s = cos[index][:, None, :], sin[index][:, None, :]
        half = x.shape[-1] // 2
        first, second = x[..., :half].float(), x[..., half:].float()
        x.copy_(torch.cat([first * c - second * s, second * c + first * s], dim=-1))

    def write_cache(
        self,
        key: torch.Tensor,
        value: torch.Tensor,
        key_cache: torch.Tensor,
        value_cache: torch.Tensor,
        batch: AttentionBatch,
    ) -> None:
        slots = torch.from_numpy(batch.slot_mapping).to(key_cache.device)
        block, offset = slots // batch.block_size, slots % batch.block_size
        key_cache[block, :, offset] = key.to(key_cache.dtype)
        value_cache[block, :, offset] = value.to(value_cache.dtype)

    def attention(
        self,
        query: torch.Tensor,
        key_cache: torch.Tensor,
        value_cache: torch.Tensor,
        batch: AttentionBatch,
        scale: float,
    ) -> torch.Tensor:
        out = torch.empty_like(query)
        group = query.shape[1] // key_cache.shape[1]
        for i in range(batch.num_seqs):
            begin, end, length = int(batch.query_start[i]), int(batch.query_start[i + 1]), int(batch.seq_lens[i])
            if begin == end:
                continue
            positions = torch.from_numpy(batch.positions[begin:end]).to(query.device)
            first = 0 if batch.window is None else max(0, int(batch.positions[begin]) - batch.window + 1)
            keys = gather(key_cache, batch, i, first, length).float().repeat_interleave(group, dim=0)
            values = gather(value_cache, batch, i, first, length).float().repeat_interleave(group, dim=0)
            scores = torch.einsum("thd,hsd->hts", query[begin:end].float(), keys) * scale
            seen = torch.arange(first, length, device=query.device)[None, :]
            hidden = seen > positions[:, None]
            if batch.window is not None:
                hidden |= seen <= positions[:, None] - batch.window
            weights = torch.softmax(scores.masked_fill(hidden, float("-inf")), dim=-1)
            out[begin:end] = torch.einsum("hts,hsd->thd", weights, values).to(query.dtype)
        return out

    def silu_mul(self, gate_up: torch.Tensor) -> torch.Tensor:
        gate, up = gate_up.chunk(2, dim=-1)
        return F.silu(gate) * up

    def copy_blocks(self, kv_cache: torch.Tensor, copies: list[tuple[int, int]]) -> None:
        for source, destination in copies:
            kv_cache[:, :, destination] = kv_cache[:, :, source]

    def can_fuse(self, shape: DecoderShape) -> bool:
        return False

    def fuse(self, shape: DecoderShape, weights: DecoderWeights, kv_cache: torch.Tensor) -> None:
        return None


def gather(cache: torch.Tensor, batch: AttentionBatch, i: int, first: int, length: int) -> torch.Tensor:
    """Cached rows ``first`` to ``length`` of sequence ``i``: [num_kv_heads, length - first, head_dim]."""
    skipped, blocks = first // batch.block_size, -(-length // batch.block_size)
    table = torch.from_numpy(batch.block_tables[i, skipped:blocks].astype(np.int64)).to(cache.device)
    rows = cache[table].transpose(1, 2).reshape(-1, cache.shape[1], cache.shape[3])
    start = skipped * batch.block_size
    return rows[first - start : length - start].transpose(0, 1)
