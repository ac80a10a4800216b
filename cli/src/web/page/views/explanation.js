// Why a job waits: what it lacks, who is ahead, who holds that, and who has to end, as visibility.sluice.dev says.

import { h } from "../dom.js";
import { jobLink } from "../parts.js";
import { table } from "../table.js";

/** The explanation of a job of this namespace. `query` says which page of the flavors. */
export function explanation(told, namespace, query) {
  const rows = [
    ["Ahead", ahead(told, namespace)],
    ["Ever fits", told.canEverBeAdmitted === false ? "No: it requests more than the ClusterQueue can ever provide, or no flavor suits its pods" : null],
    ["Lacks", told.lacking?.map(({ flavor, resource, amount }) => `${resource} ${amount} in flavor ${flavor}`).join("; ")],
    ["In use by", told.heldBy?.map(holding)],
    ["Stopping", workloads(told.stopping, namespace)],
    ["Waits for", workloads(told.hasToEnd, namespace)],
    ["Got", told.podSetAssignments?.map(({ name, flavors }) =>
      `${name}: ${Object.entries(flavors ?? {}).map(([resource, flavor]) => `${resource} from ${flavor}`).join(", ")}`).join("; ")],
  ].filter(([, value]) => (Array.isArray(value) ? value.length : value));
  const tried = (told.flavors ?? []).flatMap(lines);
  if (!rows.length && !tried.length) return null;
  return [
    h("h2", null, told.state === "Admitted" ? "What it got" : "Why it waits"),
    rows.length > 0 && h("div.sheet", null, h("dl.facts", null, rows.map(([name, value]) => [h("dt", null, name), h("dd", null, value)]))),
    tried.length > 0 && [h("h2", null, "Flavors, in the order in which they are tried"), flavors(tried, query)],
  ];
}

function ahead({ ahead: before, positionInClusterQueue: position }, namespace) {
  if (position === undefined || !before) return null;
  return position === 0 ? "Nobody in the ClusterQueue" : [`${position} in the ClusterQueue: `, workloads(before, namespace)];
}

function workloads(list, namespace) {
  if (!list) return null;
  const parts = (list.items ?? []).map(({ name, job }) => (job ? jobLink({ namespace, group: job.apiGroup, kind: kindOf(name, job), name: job.name }) : name));
  const more = (list.inNamespace ?? 0) - parts.length;
  if (more > 0) parts.push(`${more} more of this namespace`);
  if (list.inOtherNamespaces > 0) parts.push(`${list.inOtherNamespaces} of other namespaces`);
  return parts.flatMap((part, index) => (index ? [", ", part] : [part]));
}

/** A pod that stands for itself has the name of its Workload; else it is a group. */
function kindOf(name, job) {
  return job.kind === "Pod" && job.name !== name ? "PodGroup" : job.kind;
}

function holding({ flavor, resource, inNamespace, inClusterQueue, inCohort }) {
  const part = (sum, place) => (sum?.count > 0 ? `${sum.count} ${place} ${sum.count === 1 ? "holds" : "hold"} ${sum.amount}` : null);
  const parts = [part(inNamespace, "of this namespace"), part(inClusterQueue, "of others in the ClusterQueue"), part(inCohort, "of others in the cohort")];
  return h("div", null, `${resource} in flavor ${flavor}: ${parts.filter(Boolean).join(", ")}`);
}

function lines({ podSet, name, reason, message, resources }) {
  if (!resources?.length) return [{ podSet, name, reason, message, resource: {} }];
  return resources.map((resource) => ({ podSet, name, reason, message: null, resource }));
}

function flavors(rows, query) {
  return table({
    label: "Flavors that were tried",
    rows,
    query,
    noun: "result",
    pages: "tried",
    key: ({ podSet, name, resource }) => `${podSet}/${name}/${resource.name ?? ""}`,
    columns: [
      { title: "Flavor", cell: ({ name, podSet }) => [h("span.name", null, name), h("span.tag", null, ` ${podSet}`)] },
      { title: "Result", cell: ({ reason, message }) => [reason, message && h("span.sub", null, message)] },
      { title: "Resource", cell: ({ resource }) => resource.name },
      { title: "Requested", kind: "number", cell: ({ resource }) => resource.requested },
      { title: "Free", kind: "number", cell: ({ resource }) => resource.free },
      { title: "Lacking", kind: "number", cell: ({ resource }) => resource.lacking },
      { title: "Most", kind: "number", cell: ({ resource }) => resource.most },
      { title: "Limit", cell: ({ resource }) => resource.limitedBy },
    ],
  });
}
