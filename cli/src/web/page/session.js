// The token, and questions to the server. The token comes in the fragment of the address, which a browser sends to
// nobody; it is taken out at once and kept for this tab only. Another tab of this page may ask for it.

const KEY = "token";
const ANSWER_WITHIN = 45_000;
const TAB_ANSWERS_WITHIN = 400;

let token = null;
const tabs = new BroadcastChannel("sluice");
tabs.addEventListener("message", ({ data }) => {
  if (data === "token?" && token) tabs.postMessage({ token });
});

/** Why there is no answer: `token`, `gone` (the plugin does not answer), or what the server says. */
export class Failure extends Error {
  constructor(reason, message, what = "") {
    super(message);
    this.reason = reason;
    this.what = what;
  }
}

/** Opens the session: what the page is about. */
export async function open() {
  const given = /^#token=([0-9a-f]+)$/.exec(location.hash);
  if (given) history.replaceState(null, "", location.pathname + location.search);
  token = given?.[1] ?? sessionStorage.getItem(KEY) ?? (await askTabs());
  const { data } = await ask("/api/session");
  token = data.token;
  sessionStorage.setItem(KEY, token);
  return data;
}

function askTabs() {
  return new Promise((resolve) => {
    const hear = ({ data }) => {
      if (data?.token) finish(data.token);
    };
    const finish = (found) => {
      tabs.removeEventListener("message", hear);
      resolve(found);
    };
    tabs.addEventListener("message", hear);
    tabs.postMessage("token?");
    setTimeout(() => finish(null), TAB_ANSWERS_WITHIN);
  });
}

/** What the server answers; without data if it is as `etag` says. */
export async function ask(path, etag = null, signal = null) {
  const headers = { Authorization: `Bearer ${token ?? ""}` };
  if (etag) headers["If-None-Match"] = etag;
  const limit = AbortSignal.timeout(ANSWER_WITHIN);
  const either = signal ? AbortSignal.any([signal, limit]) : limit;
  let response;
  try {
    response = await fetch(path, { headers, cache: "no-store", credentials: "omit", redirect: "error", signal: either });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new Failure("gone", "kubectl sluice web does not answer.");
  }
  if (response.status === 304) return { data: null, etag };
  if (response.status === 401) throw new Failure("token", await response.text());
  const body = await response.json().catch(() => null);
  if (response.ok && body) return { data: body, etag: response.headers.get("ETag") };
  const problem = body?.problem;
  throw new Failure(problem?.reason ?? "Unanswered", problem?.message ?? `The server answered ${response.status}.`, problem?.what);
}
