// Jobs of all kinds: search, by namespace and state, in the order of their queues.

import { refined } from "../address.js";
import { h } from "../dom.js";
import { count } from "../format.js";
import { empty, head, jobKey, jobLink, localQueueLink, matcher, search, since, state, why } from "../parts.js";
import { table } from "../table.js";

/** The namespaces of jobs that were shown. The answer about one of them does not name the others. */
const seen = new Set();

const STATES = ["Gated", "OnHold", "Pending", "Admitted", "Evicted", "Inactive", "Finished"];

export const view = {
  name: "jobs",
  title: () => "Jobs",
  // Who may not list all namespaces may still list this one.
  path: ({ query }) => {
    const namespace = query.get("namespace");
    return namespace ? `/api/namespaces/${encodeURIComponent(namespace)}/jobs` : "/api/jobs";
  },
  render({ jobs }, { query }) {
    const namespace = query.get("namespace") ?? "";
    for (const job of jobs) seen.add(job.namespace);
    const namespaces = [...new Set([...seen].concat(namespace || []))].sort();
    const has = matcher(query);
    const found = jobs.filter((job) => (!namespace || job.namespace === namespace)
      && has(job.namespace, job.kind, job.name, job.queue, job.reason));
    const wanted = query.get("state") ?? "";
    const rows = found.filter((job) => (wanted ? job.state === wanted : job.state !== "Finished"));
    return [
      head("Jobs", h("span.sum", null, count(rows.length, "job"))),
      h("div.tools", null,
        search(query, "name, kind, queue, reason"),
        (namespaces.length > 1 || namespace) && choice(namespaces, namespace),
        filters(found, wanted)),
      rows.length ? list(rows, query, !namespace && namespaces.length > 1) : empty(jobs.length ? "No job is like that." : "There is no job here."),
    ];
  },
};

function choice(namespaces, chosen) {
  const option = (value, text) => h("option", { value, selected: value === chosen }, text);
  return h("label.field", null, h("span", null, "Namespace"),
    h("select", { "data-param": "namespace" }, option("", "all"), namespaces.map((name) => option(name, name))));
}

function filters(jobs, wanted) {
  const numbers = Object.groupBy(jobs, (job) => job.state);
  const link = (value, text, number) => h("li", { "data-key": text },
    h("a", { href: refined({ state: value }), "aria-current": value === wanted ? "true" : null }, `${text} ${number}`));
  const all = jobs.length - (numbers.Finished?.length ?? 0);
  return h("nav", { "aria-label": "States" }, h("ul.filters", null, link("", "Not finished", all),
    STATES.filter((name) => numbers[name] || name === wanted).map((name) => link(name, name, numbers[name]?.length ?? 0))));
}

function list(rows, query, hasNamespaces) {
  return table({
    label: "Jobs",
    rows,
    query,
    noun: "job",
    key: (job) => `${jobKey(job)}/${job.workload ?? ""}`,
    columns: [
      { title: "Job", cell: (job) => [jobLink(job), h("span.tag", null, ` ${job.kind}`)] },
      hasNamespaces && { title: "Namespace", cell: ({ namespace }) => namespace },
      { title: "Queue", cell: ({ namespace, queue }) => queue && localQueueLink(namespace, queue) },
      { title: "State", kind: "narrow", cell: (job) => state(job.state) },
      { title: "Place", kind: "number", cell: ({ place, pending }) => place && `${place} of ${pending}` },
      { title: "Since", kind: "number", cell: (job) => since(job.since) },
      { title: "Why", kind: "wide", cell: reasons },
    ].filter(Boolean),
  });
}

function reasons({ state: name, reason, message, ahead }) {
  if (name === "Admitted" || name === "Finished") return reason === name ? null : reason;
  return [why(reason === name ? "" : reason, message),
    ahead > 0 && h("span.sub", null, `${ahead} ahead in the ClusterQueue`)];
}
