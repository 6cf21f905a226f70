// Numbers and times as people read them.

const whole = new Intl.NumberFormat("en-US");

export function count(value) {
  return whole.format(value);
}

export function plural(value, one, many = `${one}s`) {
  return `${count(value)} ${value === 1 ? one : many}`;
}

export function seconds(value) {
  if (value < 0.995) return `${value.toFixed(2)} s`;
  if (value < 59.95) return `${value.toFixed(1)} s`;
  return `${Math.floor(value / 60)} min ${Math.round(value % 60)} s`;
}

/** How long something has lasted, in one or two units: 8 s, 2 min 5 s, 3 h 20 min, 4 d 6 h. */
export function span(value) {
  if (value < 59.5) return `${Math.round(value)} s`;
  if (value < 3_570) return `${Math.floor(value / 60)} min ${Math.floor(value % 60)} s`;
  if (value < 172_800) return `${Math.floor(value / 3_600)} h ${Math.floor((value % 3_600) / 60)} min`;
  return `${Math.floor(value / 86_400)} d ${Math.floor((value % 86_400) / 3_600)} h`;
}

export function rate(value) {
  return `${value < 9.95 ? value.toFixed(1) : Math.round(value)} tok/s`;
}

export function percent(share) {
  if (share === null || Number.isNaN(share)) return "–";
  const value = share * 100;
  return `${value === 0 || value >= 99.95 ? value.toFixed(0) : value.toFixed(1)} %`;
}

const UNITS = ["KiB", "MiB", "GiB", "TiB"];

/** A size of files or memory: 512 bytes, 1.5 KiB, 32 MiB, 12.5 GiB. The server says it in the same words (sizes.py). */
export function bytes(size) {
  if (size < 1024) return plural(size, "byte");
  let [value, unit] = [size / 1024, 0];
  while (value >= 1023.5 && unit < UNITS.length - 1) [value, unit] = [value / 1024, unit + 1];
  const digits = value < 9.95 || unit > 1 ? 1 : 0;
  return `${count(Number(value.toFixed(digits)))} ${UNITS[unit]}`;
}

/** A sentence that ends with a quoted one needs no full stop of its own. */
export function stated(text) {
  return text.replace(/([.!?…]”)\./g, "$1");
}

/** What is said of a message that is not done. */
export const STATES = { streaming: "being written", stopped: "stopped", interrupted: "interrupted", error: "failed" };

/** The heading under which a chat is listed. */
export function dayGroup(time, now = new Date()) {
  const midnight = new Date(now.getFullYear(), now.getMonth(), now.getDate()).getTime();
  const day = 86_400_000;
  const moment = new Date(time).getTime();
  if (moment >= midnight) return "Today";
  if (moment >= midnight - day) return "Yesterday";
  if (moment >= midnight - 6 * day) return "This week";
  if (moment >= midnight - 29 * day) return "This month";
  return "Earlier";
}
