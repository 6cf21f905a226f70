// Keys that work wherever the focus is.

export function listenToKeys(page) {
  addEventListener("keydown", (event) => {
    if (event.isComposing) return;
    const held = event.ctrlKey || event.metaKey;
    const key = event.key.toLowerCase();
    if (held && key === "k") {
      event.preventDefault();
      page.create();
    } else if (held && event.shiftKey && key === "f") {
      event.preventDefault();
      page.layout.showSidebar();
      page.sidebar.search.focus();
    } else if (key === "escape" && !event.defaultPrevented && !page.settings.isOpen) {
      if (!page.layout.closeDrawers()) page.turns.stop();
    }
  });
}
