// One queue: its quota, who waits in order, and who holds quota.

import { h } from "../dom.js";
import { asker, estimates, start } from "../estimates.js";
import { count, requests } from "../format.js";
import { bars, empty, jobKey, jobLink, legend, localQueueLink, matcher, queueLink, search, since, state, why } from "../parts.js";
import { table } from "../table.js";

export const view = {
  name: "queues",
  title: ({ parts }) => parts.at(-1),
  path: ({ parts }) => {
    const [first, second] = parts.map(encodeURIComponent);
    return second === undefined ? `/api/clusterqueues/${first}` : `/api/namespaces/${first}/localqueues/${second}`;
  },
  estimates: (route) => `${view.path(route)}/starts`,
  render({ node, localQueues, total, pending, holding }, route) {
    const { parts, query } = route;
    const isLocal = parts.length > 1;
    const has = matcher(query);
    const found = (list) => list.filter((job) => has(job.namespace, job.kind, job.name, job.queue, job.reason));
    const [waits, holds] = [found(pending), found(holding)];
    const estimated = estimates(view.estimates(route));
    // Who may not read the queue does not know who else waits.
    const known = total !== undefined;
    return [
      h("div.head", null, h("p.crumb", null, h("a", { href: "/queues" }, "Queues"), isLocal ? ` / ${parts[0]}` : ""),
        h("h1", null, parts.at(-1)), h("span.sum", null, isLocal ? "LocalQueue" : "ClusterQueue")),
      h("div.tools", null, search(query, "job"), node?.resources.length > 0 && legend()),
      quota(node, localQueues, isLocal),
      h("h2", null, known ? `Waiting, in order (${total.toLocaleString("en")})` : `Those that you may list (${pending.length.toLocaleString("en")})`),
      known && total > pending.length && h("p.sum", null, `Listed are the first ${count(pending.length, "job")}.`),
      pending.length > 0 && h("div.tools", null, asker(estimated, "Estimate when they start")),
      waits.length ? waiting(waits, query, isLocal, known, estimated.starts) : empty(nobody(pending, known)),
      h("h2", null, `Holding quota (${holding.length.toLocaleString("en")})`),
      holds.length ? holders(holds, query, isLocal) : empty(holding.length ? "No job is like that." : "No job that you may see holds quota here."),
    ];
  },
};

function nobody(pending, known) {
  if (pending.length) return "No job is like that.";
  return known ? "Nobody waits." : "No job that you may list waits.";
}

function quota(node, localQueues, isLocal) {
  const own = localQueues[0];
  const inactive = (isLocal && own?.inactive) || node?.inactive;
  const facts = [
    isLocal && own && ["ClusterQueue", queueLink(own.clusterQueue)],
    isLocal && own?.usage && ["Holds", own.usage],
    isLocal && own && ["Gated", own.gated],
    inactive && ["Admits nothing", inactive],
  ].filter(Boolean);
  if (!node?.resources.length && !facts.length) return null;
  return h("div.sheet", null,
    facts.length > 0 && h("dl.facts", null, facts.map(([name, value]) => [h("dt", null, name), h("dd", null, value)])),
    node?.resources.length > 0 && h("div.pad", null, bars(node.resources)));
}

function job(one) {
  return [jobLink(one), h("span.tag", null, ` ${one.kind}`)];
}

function where(isLocal) {
  if (isLocal) return [];
  return [{ title: "LocalQueue", cell: ({ namespace, queue }) => (queue ? localQueueLink(namespace, queue, `${namespace} / ${queue}`) : namespace) }];
}

/** The column of starts, once these are estimated. A job that the reader may not list has none. */
function starts(estimated) {
  if (!estimated) return [];
  const of = new Map(estimated.map((one) => [jobKey(one), one]));
  return [{ title: "Start", cell: (job) => (of.has(jobKey(job)) ? start(of.get(jobKey(job))) : null) }];
}

function waiting(rows, query, isLocal, known, estimated) {
  return table({
    label: known ? "Waiting, in order" : "Those that you may list",
    rows,
    query,
    noun: "job",
    key: jobKey,
    columns: [
      known && { title: "Place", kind: "number", cell: ({ place }) => place },
      { title: "Job", heads: true, cell: job },
      ...where(isLocal),
      { title: "Priority", kind: "number", cell: ({ priority }) => priority },
      { title: "Since", kind: "number", cell: (one) => since(one.since) },
      { title: "Requests", cell: (one) => requests(one.requests) },
      ...starts(estimated),
      { title: "Why", kind: "wide", cell: ({ reason, message }) => why(reason, message) },
    ].filter(Boolean),
  });
}

function holders(rows, query, isLocal) {
  return table({
    label: "Holding quota",
    rows,
    query,
    noun: "job",
    pages: "holding",
    key: jobKey,
    columns: [
      { title: "Job", cell: job },
      ...where(isLocal),
      { title: "State", kind: "narrow", cell: (one) => state(one.state) },
      { title: "Since", kind: "number", cell: (one) => since(one.since) },
      { title: "Holds", cell: (one) => requests(one.requests) },
    ],
  });
}
