// The token, and questions to the server. The token comes in the fragment of the address, which a browser sends to
// nobody; it is taken out at once and kept for this tab only. Another tab of this page may ask for it. In a cluster it is a
// token of the user, who gives it to the page, or a proxy adds it to each question.

/** Whether the page is served in a cluster, to many users. */
export const IN_CLUSTER = document.documentElement.dataset.served === "cluster";

const KEY = "token";
/** Where the user looks who may not look into all namespaces. */
const PLACE = "namespace";
const ANSWER_WITHIN = 45_000;
const TAB_ANSWERS_WITHIN = 400;

/** One that the server has accepted. */
let token = null;
/** What the address brought, until the server has said what it is. */
let given = null;
const tabs = new BroadcastChannel("sluice");
tabs.addEventListener("message", ({ data }) => {
  if (data === "token?" && token) tabs.postMessage({ token });
  if (data === "sign out") forget(token);
});
/** Why the first token was refused that was tried last. */
let refusal = null;

/** Why there is no answer: `token`, `gone` (the plugin does not answer), or what the server says. */
export class Failure extends Error {
  constructor(reason, message, what = "") {
    super(message);
    this.reason = reason;
    this.what = what;
  }
}

/** Opens the session: what the page is about. Each token that may be known is tried: an earlier run may have had it. */
export async function open() {
  // A link must not make somebody else of the user.
  const found = IN_CLUSTER ? null : /^#token=([0-9a-f]+)$/.exec(location.hash);
  if (found) {
    given = found[1];
    history.replaceState(null, "", location.pathname + location.search);
  }
  refusal = null;
  // Where a proxy adds the token, the page has none.
  for (const candidate of [given, sessionStorage.getItem(KEY), IN_CLUSTER ? "" : null]) {
    const opened = candidate !== null && (await present(candidate));
    // Without an answer it is tried again.
    if (candidate === given) given = null;
    if (opened) return opened;
  }
  const opened = await askTabs();
  if (opened) return opened;
  throw new Failure("token", refusal ?? "There is no token.");
}

/** The namespace that was chosen. */
export function place() {
  return sessionStorage.getItem(PLACE) ?? "";
}

/** Begins anew, with this token if there is one, and this namespace: nothing that was shown to another user is kept. */
export function signIn(own, namespace) {
  if (own) sessionStorage.setItem(KEY, own);
  if (namespace) sessionStorage.setItem(PLACE, namespace);
  else sessionStorage.removeItem(PLACE);
  location.reload();
}

/** Forgets the token, in all tabs, and begins anew. */
export function signOut() {
  sessionStorage.removeItem(KEY);
  tabs.postMessage("sign out");
  location.reload();
}

/** The session that a token opens; null if it opens none. */
async function present(candidate) {
  try {
    const { data } = await request("/api/session", candidate);
    token = data.token ?? candidate;
    if (token) sessionStorage.setItem(KEY, token);
    return data;
  } catch (failure) {
    if (failure.reason !== "token") throw failure;
    refusal ??= failure.message;
    forget(candidate);
    return null;
  }
}

/** A token that the server does not accept is no use to this tab, nor to others. */
function forget(dead) {
  if (token === dead) token = null;
  if (sessionStorage.getItem(KEY) === dead) sessionStorage.removeItem(KEY);
}

/** The session that the token of another tab opens; null if none does. */
async function askTabs() {
  const tried = new Map();
  let finish;
  const first = new Promise((resolve) => {
    finish = resolve;
  });
  const hear = ({ data }) => {
    if (!data?.token || tried.has(data.token)) return;
    tried.set(data.token, present(data.token).then((opened) => opened && finish(opened)));
  };
  tabs.addEventListener("message", hear);
  tabs.postMessage("token?");
  const time = new Promise((resolve) => {
    setTimeout(resolve, TAB_ANSWERS_WITHIN);
  });
  try {
    return await Promise.race([first, time.then(() => Promise.all(tried.values())).then(() => null)]);
  } finally {
    tabs.removeEventListener("message", hear);
  }
}

/** What the server answers; without data if it is as `etag` says. */
export async function ask(path, etag = null, signal = null) {
  const presented = token ?? "";
  try {
    return await request(path, presented, etag, signal);
  } catch (failure) {
    if (failure.reason === "token") forget(presented);
    throw failure;
  }
}

async function request(path, presented, etag = null, signal = null) {
  const headers = {};
  if (presented) headers.Authorization = `Bearer ${presented}`;
  if (IN_CLUSTER && place()) headers["Sluice-Namespace"] = place();
  if (etag) headers["If-None-Match"] = etag;
  const limit = AbortSignal.timeout(ANSWER_WITHIN);
  const either = signal ? AbortSignal.any([signal, limit]) : limit;
  // A proxy knows the user by a cookie of its own.
  const credentials = IN_CLUSTER ? "same-origin" : "omit";
  let response;
  try {
    response = await fetch(path, { headers, cache: "no-store", credentials, redirect: "error", signal: either });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new Failure("gone", IN_CLUSTER ? "The server of this page does not answer." : "kubectl sluice web does not answer.");
  }
  if (response.status === 304) return { data: null, etag };
  if (response.status === 401) throw new Failure("token", await response.text());
  const body = await response.json().catch(() => null);
  if (response.ok && body) return { data: body, etag: response.headers.get("ETag") };
  const problem = body?.problem;
  throw new Failure(problem?.reason ?? "Unanswered", problem?.message ?? `The server answered ${response.status}.`, problem?.what);
}
