// Calls whose failure is for the reader: a notice, and nothing more to do.

import { complain } from "./toasts.js";

/** Call the server; what goes wrong is said, and the promise resolves with undefined then. */
export function tried(socket, op, fields = {}) {
  return socket.call(op, fields).catch((error) => { complain(error); return undefined; });
}
