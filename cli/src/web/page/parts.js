// What several views are made of: links to jobs and queues, states, times, bars, notes. Each makes elements of data.

import { h } from "./dom.js";
import { age, amount, isSome, moment } from "./format.js";

/** The kind of a job with its API group, as several groups may have a kind of one name. A kind may bring its group. */
function whole({ group, kind }) {
  return group ? `${kind}.${group}` : kind;
}

/** A kind without its group. */
export function plain(kind) {
  return kind.split(".")[0];
}

/** What tells a job from all others. */
export function jobKey(job) {
  return `${job.namespace}/${whole(job)}/${job.name}`;
}

export function jobLink(job) {
  const path = [job.namespace, whole(job), job.name].map(encodeURIComponent).join("/");
  return h("a.name", { href: `/jobs/${path}` }, job.name);
}

export function queueLink(name) {
  return h("a", { href: `/clusterqueues/${encodeURIComponent(name)}` }, name);
}

export function localQueueLink(namespace, name, text = name) {
  return h("a", { href: `/localqueues/${encodeURIComponent(namespace)}/${encodeURIComponent(name)}` }, text);
}

export function state(name) {
  return h("span.state", { "data-state": name }, name);
}

/** A time as an age, with the moment on the pointer. */
export function since(time) {
  return time ? h("time", { datetime: time, title: moment(time) }, age(time)) : null;
}

/** What is used of a quota: nominal, borrowed on top of it, lent to others. The numbers stand beside it. */
export function bar({ nominal, used, borrowed, lent }) {
  const [quota, use, over, away] = [amount(nominal), amount(used), amount(borrowed), amount(lent)];
  const whole = Math.max(quota, use);
  const part = (number) => (whole > 0 ? (1000 * Math.max(0, number)) / whole : 0);
  const own = part(use - over);
  const rect = (name, x, width) => width > 0 && h(`rect.${name}`, { x: x.toFixed(1), y: 0, width: Math.max(width, 6).toFixed(1), height: 10 });
  return h("svg.bar", { viewBox: "0 0 1000 10", preserveAspectRatio: "none", "aria-hidden": "true", focusable: "false" },
    rect("used", 0, own),
    rect("lent", part(quota - away), part(Math.min(away, quota))),
    rect("borrowed", own, part(over)),
    over > 0 && rect("mark", own - 3, 6));
}

/** The resources of a queue, a line each. */
export function bars(resources) {
  const flavors = new Set(resources.map(({ flavor }) => flavor));
  return h("ul.bars", null, resources.map((resource) => {
    const { flavor, name, nominal, used, borrowed, lent } = resource;
    const beside = [isSome(borrowed) && `${borrowed} borrowed`, isSome(lent) && `${lent} lent`].filter(Boolean).join(", ");
    return h("li", { "data-key": `${flavor}/${name}` },
      h("span.what", { title: `${name} in flavor ${flavor}` }, name, flavors.size > 1 && h("span.tag", null, ` ${flavor}`)),
      bar(resource),
      h("span.amount", null, used === undefined ? nominal : `${used} of ${nominal}`),
      h("span.beside", null, beside));
  }));
}

export function legend() {
  const key = (name, text) => h("li", null, h(`span.key.${name}`, { "aria-hidden": "true" }), text);
  return h("ul.legend", { "aria-label": "Bars" }, key("used", "used"), key("borrowed", "borrowed"), key("lent", "lent"), key("free", "free"));
}

/** A reason, and a line or two of its message. */
export function why(reason, message) {
  return [reason, message && h("span.sub.brief", { title: message }, message)];
}

/** A search field. What is typed stands in the address. */
export function search(query, label) {
  return h("label.field", null, h("span", null, "Search"),
    h("input", { type: "search", "data-param": "search", value: query.get("search") ?? "", placeholder: label, "aria-keyshortcuts": "/", autocomplete: "off", spellcheck: "false" }));
}

/** Whether a text has all words of the search. */
export function matcher(query) {
  const words = (query.get("search") ?? "").toLowerCase().split(/\s+/).filter(Boolean);
  return (...texts) => {
    if (!words.length) return true;
    const text = texts.join(" ").toLowerCase();
    return words.every((word) => text.includes(word));
  };
}

export function empty(text) {
  return h("p.panel", null, text);
}

export function head(title, ...beside) {
  return h("div.head", null, h("h1", null, title), beside);
}

/** What is not shown, and why. */
export function notes(problems) {
  if (!problems?.length) return null;
  return h("details.notes", { "data-key": "notes" },
    h("summary", null, `Not everything is shown (${problems.length})`),
    h("ul", null, problems.map(({ what, message }) => h("li", null, what ? `${what}: ${message}` : message))));
}

export function failurePanel(what, why, heading = "h2") {
  return h("div.panel", { role: "alert" }, h(heading, null, what), h("p.why", null, why));
}

/** Who the user is, where the page is served in a cluster; or, if that is not known, why he has to say it. */
export function account(user, namespace, unknown) {
  const field = (text, attributes, sub) => h("label.field", null, h("span", null, text),
    h("input", { autocomplete: "off", spellcheck: "false", ...attributes }), h("span.sub", null, sub));
  const who = user ? `You are ${user}.` : "The cluster does not say who you are.";
  return h("form.panel.account", null,
    h("h1", null, unknown ? "Sign in" : "Account"),
    h("p.why", { role: unknown ? "alert" : null }, unknown ? `Who you are is not known: ${unknown}.` : who),
    field("Token", { type: "password", name: "token", required: Boolean(unknown) }, "A token of the cluster, as kubectl create token prints it. This tab keeps it until it is closed, or you sign out."),
    field("Namespace", { name: "namespace", value: namespace }, "Where to look if you may not look into all namespaces."),
    h("p.acts", null, h("button", { type: "submit" }, unknown ? "Sign in" : "Change"), !unknown && h("button", { type: "button", "data-sign-out": "" }, "Sign out")));
}
