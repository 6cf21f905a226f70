// The sections of the settings in their order. Each fills itself when it is shown, from what is known then.

import { saveAsPreset } from "./chat_menu.js";
import { byId, h } from "./dom.js";
import { plural, stated } from "./format.js";
import { contextSection, modelSection } from "./settings_engine.js";
import { button, page } from "./settings_parts.js";
import { aboutSection, privacySection } from "./settings_privacy.js";
import { storageSection } from "./settings_storage.js";
import { actOf, presetList } from "./presets.js";
import { shortcutList } from "./shortcuts.js";

/** {id, title, icon, element, fill()} of each. `settings` has: act.page, info, facts, chat, say(words), reset(). */
export function settingsSections(settings) {
  return [
    chatSection(settings), modelSection(settings), contextSection(settings), presetSection(settings),
    storageSection(settings), privacySection(settings), alertSection(settings), shortcutSection(),
    aboutSection(settings),
  ];
}

function chatSection(settings) {
  const element = byId("pc-set-chat");
  const [head, foot] = ["head", "foot"].map((place) => element.querySelector(`.set-chat-${place}`));
  const from = h("p.set-lead");
  const reset = button("Use the model's own", () => settings.reset(), "link", { class: "link set-reset" });
  const told = h("span", {});
  head.replaceChildren(from, h("div.set-row", {}, told, reset));
  const save = () => saveAsPreset(settings.act.page);
  foot.replaceChildren(h("p", {}, "System prompt and sampling may become what other chats begin with."),
    button("Save as preset…", save, "quiet", { "data-testid": "save-as-preset" }));
  const mark = (own) => {
    told.textContent = own.length ? `${plural(own.length, "setting")} of this chat ${own.length === 1 ? "is" : "are"} its own.` : "All as the model has it.";
    reset.hidden = !own.length;
  };
  const fill = async () => {
    const { preset_id: id, title, temporary } = settings.chat;
    from.textContent = stated(`For “${title}”${temporary ? ", which is not kept" : ""}. Each chat has its own; changes act from the next reply on.`);
    if (!id) return;
    const presets = await settings.act.page.socket.call("presets").catch(() => []);
    const preset = presets.find((one) => one.id === id);
    if (settings.chat.preset_id === id) from.append(preset ? stated(` It began with the preset “${preset.name}”.`) : " It began with a preset that is deleted now.");
  };
  return { id: "chat", title: "This chat", icon: "edit", element, fill, mark };
}

function presetSection(settings) {
  const element = page("presets", "A preset is what a new chat begins with: system prompt, policy, tools, examples and sampling. A chat takes a copy, so changing a preset changes no chat.");
  let over = null;
  const fill = () => {
    over?.abort();
    over = new AbortController();
    element.replaceChildren(element.firstChild, ...presetList(actOf(settings.act.page, () => settings.close()), over.signal));
  };
  return { id: "presets", title: "Presets", icon: "tune", element, fill };
}

function alertSection(settings) {
  const element = page("alerts", "What is watched while pagedchat runs, and when it warns. Nothing of it leaves this computer.",
    h("div.set-alerts", { hidden: true }));
  return { id: "alerts", title: "Alerts", icon: "warn", element, fill: () => settings.act.page.alerts.describe() };
}

function shortcutSection() {
  const element = page("shortcuts", "Letters work while you are not typing; Escape leaves the message field. What has Ctrl, Alt or ⌘ works everywhere.");
  return { id: "shortcuts", title: "Shortcuts", icon: "keyboard", element,
    fill: () => element.replaceChildren(element.firstChild, ...shortcutList()) };
}
