// Which words of two texts differ. Works in time that grows little faster than the texts: large parts that have no word in
// common that is rare in both count as different as a whole.

const TABLE = 250_000; // cells of the table for what lies between two anchors
const WORDS = /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}]|[\p{L}\p{N}\p{M}_]+|[^\s\p{L}\p{N}\p{M}_]/gu;
const SHORT = 2; // words in common between two longer differences that are no more than chance
const LONG = 6;

/** The differences of two texts in order, each [from, to, from, to]: characters of the left one, then of the right one. */
export function differences(left, right) {
  const [a, b] = [wordsOf(left), wordsOf(right)];
  return calmer(gaps(matches(a.map(text), b.map(text)), a.length, b.length)).map(([i, iEnd, j, jEnd]) =>
    [...span(a, i, iEnd, left.length), ...span(b, j, jEnd, right.length)]);
}

/** Pairs of places, growing on both sides, of equal things in two lists: a common sequence, near the longest there is. */
export function matches(a, b) {
  const pairs = [];
  const open = [[0, a.length, 0, b.length]];
  while (open.length) {
    let [i, iEnd, j, jEnd] = open.pop();
    while (i < iEnd && j < jEnd && a[i] === b[j]) pairs.push([i++, j++]);
    const tail = [];
    while (i < iEnd && j < jEnd && a[iEnd - 1] === b[jEnd - 1]) tail.push([--iEnd, --jEnd]);
    if (i < iEnd && j < jEnd) {
      if ((iEnd - i) * (jEnd - j) <= TABLE) pairs.push(...longest(a, i, iEnd, b, j, jEnd));
      else open.push(...between(anchors(a, i, iEnd, b, j, jEnd), i, iEnd, j, jEnd, pairs));
    }
    pairs.push(...tail.reverse());
  }
  return pairs.sort((one, other) => one[0] - other[0]);
}

/** The words of a text, [word, from, to]; each sign is one, and each character of a script without spaces. */
export function wordsOf(string) {
  return Array.from(string.matchAll(WORDS), (found) => [found[0], found.index, found.index + found[0].length]);
}

function text([word]) {
  return word;
}

/** The characters from the first to the last of some words; where there are none, the place between their neighbours. */
function span(words, from, to, end) {
  if (from < to) return [words[from][1], words[to - 1][2]];
  const place = from > 0 ? words[from - 1][2] : Math.min(words[0]?.[1] ?? end, end);
  return [place, place];
}

/** What lies between the matches. */
function gaps(pairs, aEnd, bEnd) {
  const found = [];
  let [i, j] = [0, 0];
  for (const [p, q] of [...pairs, [aEnd, bEnd]]) {
    if (p > i || q > j) found.push([i, p, j, q]);
    [i, j] = [p + 1, q + 1];
  }
  return found;
}

/** Differences with next to nothing between them become one. */
function calmer(found) {
  const result = [];
  for (const gap of found) {
    const last = result.at(-1);
    const size = (one) => one[1] - one[0] + one[3] - one[2];
    if (last && gap[0] - last[1] <= SHORT && size(last) >= LONG && size(gap) >= LONG) [last[1], last[3]] = [gap[1], gap[3]];
    else result.push(gap);
  }
  return result;
}

/** Longest common sequence by the table of its lengths. */
function longest(a, i0, iEnd, b, j0, jEnd) {
  const [rows, width] = [iEnd - i0, jEnd - j0 + 1];
  const best = new Uint32Array((rows + 1) * width);
  for (let i = rows - 1; i >= 0; i--) {
    for (let j = width - 2; j >= 0; j--) {
      best[i * width + j] = a[i0 + i] === b[j0 + j] ? best[(i + 1) * width + j + 1] + 1
        : Math.max(best[(i + 1) * width + j], best[i * width + j + 1]);
    }
  }
  const pairs = [];
  for (let i = 0, j = 0; i < rows && j < width - 1;) {
    if (a[i0 + i] === b[j0 + j]) pairs.push([i0 + i++, j0 + j++]);
    else if (best[(i + 1) * width + j] >= best[i * width + j + 1]) i++;
    else j++;
  }
  return pairs;
}

/** Places of what stands once on each side, as many as come in the same order (patience diff). */
function anchors(a, i, iEnd, b, j, jEnd) {
  const seen = new Map();
  const note = (list, from, to, side) => {
    for (let at = from; at < to; at++) {
      const one = seen.get(list[at]) ?? [0, 0, 0, 0];
      one[side] += 1;
      one[side + 2] = at;
      seen.set(list[at], one);
    }
  };
  note(a, i, iEnd, 0);
  note(b, j, jEnd, 1);
  const once = [...seen.values()].filter(([left, right]) => left === 1 && right === 1).map(([, , p, q]) => [p, q]);
  return rising(once.sort((one, other) => one[0] - other[0]));
}

/** The longest part of some pairs that grows on the right side, too. */
function rising(pairs) {
  const [ends, before] = [[], []]; // of each length: the pair that ends lowest
  pairs.forEach(([, q], at) => {
    let [low, high] = [0, ends.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (pairs[ends[middle]][1] < q) low = middle + 1;
      else high = middle;
    }
    before[at] = low ? ends[low - 1] : -1;
    ends[low] = at;
  });
  const found = [];
  for (let at = ends.at(-1) ?? -1; at >= 0; at = before[at]) found.push(pairs[at]);
  return found.reverse();
}

/** The parts between some anchors, which become pairs themselves. */
function between(found, i, iEnd, j, jEnd, pairs) {
  const parts = [];
  for (const [p, q] of found) {
    pairs.push([p, q]);
    parts.push([i, p, j, q]);
    [i, j] = [p + 1, q + 1];
  }
  if (found.length) parts.push([i, iEnd, j, jEnd]);
  return parts;
}
