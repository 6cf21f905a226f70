// The time bar of the panel: pause, step, scrub and play, and what happened at the moment that is shown.

import { h, icon, iconButton, setAttr, setText } from "./dom.js";
import { longWords } from "./event_words.js";
import { count, plural } from "./format.js";

const DAY_S = 86_400;

export class TimeBar {
  /** `replay` is a Replay; `nameOf(owner)` says whose an event was; `session()` is the shown chat. */
  constructor(replay, nameOf, session) {
    Object.assign(this, { replay, nameOf, session });
    this.back = iconButton("step-back", "The event before", () => replay.step(-1), { "data-testid": "kv-step-back" });
    this.on = iconButton("step-on", "The next event", () => replay.step(1), { "data-testid": "kv-step-on" });
    this.run = h("button.icon", { type: "button", "data-testid": "kv-play", onclick: () => (replay.playing ? replay.pause() : replay.play()) });
    this.slider = h("input", { type: "range", step: "1", "aria-label": "Moment", "data-testid": "kv-moment", oninput: () => this.#scrub() });
    this.chat = h("button.chip", {
      type: "button", "aria-pressed": "false", title: "Step and play from one event of this chat to the next", "data-testid": "kv-only-chat",
      onclick: () => replay.setOnlyChat(!replay.onlyChat),
    }, "This chat");
    this.state = h("b.time-state");
    this.time = h("span.time");
    this.leave = h("button.chip", { type: "button", "data-testid": "kv-live", onclick: () => this.#leave() });
    this.words = h("p.time-words", { "aria-live": "polite", "data-testid": "kv-moment-words" });
    this.element = h("div.time-bar", { role: "group", "aria-label": "Moments of the blocks", "data-testid": "kv-time" },
      h("div.time-tools", {}, this.back, this.slider, this.on, this.run, this.chat),
      h("div.time-line", {}, this.state, this.time, this.leave),
      this.words);
  }

  #scrub() {
    const { replay, slider } = this;
    replay.pause();
    replay.go(Number(slider.value));
  }

  #leave() {
    const { replay } = this;
    if (replay.recording) replay.close();
    else if (replay.live) replay.go(replay.source.last);
    else replay.goLive();
  }

  draw() {
    const { replay, slider } = this;
    const { source, live, recording } = replay;
    this.element.hidden = !source.loaded;
    if (!source.loaded) return;
    const place = replay.place ?? source.last;
    for (const [name, value] of [["min", source.first], ["max", source.last]]) setAttr(slider, name, String(value));
    if (slider.value !== String(place)) slider.value = String(place);
    const state = recording ? "recording" : live ? "live" : "past";
    setAttr(this.element, "data-state", state);
    setAttr(this.element, "data-seq", String(source.seqOf(place)));
    setText(this.state, { recording: "Recording", live: "Live", past: "The past" }[state]);
    setText(this.leave, { recording: "Close the recording", live: "Pause", past: "Back to live" }[state]);
    setText(this.time, live ? `${plural(source.events.length, "event")} kept` : this.#when(place));
    setText(this.words, live ? "" : this.#what(place));
    setAttr(slider, "aria-valuetext", live ? "now" : `${this.#stamp(place)}. ${this.words.textContent}`);
    slider.style.setProperty("--done", `${(100 * (place - source.first)) / Math.max(1, source.last - source.first)}%`);
    this.chat.hidden = Boolean(recording);
    setAttr(this.chat, "aria-pressed", String(replay.onlyChat));
    this.#fit(this.back, replay.next(-1) !== null);
    this.#fit(this.on, !live && replay.next(1) !== null);
    this.#drawRun();
  }

  #drawRun() {
    const playing = Boolean(this.replay.playing);
    if (this.run.dataset.playing === String(playing)) return;
    this.run.dataset.playing = String(playing);
    const words = playing ? "Stop playing" : "Play the events";
    this.run.setAttribute("aria-label", words);
    this.run.title = words;
    this.run.replaceChildren(icon(playing ? "pause" : "play"));
  }

  #fit(button, can) {
    if (can) button.removeAttribute("aria-disabled");
    else setAttr(button, "aria-disabled", "true");
  }

  /** The time of a moment; the day, too, where it is not plain. */
  #stamp(place) {
    const time = this.replay.source.timeOf(place);
    return stamp(time, Boolean(this.replay.recording) || sinceNow(time) > DAY_S);
  }

  #when(place) {
    const since = sinceNow(this.replay.source.timeOf(place));
    return this.replay.recording || since > DAY_S ? this.#stamp(place) : `${this.#stamp(place)}, ${age(since)}`;
  }

  /** What led to a moment, and how many events come after it. */
  #what(place) {
    const { source } = this.replay;
    const event = source.eventAt(place);
    const words = event ? longWords(event, this.nameOf) : "The beginning of what is kept.";
    const at = `(${count(place - source.first)} of ${count(source.last - source.first)})`;
    return event ? `${words} ${at.replaceAll(" ", "\u00a0")}` : words;
  }
}

/** "14:03:22.120", with the day where it is not plain. */
function stamp(time, withDay) {
  const moment = new Date(time * 1000);
  const two = (value) => String(value).padStart(2, "0");
  const clock = `${two(moment.getHours())}:${two(moment.getMinutes())}:${two(moment.getSeconds())}.${String(moment.getMilliseconds()).padStart(3, "0")}`;
  const day = moment.toLocaleDateString("en-GB", { day: "numeric", month: "short", year: "numeric" });
  return withDay ? `${day}, ${clock}` : clock;
}

function sinceNow(time) {
  return Date.now() / 1000 - time;
}

function age(seconds) {
  if (seconds < 1) return "just now";
  if (seconds < 60) return `${Math.floor(seconds)} s ago`;
  if (seconds < 3_600) return `${Math.floor(seconds / 60)} min ${Math.floor(seconds % 60)} s ago`;
  return `${Math.floor(seconds / 3_600)} h ${Math.floor((seconds % 3_600) / 60)} min ago`;
}
