// Which words of two texts differ.

const LARGEST = 4_000_000; // cells of the table; larger texts are compared at their ends only

/** Two lists of [piece, whether the other text lacks it]. */
export function differingWords(left, right) {
  const [a, b] = [pieces(left), pieces(right)];
  let start = 0;
  while (start < a.length && start < b.length && a[start] === b[start]) start++;
  let end = 0;
  while (end < a.length - start && end < b.length - start && a.at(-1 - end) === b.at(-1 - end)) end++;
  const [ours, theirs] = [a.slice(start, a.length - end), b.slice(start, b.length - end)];
  const [only, onlyThere] = ours.length * theirs.length > LARGEST ? [ours.map(() => true), theirs.map(() => true)] : unmatched(ours, theirs);
  const whole = (words, inner, flags) => joined([
    ...words.slice(0, start).map((one) => [one, false]), ...inner.map((one, at) => [one, flags[at]]),
    ...words.slice(words.length - end).map((one) => [one, false])]);
  return [whole(a, ours, only), whole(b, theirs, onlyThere)];
}

/** Words, each with the blanks after it. */
function pieces(text) {
  return text.match(/\s*\S+|\s+$/g) ?? [];
}

/** For each word of both lists, whether it is outside of their longest common sequence. */
function unmatched(a, b) {
  const width = b.length + 1;
  const best = new Uint32Array((a.length + 1) * width);
  for (let i = a.length - 1; i >= 0; i--) {
    for (let j = b.length - 1; j >= 0; j--) {
      best[i * width + j] = a[i] === b[j] ? best[(i + 1) * width + j + 1] + 1
        : Math.max(best[(i + 1) * width + j], best[i * width + j + 1]);
    }
  }
  const [left, right] = [a.map(() => true), b.map(() => true)];
  for (let i = 0, j = 0; i < a.length && j < b.length;) {
    if (a[i] === b[j]) left[i++] = right[j++] = false;
    else if (best[(i + 1) * width + j] >= best[i * width + j + 1]) i++;
    else j++;
  }
  return [left, right];
}

function joined(parts) {
  const result = [];
  for (const [text, differs] of parts) {
    if (result.at(-1)?.[1] === differs) result.at(-1)[0] += text;
    else result.push([text, differs]);
  }
  return result;
}
