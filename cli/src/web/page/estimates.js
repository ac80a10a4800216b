// When jobs will start. An estimate takes the plugin seconds, so it is asked for once, and again when the reader wants it.

import { h } from "./dom.js";
import { moment } from "./format.js";
import { ask } from "./session.js";

let known = { path: null };

/** What is known of the estimates at a path: `isAsked` while they are made, then `starts` and `at`, or `failure`. */
export function estimates(path) {
  return known.path === path ? known : { path };
}

/** Whether nobody has asked for them yet. */
export function isUnknown({ isAsked, starts, failure }) {
  return !isAsked && !starts && !failure;
}

/** Asks for them. `changed` is called with each state. */
export async function estimate(path, changed) {
  const before = estimates(path);
  if (before.isAsked) return;
  const asked = { ...before, isAsked: true };
  known = asked;
  changed();
  let answer;
  try {
    const { data } = await ask(path);
    answer = { path, starts: data.starts, at: new Date() };
  } catch (failure) {
    answer = { path, failure };
  }
  // Another path may have been asked for meanwhile.
  if (known !== asked) return;
  known = answer;
  changed();
}

/** What asks for them, and how far that is. */
export function asker({ path, isAsked, starts, failure, at }, text) {
  const done = starts && `Estimated at ${moment(at)}`;
  return [
    h("button", { type: "button", "data-estimate": path, "aria-disabled": isAsked ? "true" : null }, starts ? "Estimate again" : text),
    h("span.sub", { role: "status" }, isAsked ? "Estimating…" : failure ? `No estimate: ${failure.message}` : done),
  ];
}

/** When one job will start. */
export function start({ range, because }) {
  return range ? [h("span.name", null, range), h("span.sub", null, because)] : ["can't be estimated", h("span.sub", null, because)];
}
