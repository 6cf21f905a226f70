// Saving a recording or a snapshot as a file, and opening a recording: by the panel's menu or by dropping the file on it.

import { showDialog } from "./dialog.js";
import { byId, h } from "./dom.js";
import { bytes, plural } from "./format.js";
import { opened, written, writtenSnapshot } from "./recording.js";
import { complain, toast } from "./toasts.js";

const MOST_BYTES = 256 * 1024 * 1024;

export class RecordingFiles {
  /** `panel` has: replay, shown, act.hueOf(owner), act.titleIn(owner); `menu` takes entries (see panel_menu.js). */
  constructor(panel, menu) {
    this.panel = panel;
    const { replay } = panel;
    menu.add(
      { words: "Save a recording…", icon: "export", testid: "kv-save-recording", run: () => this.exportRecording(), fits: () => replay.recorder.loaded && !replay.recording },
      { words: "Save a snapshot", icon: "export", testid: "kv-save-snapshot", run: () => this.exportSnapshot(), fits: () => panel.shown.loaded },
      { words: "Open a recording…", icon: "import", testid: "kv-open-recording", run: () => this.chooseRecording() },
      { words: "Close the recording", icon: "close", testid: "kv-close-recording", run: () => replay.close(), fits: () => replay.recording },
    );
    this.#listen(byId("pc-kv"));
  }

  /** Ask whether titles go along, then save what the page has kept. */
  async exportRecording() {
    const { recorder } = this.panel.replay;
    const titles = await showDialog("Save a recording", (close) => {
      const box = h("input", { type: "checkbox", "data-testid": "kv-with-titles" });
      return [
        h("p", {}, `${plural(recorder.events.length, "event")} of the KV blocks, as a file that can be played back in this panel, without the engine too. It never has any text of the chats.`),
        h("label.check", {}, box, "With the titles of the chats"),
        h("div.dialog-row", {},
          h("button.quiet", { type: "button", onclick: () => close() }, "Cancel"),
          h("button.primary", { type: "button", "data-first": "", "data-testid": "confirm", onclick: () => close({ titles: box.checked }) }, "Save")),
      ];
    });
    if (!titles) return;
    save(written(this.panel.replay.recorder, this.#act(titles.titles)), "kv-recording");
  }

  /** Save the pool as it is shown. */
  exportSnapshot() {
    save(writtenSnapshot(this.panel.shown, this.#act(false)), "kv-snapshot");
  }

  chooseRecording() {
    const field = h("input", { type: "file", accept: ".json,application/json", onchange: () => this.openRecording(field.files[0]) });
    field.click();
  }

  /** Play a file back; what is wrong with it is said, and nothing else changes then. */
  async openRecording(file) {
    if (!file) return;
    try {
      if (file.size > MOST_BYTES) throw new Error(`“${file.name}” is too large to be opened: it has ${bytes(file.size)}, and a recording may have ${bytes(MOST_BYTES)}.`);
      const text = await file.text().catch(() => { throw new Error(`“${file.name}” cannot be read.`); });
      this.panel.replay.open(opened(text, file.name));
    } catch (error) {
      complain(error);
    }
  }

  #act(titles) {
    const { act, shown } = this.panel;
    return { hueOf: this.panel.hueOf, titleOf: (owner) => shown.names?.get(owner) ?? (titles ? act.titleIn(owner) : null) };
  }

  /** A file may be dropped anywhere on the panel. */
  #listen(element) {
    const has = (event) => event.dataTransfer?.types.includes("Files");
    const mark = (on) => element.classList.toggle("dropping", on);
    element.addEventListener("dragover", (event) => {
      if (!has(event)) return;
      event.preventDefault();
      event.dataTransfer.dropEffect = "copy";
      mark(true);
    });
    element.addEventListener("dragleave", (event) => { if (!element.contains(event.relatedTarget)) mark(false); });
    element.addEventListener("drop", (event) => {
      mark(false);
      if (!has(event)) return;
      event.preventDefault();
      this.openRecording(event.dataTransfer.files[0]);
    });
  }
}

function save(content, kind) {
  const day = content.made_at.slice(0, 19).replace(/[T:]/g, "-");
  const address = URL.createObjectURL(new Blob([JSON.stringify(content)], { type: "application/json" }));
  const link = h("a", { href: address, download: `${kind}-${day}.json` });
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 60_000);
  toast(`Saved as ${link.download}; your browser keeps it with its downloads.`);
}
