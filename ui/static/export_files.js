// Chats as files to fetch: the kinds there are, and where each is.

export const FORMATS = [
  ["markdown", "Markdown"], ["text", "Plain text"], ["pagedchat", "pagedchat JSON"],
  ["openai", "OpenAI JSONL"], ["sharegpt", "ShareGPT"],
];

/** The address of a file of some chats; all of them without `ids`. */
export function exportAddress(format, ids = []) {
  return `/api/sessions/export?format=${format}${ids.length ? `&ids=${encodeURIComponent(ids.join(","))}` : ""}`;
}
