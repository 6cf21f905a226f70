"""Drawing tokens for many rows at once: temperature, top-k, top-p, min-p, then one random number a row.

Knows logits and numbers, no requests. What a row gets depends on its own logits and controls only, bit for bit,
whatever rows stand beside it: sums that another row could lengthen are taken one after another (``cumsum``).

A row's weights are ``exp((logit - largest) / temperature)``; the largest is 1. The vocabulary is never sorted as a
whole, and gets a weight as a whole only where that is needed:

    few      a logit is known below which no token can survive: only those above get a weight (`_bars`)
    sorted   all get one, for their sum; the likeliest are sorted, as many as the filters need
    whole    all get one; sums of 256 each, then the place inside one such part
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

PART = 256
# Tokens lighter than this share of all, even all together, change no float32 sum.
NEGLIGIBLE = 2.0**-24
# Below this temperature so few tokens matter at all that looking for them is cheaper than an exp for each.
COLD = 0.45
FLOORS = (1e-4, 1e-6)
TOP_K_OFF = 2**62


@dataclass
class Filters:
    """Controls of some rows, each an array [rows].

    Attributes:
        temperature: float32, above 0.
        top_k: int64, at least 1; `TOP_K_OFF` is off.
        top_p: float64; 1 is off.
        min_p: float32; 0 is off.
    """

    temperature: np.ndarray
    top_k: np.ndarray
    top_p: np.ndarray
    min_p: np.ndarray

    def take(self, rows: np.ndarray) -> Filters:
        """Those of some rows."""
        return Filters(self.temperature[rows], self.top_k[rows], self.top_p[rows], self.min_p[rows])


@dataclass
class Candidates:
    """The tokens that come into question, each row's side by side and filled up with weight 0.

    Attributes:
        weights: float32 [rows, most].
        ids: int64 [rows, most], ascending.
        total: float64 [rows], weight of all tokens that matter, candidates or not.
    """

    weights: np.ndarray
    ids: np.ndarray
    total: np.ndarray

    def take(self, rows: np.ndarray) -> Candidates:
        """Those of some rows."""
        return Candidates(self.weights[rows], self.ids[rows], self.total[rows])


class Drawer:
    """Draws tokens; keeps its largest work array from step to step, for new memory costs as much as the sums."""

    def __init__(self) -> None:
        self._scratch = np.empty(0, np.float32)

    def draw(self, logits: np.ndarray, peaks: np.ndarray, filters: Filters, numbers: np.ndarray) -> np.ndarray:
        """One token for each row.

        Args:
            logits: float32 [rows, vocab].
            peaks: float32 [rows], each row's largest logit, a finite number.
            filters: controls.
            numbers: float64 [rows], in [0, 1): which of the likely ones it becomes.

        Returns:
            int64 [rows].
        """
        chosen = np.empty(len(logits), np.int64)
        bars = _bars(logits, peaks, filters)
        few, filtered = np.isfinite(bars), (filters.top_p < 1) | (filters.top_k < TOP_K_OFF)
        ways = ((few, self._few), (~few & filtered, self._sorted), (~few & ~filtered, self._whole))
        for places, way in ((np.flatnonzero(rows), way) for rows, way in ways):
            if len(places) == len(logits):
                return way(logits, peaks, bars, filters, numbers)
            if len(places):
                part = (logits[places], peaks[places], bars[places], filters.take(places), numbers[places])
                chosen[places] = way(*part)
        return chosen

    def _few(
        self, logits: np.ndarray, peaks: np.ndarray, bars: np.ndarray, filters: Filters, numbers: np.ndarray
    ) -> np.ndarray:
        found = _candidates(logits >= bars[:, None], logits, -np.inf)
        found.weights = np.exp((found.weights - peaks[:, None]) / filters.temperature[:, None])
        found.total = _running_sum(found.weights)[:, -1]
        return _pick(found, filters, numbers)

    def _sorted(
        self, logits: np.ndarray, peaks: np.ndarray, bars: np.ndarray, filters: Filters, numbers: np.ndarray
    ) -> np.ndarray:
        weights = self._weights(logits, peaks, filters.temperature)
        total = _running_sum(_in_parts(weights).sum(axis=2))[:, -1]
        chosen, left = np.empty(len(logits), np.int64), np.arange(len(logits))
        for floor in (*FLOORS, NEGLIGIBLE / logits.shape[1]):
            rows = weights if len(left) == len(weights) else weights[left]
            found = _candidates(rows >= (floor * total[left]).astype(np.float32)[:, None], rows, 0)
            found.total, now = total[left], filters.take(left)
            by_mass = _running_sum(found.weights)[:, -1] >= now.top_p * found.total
            by_count = np.count_nonzero(found.weights, axis=1) >= now.top_k
            enough = np.where(now.top_k < TOP_K_OFF, by_count, by_mass) & (found.weights[:, 0] > 0)
            if floor not in FLOORS:
                enough[:] = True
            if enough.any():
                chosen[left[enough]] = _pick(found.take(enough), now.take(enough), numbers[left[enough]])
            left = left[~enough]
            if not len(left):
                break
        return chosen

    def _whole(
        self, logits: np.ndarray, peaks: np.ndarray, bars: np.ndarray, filters: Filters, numbers: np.ndarray
    ) -> np.ndarray:
        """The token where the running sum of a row's weights passes that row's share of it."""
        weights = self._weights(logits, peaks, filters.temperature)
        parts = _in_parts(weights)
        upto = _running_sum(parts.sum(axis=2))
        goal = np.minimum(numbers * upto[:, -1], np.nextafter(upto[:, -1], 0))
        part = np.count_nonzero(upto <= goal[:, None], axis=1)
        rows = np.arange(len(weights))
        inside = _running_sum(parts[rows, part])
        rest = goal - np.where(part > 0, upto[rows, part - 1], 0.0)
        rest = np.minimum(rest, np.nextafter(inside[:, -1], 0))  # two ways of summing may differ in the last bit
        return part * PART + np.count_nonzero(inside <= rest[:, None], axis=1)

    def _weights(self, logits: np.ndarray, peaks: np.ndarray, temperature: np.ndarray) -> np.ndarray:
        """float32 [rows, vocab filled up with 0 to whole parts]; good until the next call."""
        rows, vocab = logits.shape
        width = -(-vocab // PART) * PART
        if self._scratch.size < rows * width:
            self._scratch = np.empty(rows * width, np.float32)
        weights = self._scratch[: rows * width].reshape(rows, width)
        inside = weights[:, :vocab]
        np.subtract(logits, peaks[:, None], out=inside)
        if (temperature != 1).any():
            np.divide(inside, temperature[:, None], out=inside)
        np.exp(inside, out=inside)
        weights[:, vocab:] = 0
        return weights


def likeliest(logits: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """The ``count`` largest logits of each row, largest first, the lower id first where two are equal.

    Args:
        logits: float32 [rows, vocab].
        count: from 1 to vocab.

    Returns:
        ids int64 [rows, count], and their logits.
    """
    parts = logits.shape[1] // PART
    if count <= parts // 2:
        tops = np.sort(_parts_of(logits, parts).max(axis=2), axis=1)
        found = _candidates(logits >= tops[:, -count][:, None], logits, -np.inf)
        values, ids = found.weights, found.ids
    else:
        values, ids = logits, np.broadcast_to(np.arange(logits.shape[1]), logits.shape)
    order = np.argsort(-values, axis=1, kind="stable")[:, :count]
    return np.take_along_axis(ids, order, axis=1), np.take_along_axis(values, order, axis=1)


def _bars(logits: np.ndarray, peaks: np.ndarray, filters: Filters) -> np.ndarray:
    """float32 [rows]: the logit that every surviving token has at least; -inf where none can be told cheaply.

    For top-k it is the k-th largest of the parts' maxima, which k tokens reach.
    """
    bars = np.full(len(logits), -np.inf, np.float32)
    parts = logits.shape[1] // PART
    counted = filters.top_k <= parts // 2
    if counted.any():
        tops = _parts_of(logits, parts).max(axis=2)[counted]
        tops.sort(axis=1)
        bars[counted] = tops[np.arange(len(tops)), parts - filters.top_k[counted]]
    by_min_p = (filters.min_p > 0) & (filters.top_p >= 1)
    if by_min_p.any():
        reach = filters.temperature * np.log(filters.min_p, where=by_min_p, out=np.zeros_like(peaks))
        bars[by_min_p] = np.maximum(bars, peaks + reach * np.float32(1.0001) - np.float32(1e-4))[by_min_p]
    cold = filters.temperature < COLD
    reach = filters.temperature * np.float32(np.log(NEGLIGIBLE / logits.shape[1]))
    bars[cold] = np.maximum(bars, peaks + reach)[cold]
    return bars


def _candidates(mask: np.ndarray, values: np.ndarray, fill: float) -> Candidates:
    """Where ``mask`` [rows, vocab] holds, with ``values`` for weights; ``fill`` where a row has fewer than others."""
    rows, vocab = mask.shape
    places = np.flatnonzero(mask)
    starts = np.searchsorted(places, np.arange(rows + 1) * vocab)
    counts = np.diff(starts)
    row = np.repeat(np.arange(rows), counts)
    target = np.arange(len(places)) - starts[row]
    ids = places - row * vocab
    width = max(1, int(counts.max()))
    weights, where = np.full((rows, width), fill, np.float32), np.zeros((rows, width), np.int64)
    weights[row, target] = values[row, ids]
    where[row, target] = ids
    return Candidates(weights, where, np.empty(0))


def _pick(found: Candidates, filters: Filters, numbers: np.ndarray) -> np.ndarray:
    """Top-k, top-p, min-p, in this order, as transformers' warpers have them; then the draw."""
    order = np.argsort(-found.weights, axis=1, kind="stable")
    weights = np.take_along_axis(found.weights, order, axis=1)
    rows = np.arange(len(weights))
    smallest = weights[rows, np.minimum(filters.top_k, weights.shape[1]) - 1]
    keep = (weights >= smallest[:, None]) & (weights > 0)
    kept = _running_sum(weights * keep)
    mass = np.where(filters.top_k == TOP_K_OFF, found.total, kept[:, -1])
    keep &= (kept - weights < (filters.top_p * mass)[:, None]) | (filters.top_p >= 1)[:, None]
    keep &= weights >= filters.min_p[:, None]
    keep[:, 0] = True
    upto = _running_sum(weights * keep)
    place = np.count_nonzero(upto <= (numbers * upto[:, -1])[:, None], axis=1)
    place = np.minimum(place, np.count_nonzero(keep, axis=1) - 1)
    return found.ids[rows, order[rows, place]]


def _running_sum(values: np.ndarray) -> np.ndarray:
    """float64, along each row from left to right, so that zeros at its end change nothing."""
    return values.cumsum(axis=1, dtype=np.float64)


def _in_parts(weights: np.ndarray) -> np.ndarray:
    """A view [rows, parts, 256]."""
    return weights.reshape(len(weights), -1, PART)


def _parts_of(logits: np.ndarray, parts: int) -> np.ndarray:
    """The first ``parts`` whole parts as a view [rows, parts, 256], whatever lies between the rows."""
    row, one = logits.strides
    return np.lib.stride_tricks.as_strided(logits, (len(logits), parts, PART), (row, one * PART, one), writeable=False)
