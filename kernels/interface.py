"""What every kernel backend is given and promises. Backends: `reference`, `cpu`, `triton`."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass
class AttentionBatch:
    """The ragged batch of one engine step.

    Sequence i owns the token rows ``query_start[i]:query_start[i + 1]``; they are its newest tokens.

    Attributes:
        query_start: int32 [num_seqs + 1], first row of each sequence, then the number of rows.
        seq_lens: int32 [num_seqs], tokens of each sequence in the cache once this step's are written.
        block_tables: int32 [num_seqs, max_blocks], logical to physical block; entries past the end are 0.
        positions: int32 [num_tokens], position of each row in its sequence.
        slot_mapping: int64 [num_tokens], ``physical block * block_size + offset`` where each row's KV goes.
        block_size: tokens per block.
        kv_group: index of the KV group these tables belong to.
    """

    query_start: np.ndarray
    seq_lens: np.ndarray
    block_tables: np.ndarray
    positions: np.ndarray
    slot_mapping: np.ndarray
    block_size: int
    kv_group: int = 0

    @property
    def num_seqs(self) -> int:
        """Sequences in the batch."""
        return len(self.seq_lens)

    @property
    def num_tokens(self) -> int:
        """Token rows in the batch."""
        return len(self.positions)
