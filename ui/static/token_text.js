// How a token is written where it stands alone: blanks and line breaks are made visible, and said aloud.

const SEEN = { " ": "␣", "\n": "↵", "\t": "⇥", "\r": "␍" };
const SAID = { " ": "space", "\n": "line break", "\t": "tab", "\r": "carriage return" };

/** Text with a sign for each blank at its ends, and for every line break. */
export function visible(text) {
  const ends = text.replace(/^ +| +$/g, (blanks) => SEEN[" "].repeat(blanks.length));
  return ends.replace(/[\n\t\r]/g, (one) => SEEN[one]) || "∅";
}

/** For a screen reader: which token this is. */
export function spoken({ text, control }) {
  if (control) return `control token ${text}`;
  if (!text) return "a token without text";
  return text.trim() ? `“${text.trim()}”` : [...text].map((one) => SAID[one] ?? one).join(", ");
}
