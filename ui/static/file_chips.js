// The files that go with the next message: chosen, dropped or pasted; each a chip that says what will be sent of it.

import { byId, h, icon, iconButton } from "./dom.js";
import { bytes, plural } from "./format.js";
import { complain, toast } from "./toasts.js";

const ROUTE = "/ui/files";
const LONG_CHARACTERS = 2_000;
const LONG_LINES = 40;
const PASTED = "Pasted text.txt";

export class FileChips {
  /** `act` has: call(op, fields), session() -> id or null, begin() -> promise of an id, changed(), insert(text, session). */
  constructor(act) {
    this.act = act;
    this.items = []; // {id, name, size, tokens, problem, how, work, pasted}; without an id while it is on its way
    this.queued = new Set(); // ids of files that go with messages that wait
    this.asked = 0; // goes up with each question what is there, and with all that makes an answer to it out of date
    this.element = h("ul.chips", { "aria-label": "Files for this message", hidden: true });
    this.input = h("input", { type: "file", multiple: true, hidden: true, "data-testid": "file-input",
      onchange: () => { this.add([...this.input.files]); this.input.value = ""; } });
    this.button = h("span.attach", {}, iconButton("clip", "Attach files", () => this.input.click(), { "data-testid": "attach" }), this.input);
    this.drop = h("div.drop", { hidden: true, "data-testid": "drop" }, h("div", {}, icon("clip", 22), h("b", {}, "Drop files to attach them"),
      h("span", {}, "Text, Markdown, code, PDF")));
  }

  /** Ids of what can be sent. */
  get ready() {
    return this.items.filter((one) => one.id && !one.problem).map((one) => one.id);
  }

  /** Ids of those that cannot be sent, and say so. */
  get refused() {
    return this.items.filter((one) => one.id && one.problem).map((one) => one.id);
  }

  listen(field) {
    const main = byId("pc-foot").parentElement;
    main.append(this.drop);
    field.addEventListener("paste", (event) => this.#paste(event));
    let depth = 0;
    const over = (event) => [...(event.dataTransfer?.types ?? [])].includes("Files");
    const show = (on) => { depth = on ? depth : 0; this.drop.hidden = !on; };
    main.addEventListener("dragenter", (event) => { if (over(event)) { depth += 1; show(true); } });
    main.addEventListener("dragleave", (event) => { if (over(event) && --depth <= 0) show(false); });
    for (const name of ["dragover", "drop"]) addEventListener(name, (event) => { if (over(event)) event.preventDefault(); });
    addEventListener("drop", () => show(false));
    addEventListener("dragend", () => show(false));
    main.addEventListener("drop", (event) => this.add([...(event.dataTransfer?.files ?? [])]));
  }

  #paste(event) {
    const files = [...(event.clipboardData?.files ?? [])];
    const text = event.clipboardData?.getData("text/plain") ?? "";
    if (!text && files.length) {
      event.preventDefault();
      return this.add(files);
    }
    if (text.length <= LONG_CHARACTERS && text.split("\n").length <= LONG_LINES) return undefined;
    event.preventDefault();
    return this.add([new File([text], PASTED, { type: "text/plain" })], text);
  }

  /** Another chat is shown. */
  open(session) {
    this.items = [];
    this.#draw();
    if (session) this.refresh();
  }

  /** What the server has for the next message of this chat. What is on its way stays. Answers do not come in the order of
   * their questions, and none knows of what has happened to the chips since: only the newest counts. */
  async refresh() {
    const session = this.act.session();
    if (!session) return;
    const asked = (this.asked += 1);
    const found = await this.act.call("files", { session }).catch(() => null);
    if (!found || asked !== this.asked || session !== this.act.session()) return;
    const known = new Map(this.items.map((one) => [one.id, one]));
    const coming = this.items.filter((one) => !one.id);
    const comes = (one) => !known.has(one.id) && coming.some(({ name, size }) => name === one.name && size === one.size);
    const there = found.filter((one) => !this.queued.has(one.id) && !comes(one));
    this.items = [...there.map((one) => ({ ...known.get(one.id), ...one, how: known.get(one.id)?.how ?? one.how })), ...coming];
    this.#draw();
    this.act.changed();
  }

  /** These files go with messages that wait, and so not with the next one. */
  setQueued(ids) {
    const before = [...this.queued].sort().join();
    this.queued = new Set(ids);
    if (before !== [...this.queued].sort().join()) this.refresh();
  }

