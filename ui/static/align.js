// Paragraphs of several texts beside each other: those that are the same or alike in one row.

import { matches } from "./words.js";

const ALIKE = 0.3; // share of the words of two paragraphs that both have, from which on one is a version of the other
const TABLE = 40_000; // pairs of paragraphs that are weighed between two that are the same
const LONGEST = 20_000; // characters of a paragraph that are weighed

/** Rows of one paragraph (or null) for each text; the first text is the one that the others are held against. */
export function aligned(texts) {
  const [base, ...rest] = texts;
  const others = rest.map((text) => pairs(base, text));
  const rows = [];
  for (let at = 0; at <= base.length; at++) {
    const extra = others.map((one) => one.extra[at] ?? []);
    for (let more = 0; more < Math.max(0, ...extra.map((one) => one.length)); more++) {
      rows.push([null, ...extra.map((one, k) => rest[k][one[more]] ?? null)]);
    }
    if (at < base.length) rows.push([base[at], ...others.map((one, k) => rest[k][one.beside[at]] ?? null)]);
  }
  return rows;
}

/** {beside: place in `b` of each of `a`, extra: places in `b` that come before one of `a` and are beside none}. */
function pairs(a, b) {
  const same = matches(a.map(({ text }) => text), b.map(({ text }) => text));
  const [beside, extra] = [new Array(a.length), {}];
  let [i, j] = [0, 0];
  for (const [p, q] of [...same, [a.length, b.length]]) {
    weigh(a, i, p, b, j, q).forEach(([left, right]) => {
      if (left.side === "a") beside[left.at] = right ?? -1;
      else (extra[left.at] ??= []).push(right);
    });
    if (p < a.length) beside[p] = q;
    [i, j] = [p + 1, q + 1];
  }
  return { beside, extra };
}

/** Pairs between two that are the same: what is alike goes together, what is left over in order. */
function weigh(a, i, iEnd, b, j, jEnd) {
  const found = [];
  const together = (p, q) => {
    while (i < p && j < q) found.push([{ side: "a", at: i++ }, j++]);
    while (i < p) found.push([{ side: "a", at: i++ }, undefined]);
    while (j < q) found.push([{ side: "b", at: p }, j++]);
  };
  for (const [p, q] of likest(a, i, iEnd, b, j, jEnd)) {
    together(p, q);
    found.push([{ side: "a", at: i++ }, j++]);
  }
  together(iEnd, jEnd);
  return found;
}

/** Pairs in order that are as much alike, all together, as they can be. */
function likest(a, i0, iEnd, b, j0, jEnd) {
  const [rows, width] = [iEnd - i0, jEnd - j0 + 1];
  if (!rows || width === 1 || rows * width > TABLE) return [];
  const [left, right] = [a.slice(i0, iEnd).map(bag), b.slice(j0, jEnd).map(bag)];
  const alike = (i, j) => { const share = likeness(left[i], right[j]); return share >= ALIKE ? share : 0; };
  const best = new Float32Array((rows + 1) * width);
  const shares = new Float32Array(rows * width);
  for (let i = rows - 1; i >= 0; i--) {
    for (let j = width - 2; j >= 0; j--) {
      const share = (shares[i * width + j] = alike(i, j));
      best[i * width + j] = Math.max(best[(i + 1) * width + j], best[i * width + j + 1], share && share + best[(i + 1) * width + j + 1]);
    }
  }
  const found = [];
  for (let i = 0, j = 0; i < rows && j < width - 1;) {
    const share = shares[i * width + j];
    if (share && best[i * width + j] === Math.fround(share + best[(i + 1) * width + j + 1])) found.push([i0 + i++, j0 + j++]);
    else if (best[i * width + j] === best[(i + 1) * width + j]) i++;
    else j++;
  }
  return found;
}

/** How often each word stands in a paragraph. */
function bag({ text }) {
  const words = new Map();
  let total = 0;
  for (const [word] of text.slice(0, LONGEST).toLowerCase().matchAll(/[\p{L}\p{N}]+/gu)) {
    words.set(word, (words.get(word) ?? 0) + 1);
    total += 1;
  }
  return { words, total };
}

/** Share of the words of both that both have: 0 to 1. */
function likeness(one, other) {
  let both = 0;
  for (const [word, times] of one.words) both += Math.min(times, other.words.get(word) ?? 0);
  return (2 * both) / Math.max(1, one.total + other.total);
}

/** Whether two paragraphs are versions of one. */
export function alike(one, other) {
  return likeness(bag(one), bag(other)) >= ALIKE;
}
