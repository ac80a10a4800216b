// Quantities, times and counts, as texts and as numbers to draw with.

const SUFFIXES = {
  n: 1e-9, u: 1e-6, m: 1e-3, "": 1, k: 1e3, M: 1e6, G: 1e9, T: 1e12, P: 1e15, E: 1e18,
  Ki: 2 ** 10, Mi: 2 ** 20, Gi: 2 ** 30, Ti: 2 ** 40, Pi: 2 ** 50, Ei: 2 ** 60,
};

/** A quantity as a number, near enough to draw it. */
export function amount(quantity) {
  const found = /^([+-]?[0-9.]+)(?:([eE][+-]?[0-9]+)|([numkMGTPE]i?|Ki))?$/.exec(quantity ?? "");
  if (!found) return 0;
  const number = Number(found[1] + (found[2] ?? ""));
  return Number.isFinite(number) ? number * (SUFFIXES[found[3] ?? ""] ?? 1) : 0;
}

/** Whether a quantity is there and not nothing. */
export function isSome(quantity) {
  return amount(quantity) !== 0;
}

/** How long ago a time was, as kubectl writes it. */
export function age(since) {
  return span(Math.max(0, Math.floor((Date.now() - Date.parse(since)) / 1000)));
}

/** A span of seconds, as kubectl writes it: the larger it is, the less exactly. */
export function span(seconds) {
  const minutes = Math.floor(seconds / 60);
  const hours = Math.floor(seconds / 3600);
  const days = Math.floor(seconds / 86400);
  if (seconds < 120) return `${seconds}s`;
  if (minutes < 10) return pair(minutes, "m", seconds % 60, "s");
  if (hours < 3) return `${minutes}m`;
  if (hours < 8) return pair(hours, "h", minutes % 60, "m");
  if (hours < 48) return `${hours}h`;
  if (days < 8) return pair(days, "d", hours % 24, "h");
  return days < 730 ? `${days}d` : `${Math.floor(days / 365)}y`;
}

function pair(large, largeUnit, small, smallUnit) {
  return small ? `${large}${largeUnit}${small}${smallUnit}` : `${large}${largeUnit}`;
}

/** A time of day, with the date if it is not today's. */
export function moment(time) {
  const date = new Date(time);
  const clock = date.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });
  if (date.toDateString() === new Date().toDateString()) return clock;
  return `${date.toLocaleDateString([], { year: "numeric", month: "short", day: "numeric" })} ${clock}`;
}

/** A number with its noun: `1 job`, `2 jobs`. */
export function count(number, noun) {
  return `${number.toLocaleString("en")} ${noun}${number === 1 ? "" : "s"}`;
}

/** Requests in one line. */
export function requests(list) {
  return Object.entries(list ?? {}).map(([name, quantity]) => `${name} ${quantity}`).join(", ");
}