  async add(files, pasted = null) {
    if (!files.length) return;
    const session = this.act.session();
    const items = files.map((file) => ({ name: file.name || "file", size: file.size, pasted, session }));
    this.items.push(...items);
    const begun = session ?? this.act.begin();
    items.forEach((item, at) => { item.work = this.#send(item, files[at], begun); });
    this.#draw();
    await Promise.all(items.map((item) => item.work));
  }

  /** `begun`: the chat, or a promise of the one that begins with this file. */
  async #send(item, file, begun) {
    try {
      const session = (item.session = await begun);
      if (!this.items.includes(item) && !item.removed) this.items.push(item); // the chat has begun meanwhile
      this.#draw();
      const address = `${ROUTE}?session=${encodeURIComponent(session)}&name=${encodeURIComponent(item.name)}`;
      const answer = await fetch(address, { method: "POST", body: file, headers: { "content-type": file.type || "application/octet-stream" } })
        .catch(() => { throw new Error(`“${item.name}” could not be sent; is pagedchat still running?`); });
      const said = await answer.json().catch(() => ({}));
      if (!answer.ok) throw new Error(said.error?.message ?? said.detail ?? `“${item.name}” could not be read.`);
      this.items = this.items.filter((one) => one === item || one.id !== said.id);
      Object.assign(item, said);
      if (item.removed) await this.act.call("remove_file", { file: item.id });
    } catch (error) {
      this.#failed(item, error);
    }
    item.work = null;
    this.#draw();
    this.act.changed();
    this.refresh(); // one that was asked for before does not know of this file
  }

  /** Nothing that was pasted is lost: it goes into the message then, that of the chat where it was pasted. */
  #failed(item, error) {
    this.items = this.items.filter((one) => one !== item);
    this.#draw();
    if (item.removed) return;
    if (item.pasted !== null) this.act.insert(item.pasted, item.session);
    complain(error);
  }

  /** What a probe says of them: [{id, how}]. */
  told(files) {
    for (const { id, how } of files ?? []) {
      const item = this.items.find((one) => one.id === id);
      if (item) item.how = how;
    }
    if (files?.length) this.#draw();
  }

  /** Wait for what is on its way, and for the chat that begins with it; resolves with that chat, and with the ids of all
   * that can be sent in the one that is shown then. */
  async settled() {
    const [shown, coming] = [this.act.session(), this.items.filter((one) => one.work)];
    await Promise.all(coming.map((one) => one.work));
    return { session: shown ?? coming[0]?.session ?? null, files: this.ready };
  }

  /** A message has taken these along; it went without those that had been `refused` before, which do not come back. */
  sent(ids, refused) {
    if (!this.items.length) return;
    this.items = this.items.filter((one) => !ids.includes(one.id) && !refused.includes(one.id));
    this.#draw();
    this.asked += 1;
    Promise.all(refused.map((file) => this.act.call("remove_file", { file }).catch(complain))).then(() => this.refresh());
  }

  async #remove(item) {
    this.items = this.items.filter((one) => one !== item);
    item.removed = true; // what is on its way is removed once it is there
    this.asked += 1;
    this.#draw();
    this.act.changed();
    if (!item.id) return;
    const session = this.act.session();
    try {
      await this.act.call("remove_file", { file: item.id });
      const back = () => this.act.call("remove_file", { file: item.id, on: true }).then(() => this.refresh(), complain);
      toast(`Removed “${item.name}”.`, { action: "Undo", run: back, chat: session });
    } catch (error) {
      complain(error);
      this.refresh();
    }
  }

  #draw() {
    this.element.hidden = !this.items.length;
    this.element.replaceChildren(...this.items.map((item) => this.#chip(item)));
  }

  #chip(item) {
    const state = item.problem ? "refused" : item.id ? "ready" : "reading";
    const put = () => { this.#remove(item); this.act.insert(item.pasted, this.act.session()); };
    return h("li.chip", { "data-testid": "file-chip", "data-state": state },
      icon(item.problem ? "warn" : "file"),
      h("span.chip-words", {}, h("b", { title: item.name }, item.name), h("small", {}, this.#words(item))),
      item.pasted !== null && item.pasted !== undefined && item.id
        ? h("button.link", { type: "button", onclick: put }, "Put it into the message instead") : null,
      iconButton("close", `Remove ${item.name}`, () => this.#remove(item)));
  }

  #words({ id, size, tokens, problem, how }) {
    if (problem) return problem;
    if (!id) return `${bytes(size)} · reading…`;
    return [bytes(size), how ?? (tokens ? plural(tokens, "token") : "")].filter(Boolean).join(" · ");
  }
}
