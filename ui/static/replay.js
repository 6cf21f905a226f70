// Which moment of the pool the panel shows: now, one of the past, or one of a recording. Events go on being kept meanwhile.

import { Recorder } from "./recorder.js";

const PLAY_MS = 800; // from one event to the next: long enough to read what happened
const CALM_PLAY_MS = 1_600;
const AGE_MS = 1_000;
const calm = matchMedia("(prefers-reduced-motion: reduce)");

export class Replay {
  /** `panel` has: model, feed.wanted, showModel(model, words), takeCounters(stats), redraw(), act.session(). */
  constructor(panel) {
    this.panel = panel;
    this.recorder = new Recorder(); // of the engine, as long as the page looks on
    this.recording = null; // one that was opened: {recorder, names, hues, made}
    this.place = null; // null: now
    this.onlyChat = false; // steps go to the next event of the shown chat
    this.playing = 0;
    document.addEventListener("visibilitychange", () => { if (document.hidden) this.pause(); });
  }

  /** What is looked through: this page's own record, or the one that was opened. */
  get source() {
    return this.recording?.recorder ?? this.recorder;
  }

  get live() {
    return this.place === null;
  }

  /** The event that led to the moment that is shown; null at now and at the beginning. */
  get event() {
    return this.live ? null : this.source.eventAt(this.place);
  }

  // -- what the server tells ----------------------------------------------------------------------------------------

  /** A snapshot came. `again`: it is of the same engine as the one before, some events later. `right`: it says what is
   * known already. */
  takeSnapshot(snapshot, again, right) {
    const { recorder, panel } = this;
    const now = Date.now() / 1000;
    if (!again || !recorder.loaded) {
      recorder.begin(panel.model, now);
      if (!this.live && !this.recording) this.goLive();
    } else if (!right) recorder.takeGap(snapshot, now);
  }

  takeEvent(event) {
    this.recorder.take(event);
  }

  takeStats(stats) {
    this.recorder.takeStats(stats);
    if (!this.live) this.panel.takeCounters(this.source.statsAt(this.place));
  }

  // -- moving -------------------------------------------------------------------------------------------------------

  /** Show the moment after the event at a place. */
  go(place) {
    if (!this.source.loaded) return;
    this.place = Math.max(this.source.first, Math.min(this.source.last, place));
    this.#show();
    this.#age();
  }

  /** Show the pool of now. */
  goLive() {
    this.pause();
    if (this.recording) return;
    this.place = null;
    clearInterval(this.aging);
    this.aging = 0;
    this.panel.showModel(null, null);
  }

  /** Where a step leads to: null if nowhere. */
  next(step) {
    const { source } = this;
    const from = this.place ?? source.last;
    for (let place = from + step; place >= source.first && place <= source.last; place += step) {
      if (this.#counts(place)) return place;
    }
    return null;
  }

  step(step) {
    const place = this.next(step);
    if (place !== null) this.go(place);
    return place !== null;
  }

  /** Whether steps lead from one event of the shown chat to the next, and lists have those only. */
  setOnlyChat(on) {
    this.onlyChat = on;
    this.panel.redraw();
  }

  play() {
    if (this.live) this.go(this.source.first);
    this.pause();
    const on = () => {
      if (!this.step(1)) return this.recording ? this.pause() : this.goLive();
      this.playing = setTimeout(on, calm.matches ? CALM_PLAY_MS : PLAY_MS);
    };
    this.playing = setTimeout(on, calm.matches ? CALM_PLAY_MS : PLAY_MS);
    this.panel.redraw();
  }

  pause() {
    clearTimeout(this.playing);
    this.playing = 0;
    this.panel.redraw();
  }

  // -- recordings ---------------------------------------------------------------------------------------------------

  /** Show a recording from its beginning; what the engine does goes on underneath. */
  open(recording) {
    this.pause();
    this.recording = recording;
    this.go(recording.recorder.first);
  }

  close() {
    this.recording = null;
    this.goLive();
  }

  // -- inside -------------------------------------------------------------------------------------------------------

  #counts(place) {
    if (!this.onlyChat || this.recording) return true;
    return place === this.source.first || this.source.eventAt(place).owner === this.panel.act.session();
  }

  /** The oldest moment is as far back as one can see. */
  keepUp() {
    if (!this.live && this.place < this.source.first) this.go(this.source.first);
  }

  #show() {
    const { source, place, recording, panel } = this;
    const model = source.model(place);
    Object.assign(model, { names: recording?.names ?? null, hues: recording?.hues ?? null });
    panel.showModel(model, recording ? "recording" : "the past");
    panel.takeCounters(source.statsAt(place));
  }

  /** How long ago a moment was is told anew while it is looked at. */
  #age() {
    if (this.aging || this.recording) return;
    this.aging = setInterval(() => { if (this.panel.feed.wanted && !document.hidden) this.panel.redraw(); }, AGE_MS);
  }
}
