// Gates: what each waits for, whom to ask, what it holds and for how long.

import { h } from "../dom.js";
import { age, count, span } from "../format.js";
import { empty, head, jobKey, jobLink, matcher, plain, search, since } from "../parts.js";

export const view = {
  name: "gates",
  title: () => "Gates",
  path: () => "/api/gates",
  render({ gates, others }, { query }) {
    const has = matcher(query);
    const known = gates.filter(({ gate, object: { spec } }) => has(gate, spec.description, spec.contact));
    const named = others.filter(({ gate }) => has(gate));
    const all = gates.length + others.length;
    const held = gates.reduce((sum, { object }) => sum + (object.status?.held ?? 0), 0);
    return [
      head("Gates", h("span.sum", null, `${count(all, "gate")} · ${held} held`)),
      h("div.tools", null, search(query, "gate, contact")),
      known.map(withObject),
      named.map(withoutObject),
      !known.length && !named.length && empty(all ? "No gate is like that." : "There is no Gate, and no gate holds anything that you may see. A gate works without a Gate: see kubectl sluice gates show."),
    ];
  },
};

function withObject({ gate, object: { metadata, spec, status } }) {
  const { deadline } = spec;
  const oldest = status?.oldest ?? [];
  const bad = (status?.conditions ?? []).filter(({ type, status: is }) => (type === "Backlogged" ? is === "True" : is === "False"));
  const rows = [
    ["Waits for", spec.description],
    ["Contact", spec.contact],
    ["Lifted", way(spec)],
    ["May lift", spec.lifting === "Anyone" ? "whoever may edit the object" : `who has the verb lift on gates.sluice.dev/${metadata.name}`],
    ["Deadline", deadline && `${span(deadline.seconds)} after creation, then ${deadline.onExpiry ?? "Notify"}`],
    ["Oldest", status?.oldestSince && [since(status.oldestSince), overdue(deadline, status.oldestSince)]],
    ["So far", status && `${status.liftedTotal ?? 0} lifted, ${status.expiredTotal ?? 0} expired`],
    ...bad.map(({ type, message, reason }) => [type, message || reason]),
  ];
  return card(gate, status?.held ?? 0, rows, oldest);
}

function overdue(deadline, oldest) {
  const late = deadline && Date.parse(oldest) + deadline.seconds * 1000 < Date.now();
  return late ? `, past its deadline for ${age(new Date(Date.parse(oldest) + deadline.seconds * 1000).toISOString())}` : null;
}

function way({ schedule, after, counter }) {
  if (schedule) return "by its schedule";
  if (after) return "after another object";
  if (counter) return `${counter.limit} at a time`;
  return "by somebody";
}

function withoutObject({ gate, held }) {
  const rows = [["Gate", "no such object, or none that you may see"], ["Oldest", since(held[0]?.since)]];
  return card(gate, held.length, rows, held);
}

function card(gate, held, rows, oldest) {
  return h("section.sheet.gate", { "data-key": gate, "aria-label": gate },
    h("div.title", null, h("h2", null, gate), h("span.held", null, `${held} held`)),
    h("dl.facts", null, rows.filter(([, value]) => value).map(([name, value]) => [h("dt", null, name), h("dd", null, value)])),
    oldest.length > 0 && h("details", null, h("summary", null, "Held the longest"),
      h("ul", null, oldest.map((object) => h("li", { "data-key": jobKey(object) },
        jobLink(object), h("span.tag", null, ` ${plain(object.kind)} in ${object.namespace}, `), since(object.since))))));
}
