// The page's one connection. Calls are numbered and answered; everything else that comes is an event.

import { bytes } from "./format.js";

const FIRST_WAIT = 250;
const LONGEST_WAIT = 5_000;
const LARGEST_FRAME = 4 << 20; // bytes, as the server takes them

export class Socket extends EventTarget {
  /** `greet` says what the first message of every connection carries. */
  constructor(path, greet) {
    super();
    this.url = new URL(path, location.href);
    this.url.protocol = this.url.protocol.replace("http", "ws");
    this.greet = greet;
    this.calls = new Map();
    this.next = 1;
    this.wait = FIRST_WAIT;
    this.state = "connecting";
    const now = () => { if (this.state === "lost" && !document.hidden) this.connect(); };
    addEventListener("online", now);
    document.addEventListener("visibilitychange", now);
    addEventListener("pagehide", () => this.socket?.close());
    addEventListener("pageshow", (event) => { if (event.persisted) this.connect(); });
  }

  connect() {
    clearTimeout(this.timer);
    if (this.socket && this.socket.readyState <= WebSocket.OPEN) return;
    const socket = (this.socket = new WebSocket(this.url));
    socket.onopen = () => this.#greeted(socket);
    socket.onmessage = (message) => this.#take(JSON.parse(message.data));
    socket.onclose = () => { if (socket === this.socket) this.#lost(); };
  }

  async #greeted(socket) {
    try {
      const hello = await this.call("hello", this.greet());
      if (socket !== this.socket) return;
      this.wait = FIRST_WAIT;
      this.#become("open", hello);
    } catch {
      socket.close();
    }
  }

  #take(frame) {
    if (frame.re === undefined) {
      this.dispatchEvent(new CustomEvent(frame.ev, { detail: frame }));
      return;
    }
    const call = this.calls.get(frame.re);
    this.calls.delete(frame.re);
    if (!call) return;
    if (frame.error === undefined) call.resolve(frame.ok);
    else call.reject(new Error(frame.error));
  }

  #lost() {
    for (const call of this.calls.values()) {
      call.reject(Object.assign(new Error("The connection was lost."), { lost: true }));
    }
    this.calls.clear();
    const wait = this.wait * (0.8 + 0.4 * Math.random());
    this.wait = Math.min(this.wait * 2, LONGEST_WAIT);
    this.timer = setTimeout(() => this.connect(), wait);
    this.#become("lost", { wait });
  }

  #become(state, detail) {
    this.state = state;
    this.dispatchEvent(new CustomEvent(state, { detail }));
  }

  /** Ask the server; rejects with the server's sentence, or with `lost` set when the connection broke. */
  call(op, args = {}) {
    if (this.socket?.readyState !== WebSocket.OPEN) {
      return Promise.reject(Object.assign(new Error("There is no connection to pagedchat."), { lost: true }));
    }
    const id = this.next++;
    const frame = JSON.stringify({ id, op, ...args });
    if (frame.length * 3 > LARGEST_FRAME && new Blob([frame]).size > LARGEST_FRAME) {
      return Promise.reject(new Error(`This text is longer than ${bytes(LARGEST_FRAME)}, the most that can be sent; shorten it.`));
    }
    return new Promise((resolve, reject) => {
      this.calls.set(id, { resolve, reject });
      this.socket.send(frame);
    });
  }

  /** Listen to what the server tells, until `signal` says that it is over. */
  on(event, listener, signal) {
    this.addEventListener(event, (happened) => listener(happened.detail), { signal });
  }
}
