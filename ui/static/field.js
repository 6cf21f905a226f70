// A field that is as high as its text. Layout of text that finds its own direction takes time with the square of its
// length, so a very long one runs in the page's direction.

const LONG = 50_000; // characters

/** Tell the styles whether the text of an element is that long. */
export function markLong(element, text) {
  element.classList.toggle("long", text.length > LONG);
}

/** Make a textarea as high as its text, but for what is over `tallest` pixels, plus `more`. */
export function fit(field, tallest, more = 0) {
  markLong(field, field.value);
  field.style.height = "auto";
  field.style.height = `${Math.min(field.scrollHeight + more, tallest)}px`;
}
