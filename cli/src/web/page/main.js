// The page: opens the session, shows the view of the address, and keeps it up to date. What a view shows is its own
// business; loading, failing, and what is missing are told here, the same for all views.

import { refined } from "./address.js";
import { h, show } from "./dom.js";
import { estimate, estimates, isUnknown } from "./estimates.js";
import { moment } from "./format.js";
import { account, failurePanel, notes } from "./parts.js";
import { poll } from "./poll.js";
import { current, follow } from "./router.js";
import { IN_CLUSTER, open, place, signIn, signOut } from "./session.js";

const main = document.getElementById("main");
const banner = document.getElementById("banner");
const announcer = document.getElementById("announce");
const freshness = document.getElementById("freshness");

/** Pause before an estimate is asked for again that has to wait for its turn: the server keeps its place for 15 s. */
const ESTIMATE_AGAIN = 5000;
/** Pause before a session that could not be opened is tried again: another tab may have a token meanwhile. */
const OPEN_AGAIN = 5000;

let session = null;
/** Whether the user wants to say who he is, or has to. */
let isSigningIn = false;
/** How often a session was to be opened; only the latest time counts. */
let begun = 0;
let again = null;
let stop = null;
let asked = null;
let data = null;
let failure = null;
let at = null;
/** What is older is no longer called live. */
const LIVE = 10_000;

/**
 * Shows the view of the address; asks for its data if that is another question than before. Where the reader `refines` a
 * view, it stays as it is until the answer is there.
 */
function arrive({ isFirst = false, refines = false } = {}) {
  const route = current();
  const path = route?.view.path(route, session) ?? null;
  isSigningIn = false;
  mark(route);
  if (path !== asked || !path) {
    stop?.();
    [asked, failure] = [path, null];
    if (!refines) [data, at] = [null, null];
    if (path) stop = poll(path, news, failed);
    if (!isFirst && !refines) main.focus();
    if (!refines) window.scrollTo(0, 0);
  }
  draw();
}

function news(answer) {
  const isFirst = data === null;
  [data, failure, at] = [answer, null, new Date()];
  draw();
  if (isFirst) announce(`${document.title.split(" · ")[0]} loaded`);
  askForEstimates(current());
}

/** Asks for what is estimated at once, and again for what could not be as another estimate was under way. */
function askForEstimates(route) {
  if (!route?.view.estimates) return;
  const path = route.view.estimates(route);
  const known = estimates(path);
  const isWanted = route.view.isEstimatedAtOnce?.(data) ?? known.isBusy;
  if (isWanted && isUnknown(known)) estimate(path, draw);
}

function failed(why) {
  tellFailure(why);
  // The plugin may have been started anew, at the same port.
  if (why.reason === "token") begin();
}

function tellFailure(why) {
  if (failure?.message !== why.message) announce(why.message);
  failure = why;
  draw();
}

function draw() {
  // What is typed stays.
  if (isSigningIn) return;
  const route = current();
  const title = route ? route.view.title(route) : "Not found";
  document.title = `${title} · Sluice`;
  if (!route) {
    show(main, failurePanel("There is no such view", "The address names none.", "h1"));
  } else if (data) {
    show(main, route.view.render(data, route, session), notes(data.problems));
  } else if (failure) {
    show(main, failurePanel(...words(failure), "h1"));
  } else {
    show(main, h("div.head", null, h("h1", null, title)), h("p.sum", { "aria-busy": "true" }, "Loading…"));
  }
  const isStale = failure !== null && data !== null;
  const [what, why] = isStale ? words(failure) : [];
  show(banner, isStale && h("p.banner", { role: "alert" }, `${what}: ${why} Shown is what was so at ${moment(at)}.`));
  fresh();
}

/** Tells how old what is shown is. The ages in it are those of then. */
function fresh() {
  if (isSigningIn) return;
  if (!current()) tell("live", "");
  else if (failure) tell("stale", at ? `Since ${moment(at)}` : "No answer");
  else if (!data) tell("loading", "Loading");
  else if (Date.now() - at > LIVE) tell("stale", `As of ${moment(at)}`);
  else tell("live", "Live");
}

