// What the actions are called, wherever they are offered: buttons, menus, keys, commands, dialogs. One name for each.

export const ACTIONS = {
  copy: "Copy", edit: "Edit", regenerate: "Regenerate", several: "Regenerate several", with: "Regenerate with…", resume: "Continue",
  branch: "Branch from here", fork: "Fork to a new chat", compare: "Compare versions", details: "Details", stop: "Stop",
  blocks: "Show its blocks", remove: "Delete from here", compact: "Compact", reproduce: "Reproduce",
};
