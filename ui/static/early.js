// Runs before anything else on the page, so it is short.

(() => {
  let choice = null;
  try { choice = localStorage.getItem("pagedchat.theme"); } catch { /* storage is off */ }
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  document.documentElement.dataset.theme = choice ?? (dark ? "dark" : "light");

  // Gradio's start-up spinner counts tenths of seconds in a loop that goes on after the spinner is gone. No widget of
  // this page shows that counter, so its loop is never begun.
  const real = window.requestAnimationFrame;
  const counts = /performance\.now\(\).{0,40}\/\s*1e3/;
  window.requestAnimationFrame = (work) => (counts.test(Function.prototype.toString.call(work)) ? 0 : real(work));
})();