/** A failure for people: what, and why. */
function words({ reason, message, what }) {
  switch (reason) {
    case "token":
      if (IN_CLUSTER) return ["You are not signed in", message];
      return ["This page is not open yet", "Open the address that kubectl sluice web printed: it holds a token. An address that it opened itself works once."];
    case "gone":
      if (IN_CLUSTER) return ["The server of this page does not answer", "Load the page again: a proxy before it may want you to sign in."];
      return ["kubectl sluice web has ended", "Start it again, and open the address that it prints."];
    case "Forbidden":
      return ["You may not see this", message];
    case "NotFound":
      return [`There is no such ${(what || "object").replace("the ", "")}`, message];
    case "Unserved":
      return ["Sluice is not installed, or not all of it", message];
    case "Unauthorized":
      return ["The cluster does not know you", message];
    default:
      return ["The cluster does not answer", message];
  }
}

/** Shows who the user is, or asks him. What another user has seen goes away. */
function askWho(why) {
  stop?.();
  [asked, data, failure, at, isSigningIn] = [null, null, null, null, true];
  document.title = `${session && !why ? "Account" : "Sign in"} · Sluice`;
  mark(null);
  show(banner);
  show(main, account(session?.user, place(), why));
  tell(why ? "stale" : "live", why ? "Not signed in" : "");
  main.querySelector("input")?.focus();
}

function tell(state, text) {
  freshness.dataset.state = state;
  if (freshness.textContent !== text) freshness.textContent = text;
}

function announce(text) {
  announcer.textContent = text;
}

/** Which of the views the address belongs to. */
function mark(route) {
  for (const link of document.querySelectorAll("[data-view]")) {
    if (link.dataset.view === route?.view.name) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
}

/** Each with the one that follows, and its name. */
const THEMES = { auto: ["dark", "Auto"], dark: ["light", "Dark"], light: ["auto", "Light"] };

/** The colors: as the system has them, dark, or light. */
function paint(theme) {
  const [, text] = THEMES[theme];
  if (theme === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  const button = document.getElementById("theme");
  button.textContent = text;
  button.setAttribute("aria-label", `${text} colors`);
  button.onclick = () => {
    const [next] = THEMES[theme];
    sessionStorage.setItem("theme", next);
    paint(next);
  };
}

function listen() {
  follow(() => session && arrive());
  // Answers stop coming while the page is hidden, and may take long.
  setInterval(fresh, 1000);
  setInterval(() => data && !document.hidden && askForEstimates(current()), ESTIMATE_AGAIN);
  document.addEventListener("visibilitychange", fresh);
  // The address with a new token, put into a tab that shows the page already, loads nothing.
  window.addEventListener("hashchange", () => {
    if (location.hash.startsWith("#token=")) begin();
  });
  for (const kind of ["input", "change"]) {
    document.addEventListener(kind, ({ target }) => {
      if (!target.dataset?.param) return;
      history.replaceState(null, "", refined({ [target.dataset.param]: target.value }));
      arrive({ refines: true });
    });
  }
  document.addEventListener("click", ({ target }) => {
    const path = target.dataset?.estimate;
    if (path) estimate(path, draw);
    if (target.dataset?.signOut !== undefined) signOut();
    if (target.id === "account") askWho(null);
  });
  document.addEventListener("submit", (event) => {
    event.preventDefault();
    const typed = new FormData(event.target);
    signIn(typed.get("token").replace(/\s/g, ""), typed.get("namespace").trim());
  });
  document.addEventListener("keydown", (event) => {
    const search = document.querySelector("input[type=search]");
    const isTyping = event.target.matches?.("input, select, textarea");
    if (event.key === "/" && search && !isTyping && !event.ctrlKey && !event.metaKey && !event.altKey) {
      event.preventDefault();
      search.focus();
    }
  });
}

/** Opens the session, by the token in the address if there is one, and shows what the address says. */
async function begin() {
  stop?.();
  clearTimeout(again);
  asked = null;
  begun += 1;
  const own = begun;
  let opened;
  try {
    opened = await open();
  } catch (why) {
    if (own !== begun) return;
    if (IN_CLUSTER && why.reason === "token") {
      askWho(why.message);
      return;
    }
    tellFailure(why);
    again = setTimeout(begin, OPEN_AGAIN);
    return;
  }
  if (own !== begun) return;
  session = opened;
  document.getElementById("server").textContent = session.user || session.server;
  document.getElementById("account").hidden = !IN_CLUSTER;
  arrive({ isFirst: true });
}

paint(Object.hasOwn(THEMES, sessionStorage.getItem("theme")) ? sessionStorage.getItem("theme") : "auto");
listen();
begin();
