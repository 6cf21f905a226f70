// Where the data is and what takes up how much: measured on the server when this section is opened; copies by hand, and
// what may be deleted.

import { confirmed } from "./dialog.js";
import { h } from "./dom.js";
import { exportAddress, FORMATS, sayExported } from "./export_files.js";
import { bytes, plural } from "./format.js";
import { button, copyable, facts, heading, momentOf, page } from "./settings_parts.js";

const KINDS = { daily: "of the day", version: "before an update", hand: "by hand", replaced: "put aside by a restore" };

export function storageSection(settings) {
  const place = h("div.set-storage", { "data-testid": "storage" });
  const element = page("storage", "All of it lies in folders of this computer that you can copy, move or delete.", place);
  const storage = new Storage(settings, place);
  return { id: "storage", title: "Storage", icon: "archive", element, fill: () => storage.load() };
}

class Storage {
  constructor(settings, place) {
    this.settings = settings;
    this.place = place;
    this.busy = false;
  }

  #call(op, fields) {
    return this.settings.act.page.socket.call(op, fields);
  }

  /** Run what changes something; meanwhile nothing else begins. Resolves with undefined if it went wrong. */
  async #do(words, op, fields = {}) {
    if (this.busy) return undefined;
    this.busy = true;
    this.settings.say(words);
    try {
      return await this.#call(op, fields);
    } catch (error) {
      this.settings.say(error.message, true);
      return undefined;
    } finally {
      this.busy = false;
    }
  }

  async load() {
    if (!this.place.children.length) this.place.replaceChildren(h("p.set-wait", {}, "Measuring …"));
    try {
      this.#draw(await this.#call("storage"));
    } catch (error) {
      this.place.replaceChildren(h("p.problem", {}, error.message), button("Try again", () => this.load()));
    }
  }

  #draw(told) {
    this.told = told;
    this.place.replaceChildren(
      ...this.#overview(told), ...this.#largest(told), ...this.#copies(told.copies), ...this.#trash(told.trash),
      ...(told.models ? this.#models(told) : []), ...(told.caches ? this.#caches(told.caches) : []), ...this.#exports());
  }

  #overview({ database, files, backups, models, models_path: path, chats, messages }) {
    const sum = (list) => list.reduce((total, one) => total + one.size, 0);
    const row = (words, where, name) => [h("span.set-size", {}, words), copyable(where, `the path of the ${name}`)];
    return [facts([
      ["Chats", row(`${plural(chats, "chat")}, ${plural(messages, "message")} · ${bytes(database.size)}`, database.path, "database")],
      ["Files sent", row(bytes(files.size), files.path, "files")],
      ["Copies", row(bytes(backups.size), backups.path, "copies")],
      ["Models", models && row(bytes(sum(models)), path, "models")],
    ])];
  }

  #largest({ largest }) {
    if (!largest.length) return [];
    const most = largest[0].size || 1;
    const open = async (id) => { await this.settings.close(); await this.settings.act.page.open(id); };
    return [heading("Largest chats"), h("ol.set-largest", {}, ...largest.map((one) => h("li", {},
      button(one.title, () => open(one.id), "link"), h("small", {}, plural(one.messages, "message")),
      h("i.set-bar", { "aria-hidden": "true" }, h("i", { style: `width:${Math.max(2, (100 * one.size) / most)}%` })), h("span", {}, bytes(one.size)))))];
  }

  #copies(copies) {
    const make = async () => {
      const found = await this.#do("Copying the chats …", "back_up");
      if (!found) return;
      this.settings.say("A copy was made and checked.");
      this.#draw({ ...this.told, copies: found, backups: { ...this.told.backups, size: found.reduce((sum, one) => sum + one.size, 0) } });
    };
    const rows = copies.map((copy) => h("li", { "data-testid": "stored-copy" },
      h("span", {}, h("b", {}, momentOf(copy.made_at)), ` ${KINDS[copy.kind] ?? ""}`,
        h("small", {}, copy.problem ? `cannot be read: ${copy.problem}` : `${plural(copy.chats, "chat")}, ${plural(copy.messages, "message")}`)),
      h("span.set-size", {}, bytes(copy.size)),
      copy.removable ? button("Delete", () => this.#deleteCopy(copy), "quiet", { "aria-label": `Delete the copy of ${momentOf(copy.made_at)}` })
        : h("span.set-stays", {}, "newest, stays")));
    return [heading("Copies of the chats"),
      h("p", {}, "One is made on every day on which something changed, and before each update. ", h("code", {}, "pagedchat sessions restore"), " puts one back while pagedchat is not running."),
      h("ul.set-list", {}, ...rows), button("Back up now", make, "primary", { "data-testid": "back-up" })];
  }

  async #deleteCopy(copy) {
    if (!(await confirmed("Delete this copy?", `The copy of ${momentOf(copy.made_at)} is gone for good then; the chats themselves stay as they are.`, "Delete it"))) return;
    if (await this.#do("Deleting the copy …", "delete_copy", { name: copy.name })) await this.#again("The copy is deleted.");
  }

  #trash({ chats, branches, size }) {
    const empty = async () => {
      if (!(await confirmed("Empty the trash?", `${plural(chats, "chat")} and ${plural(branches, "branch", "branches")} are gone for good then; only a copy would still have them.`, "Empty it"))) return;
      if ((await this.#do("Emptying the trash …", "empty_trash")) !== undefined) await this.#again("The trash is empty.");
    };
    const nothing = !chats && !branches;
    return [heading("Trash"), h("p", {}, nothing ? "Nothing is in the trash." : `${plural(chats, "chat")} and ${plural(branches, "branch", "branches")}${size ? `, ${bytes(size)}` : ""}; they stay until you empty it.`),
      button("Empty the trash…", empty, "quiet", { disabled: nothing, "data-testid": "empty-trash" })];
  }

  #models({ models }) {
    const rows = models.map(({ name, size, loaded }) => h("li", {}, h("span", {}, h("b", {}, name)), h("span.set-size", {}, bytes(size)),
      h("span.set-stays", {}, loaded ? "in use" : "")));
    return [heading("Models"), rows.length ? h("ul.set-list", {}, ...rows) : h("p", {}, "No model is here yet."),
      h("p", {}, h("code", {}, "pagedchat models rm NAME"), " on the terminal deletes one that is not in use.")];
  }

  #caches(caches) {
    const clear = async ({ name, title, cost }) => {
      if (!(await confirmed(`Delete “${title}”?`, cost, "Delete", { danger: false }))) return;
      if (await this.#do("Deleting …", "clear_cache", { name })) await this.#again(`${title}: deleted.`);
    };
    const rows = caches.map((cache) => h("li", { "data-testid": "cache" },
      h("span", {}, h("b", {}, cache.title), h("small", {}, cache.cost)), h("span.set-size", {}, bytes(cache.size)),
      button("Delete", () => clear(cache), "quiet", { "aria-label": `Delete ${cache.title}` })));
    return [heading("Caches"), h("p", {}, "Made by pagedchat to be quicker; it makes them again."),
      rows.length ? h("ul.set-list", {}, ...rows) : h("p", {}, "There are none.")];
  }

  #exports() {
    const whole = ([format]) => format === "pagedchat"; // first: it alone has everything
    const links = [...FORMATS.filter(whole), ...FORMATS.filter((one) => !whole(one))].map(([format, label]) =>
      h("a.quiet", { href: exportAddress(format), download: "", onclick: () => sayExported(label) }, label));
    return [heading("Take all chats with you"), h("p", {}, `Every chat that is not in the trash, as one file. The first kind has all branches and can be imported again.`),
      h("div.set-row", {}, ...links)];
  }

  async #again(words) {
    await this.load();
    this.settings.say(words);
  }
}

