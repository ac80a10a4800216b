// Addresses and views. The address says what is shown, and never holds the token, so it can be shared.

import { view as flavors } from "./views/flavors.js";
import { view as gates } from "./views/gates.js";
import { view as job } from "./views/job.js";
import { view as jobs } from "./views/jobs.js";
import { view as queue } from "./views/queue.js";
import { view as queues } from "./views/queues.js";

const ROUTES = [
  [/^\/(?:queues)?$/, queues],
  [/^\/clusterqueues\/([^/]+)$/, queue],
  [/^\/localqueues\/([^/]+)\/([^/]+)$/, queue],
  [/^\/jobs$/, jobs],
  [/^\/jobs\/([^/]+)\/([^/]+)\/([^/]+)$/, job],
  [/^\/gates$/, gates],
  [/^\/flavors$/, flavors],
];

/** What the address shows: the view, the parts of its path, and its query. */
export function current() {
  for (const [pattern, view] of ROUTES) {
    const found = pattern.exec(location.pathname);
    const parts = found && decoded(found.slice(1));
    if (parts) return { view, parts, query: new URLSearchParams(location.search) };
  }
  return null;
}

/** The parts of a path as they were meant; null if they are not encoded as they should be. */
function decoded(parts) {
  try {
    return parts.map(decodeURIComponent);
  } catch {
    return null;
  }
}

/** Calls `changed` when another address is shown. */
export function follow(changed) {
  window.addEventListener("popstate", () => changed());
  document.addEventListener("click", (event) => {
    const link = event.target.closest?.("a[href]");
    const isPlain = event.button === 0 && !event.metaKey && !event.ctrlKey && !event.shiftKey && !event.altKey;
    if (!link || !isPlain || link.origin !== location.origin || link.getAttribute("href").startsWith("#")) return;
    event.preventDefault();
    history.pushState(null, "", link.href);
    changed();
    if (link.closest(".pages")) window.scrollTo(0, 0);
  });
}
