// When jobs will start. An estimate takes the plugin seconds, so it is asked for once, and again when the reader wants it.

import { h } from "./dom.js";
import { moment } from "./format.js";
import { ask } from "./session.js";

/** How many are kept. */
const KNOWN_MAX = 100;

/** What is known, by path, the latest last: an answer is kept also if another view is shown when it comes. */
const known = new Map();

/**
 * What is known of the estimates at a path: `isAsked` while they are made, `isBusy` while another estimate is, then `starts`
 * and `at`, or `failure`.
 */
export function estimates(path) {
  return known.get(path) ?? { path };
}

/** Whether nobody has asked for them yet, or they have to be asked for again. */
export function isUnknown({ isAsked, isBusy, starts, failure }) {
  return !isAsked && (isBusy || (!starts && !failure));
}

/** Asks for them. `changed` is called with each state. */
export async function estimate(path, changed) {
  const before = estimates(path);
  if (before.isAsked) return;
  keep({ ...before, isAsked: true });
  changed();
  try {
    const { data } = await ask(path);
    keep({ path, starts: data.starts, at: new Date() });
  } catch (failure) {
    const { starts, at } = before;
    keep(failure.reason === "Busy" ? { path, starts, at, isBusy: true } : { path, failure });
  }
  changed();
}

function keep(state) {
  known.delete(state.path);
  known.set(state.path, state);
  if (known.size > KNOWN_MAX) known.delete(known.keys().next().value);
}

/** What asks for them, and how far that is. */
export function asker({ path, isAsked, isBusy, starts, failure, at }, text) {
  const isUnderWay = isAsked || isBusy;
  const done = starts && `Estimated at ${moment(at)}`;
  return [
    h("button", { type: "button", "data-estimate": path, "aria-disabled": isUnderWay ? "true" : null }, starts ? "Estimate again" : text),
    h("span.sub", { role: "status" }, isUnderWay ? "Estimating…" : failure ? `No estimate: ${failure.message}` : done),
  ];
}

/** When one job will start. */
export function start({ range, because }) {
  return range ? [h("span.name", null, range), h("span.sub", null, because)] : ["can't be estimated", h("span.sub", null, because)];
}
