// Light or dark: the system's choice until the reader makes one.

const KEY = "pagedchat.theme";
const system = matchMedia("(prefers-color-scheme: dark)");
let choice = stored();

function stored() {
  try { return localStorage.getItem(KEY); } catch { return null; }
}

function keep(value) {
  try {
    if (value) localStorage.setItem(KEY, value);
    else localStorage.removeItem(KEY);
  } catch { /* storage is off: the choice lasts until the page is closed */ }
}

export function isDark() {
  return (choice ?? (system.matches ? "dark" : "light")) === "dark";
}

function apply() {
  document.documentElement.dataset.theme = isDark() ? "dark" : "light";
  document.body.classList.toggle("dark", isDark());
  dispatchEvent(new Event("pagedchat:theme"));
}

export function toggleTheme() {
  const next = isDark() ? "light" : "dark";
  choice = next === (system.matches ? "dark" : "light") ? null : next;
  keep(choice);
  apply();
}

export function startTheme() {
  apply();
  // The widgets' own code follows the system too; ours has the last word.
  system.addEventListener("change", () => setTimeout(apply));
  addEventListener("storage", (event) => { if (event.key === KEY) { choice = stored(); apply(); } });
}
