// Whether single letters do something: the reader may turn them off, for the page, its messages and its dialogs alike.

const OFF = "pagedchat.letters";

export function lettersAreOn() {
  try { return localStorage.getItem(OFF) === null; } catch { return true; }
}

export function setLetters(on) {
  try {
    if (on) localStorage.removeItem(OFF);
    else localStorage.setItem(OFF, "off");
  } catch { /* storage is off */ }
}
