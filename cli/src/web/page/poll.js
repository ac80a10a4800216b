// Asks again and again, as long as somebody looks: two seconds after each answer, or later if answers take long or fail.

import { ask } from "./session.js";

const PAUSE = 2000;
/** An answer may take at most this part of the time. */
const SHARE = 4;
/** Longest pause after a failure: what comes back is to be seen soon. */
const PAUSE_FAILED_MAX = 10_000;

/** Asks `path` until it is stopped. `news` gets each answer, `failed` why there is none. Returns what stops it. */
export function poll(path, news, failed) {
  const stop = new AbortController();
  run(path, news, failed, stop.signal);
  return () => stop.abort();
}

async function run(path, news, failed, signal) {
  let etag = null;
  let known = null;
  let failures = 0;
  while (!signal.aborted) {
    const begun = performance.now();
    try {
      const answer = await ask(path, etag, signal);
      if (signal.aborted) return;
      known = answer.data ?? known;
      etag = answer.etag;
      failures = 0;
      news(known);
    } catch (failure) {
      if (signal.aborted) return;
      failures += 1;
      failed(failure);
    }
    const after = failures ? Math.min(PAUSE_FAILED_MAX, PAUSE * 2 ** (failures - 1)) : (performance.now() - begun) * SHARE;
    await pause(Math.max(PAUSE, after), signal);
    await looked(signal);
  }
}

function pause(time, signal) {
  return new Promise((resolve) => {
    const finish = () => {
      clearTimeout(timer);
      signal.removeEventListener("abort", finish);
      resolve();
    };
    const timer = setTimeout(finish, time);
    signal.addEventListener("abort", finish);
  });
}

/** Waits while the page is hidden. */
function looked(signal) {
  if (!document.hidden) return null;
  return new Promise((resolve) => {
    const finish = () => {
      document.removeEventListener("visibilitychange", finish);
      signal.removeEventListener("abort", finish);
      resolve();
    };
    document.addEventListener("visibilitychange", finish);
    signal.addEventListener("abort", finish);
  });
}
