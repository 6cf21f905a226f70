// Chats as files to fetch: the kinds there are, and where each is.

import { toast } from "./toasts.js";

export const FORMATS = [
  ["markdown", "Markdown"], ["text", "Plain text"], ["pagedchat", "pagedchat JSON"],
  ["openai", "OpenAI JSONL"], ["sharegpt", "ShareGPT"],
];

/** A browser may keep a file without a word. */
export function sayExported(label) {
  toast(`${label}: your browser keeps the file with its downloads.`);
}

/** The address of a file of some chats; all of them without `ids`. */
export function exportAddress(format, ids = []) {
  return `/api/sessions/export?format=${format}${ids.length ? `&ids=${encodeURIComponent(ids.join(","))}` : ""}`;
}
