// What is kept where and what never leaves this computer; and what this program is.

import { h } from "./dom.js";
import { storedKeys } from "./drafts.js";
import { plural } from "./format.js";
import { button, copyable, facts, heading, page } from "./settings_parts.js";

export function privacySection(settings) {
  const place = h("div.set-privacy");
  const element = page("privacy", "Everything stays on this computer. There is no account, no telemetry, and no request to another host: this page loads nothing from elsewhere, and the model runs in pagedchat itself.", place);
  const fill = () => place.replaceChildren(...privacy(settings, fill));
  return { id: "privacy", title: "Privacy", icon: "ghost", element, fill };
}

function privacy(settings, again) {
  const { page: main } = settings.act;
  const { installation } = settings.facts;
  const drafts = storedKeys().length;
  const forget = () => {
    const number = main.composer.drafts.forget();
    again();
    settings.say(`Forgot ${plural(number, "draft")} of this browser.`);
  };
  const begin = async () => { await settings.close(); await main.create({ temporary: true }); };
  return [
    heading("What is stored"),
    h("p", {}, "Messages with their thinking, how each reply was made, the token ids of prompts, files that you attach, and drafts: in one database and a folder beside it that only your user may read. ",
      "The engine keeps what it computed in memory, and forgets it when a chat is deleted."),
    installation && copyable(installation.paths.database, "the path of the database"),
    h("p", {}, "Logs name times, sizes and errors, never the text of messages."),
    heading("Temporary chats"),
    h("p", {}, "A temporary chat is on no disk, shares no cached blocks with other chats, and is gone when you leave it."),
    button("New temporary chat", begin),
    heading("Titles"),
    h("p", {}, installation?.titles === "model"
      ? "After its first reply a chat is named by the model, here on this computer. "
      : "A chat is named by the first words of its first message; no model is asked. ",
    h("code", {}, `--titles ${installation?.titles === "model" ? "words" : "model"}`), " changes that at the next start."),
    heading("Drafts in this browser"),
    h("p", {}, "What you type and have not sent is kept in this browser at once, and with the chats a moment later. ",
      drafts ? `This browser keeps ${plural(drafts, "draft")} now.` : "This browser keeps none now."),
    button("Forget drafts kept in this browser", forget, "quiet", { disabled: !drafts, "data-testid": "forget-drafts" }),
    heading("Text of tokens"),
    h("p", {}, "What single tokens say is shown only because this page is opened on this computer itself. pagedchat refuses to serve a network address."),
  ].filter(Boolean);
}

export function aboutSection(settings) {
  const place = h("div");
  const element = page("about", null, place);
  const fill = () => {
    const { installation } = settings.facts;
    const { page: main } = settings.act;
    const versions = installation?.versions ?? {};
    const lines = [`pagedchat ${main.version}`, ...Object.entries(versions).map(([name, version]) => `${name} ${version}`)];
    place.replaceChildren(
      h("p.set-lead", {}, `pagedchat ${main.version}: chats with a model that runs in the app's own engine, on this computer.`),
      facts([
        ["Licence", installation?.licence],
        ["Model", settings.info.model && `${settings.info.model}, under the terms it came with`],
        ["Config file", installation && copyable(installation.paths.config_file, "the path of the config file")],
        ["Logs", installation && copyable(installation.paths.logs, "the path of the logs")],
      ]),
      heading("Made with"), facts(Object.entries(versions)),
      h("p.set-row", {}, h("span", {}, "For a report of a fault:"), copyable(lines.join(", "), "all versions")));
  };
  return { id: "about", title: "About", icon: "info", element, fill };
}
