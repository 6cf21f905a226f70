// The bar above the chat: its title, and the ways to the tree, the settings and the blocks.

import { byId, h, icon, iconButton } from "./dom.js";

/** Fill the bar; returns the element of the title. `act` has: sidebar(), menu(button), tree(), settings(), panel(). */
export function fillTop(act) {
  const title = h("h1", { id: "pc-title" }, "New chat");
  const menu = iconButton("more", "What can be done with this chat", () => act.menu(menu), { class: "icon chat-more", "data-testid": "top-menu", "aria-haspopup": "menu" });
  byId("pc-top").append(
    iconButton("menu", "Show chats", act.sidebar, { class: "icon menu" }),
    h("div.chat-title", {}, title, menu),
    h("div.tools", {},
      h("button.tool", { type: "button", id: "pc-tree-tool", onclick: act.tree, title: "All branches of this chat (T)", "aria-expanded": "false" },
        icon("tree"), h("span", {}, "Tree")),
      h("button.tool", { type: "button", onclick: act.settings, title: "System prompt and sampling" },
        icon("tune"), h("span", {}, "Settings")),
      h("button.tool", { type: "button", id: "pc-blocks", onclick: act.panel, title: "KV blocks", "aria-controls": "pc-kv" },
        icon("grid"), h("span", {}, "Blocks"))));
  return title;
}
