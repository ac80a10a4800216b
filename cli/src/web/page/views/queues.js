// The tree of cohorts and ClusterQueues, and the LocalQueues.

import { h } from "../dom.js";
import { count } from "../format.js";
import { bars, empty, head, legend, localQueueLink, matcher, queueLink, search } from "../parts.js";
import { table } from "../table.js";

export const view = {
  name: "queues",
  title: () => "Queues",
  path: () => "/api/queues",
  render({ nodes, localQueues }, { query }) {
    const queues = nodes.filter(({ kind }) => kind === "ClusterQueue");
    const has = matcher(query);
    const found = matching(nodes, has);
    const local = localQueues.filter(({ namespace, name, clusterQueue }) => has(namespace, name, clusterQueue));
    return [
      head("Queues", h("span.sum", null, sums(queues, localQueues))),
      h("div.tools", null, search(query, "queue or cohort"), nodes.length > 0 && legend()),
      nodes.length > 0 && (found.length ? tree(found, query) : empty("No ClusterQueue or cohort is like that.")),
      h("h2", null, "LocalQueues"),
      local.length ? locals(local, query) : empty(localQueues.length ? "No LocalQueue is like that." : "There is no LocalQueue here."),
    ];
  },
};

function sums(queues, localQueues) {
  const sum = (list, field) => list.reduce((total, one) => total + (one[field] ?? 0), 0);
  const counted = queues.length ? queues : localQueues;
  const parts = [
    queues.length ? count(queues.length, "ClusterQueue") : count(localQueues.length, "LocalQueue"),
    `${sum(counted, "pending")} pending`, `${sum(counted, "admitted")} admitted`, `${sum(localQueues, "gated")} gated`,
  ];
  return parts.join(" · ");
}

/** The nodes that are searched for, with what they are in and what is in them. */
function matching(nodes, has) {
  const above = [];
  const kept = new Set();
  for (const node of nodes) {
    above.length = node.depth;
    const isWithin = above.some((one) => has(one.name));
    above[node.depth] = node;
    if (isWithin) kept.add(node);
    else if (has(node.name)) above.forEach((one) => kept.add(one));
  }
  return nodes.filter((node) => kept.has(node));
}

function tree(nodes, query) {
  const parents = [];
  const rows = nodes.map((node) => {
    parents.length = node.depth;
    parents[node.depth] = node.name;
    return { ...node, parent: parents[node.depth - 1] };
  });
  const number = (field) => (row) => row[field] ?? null;
  return table({
    label: "Cohorts and ClusterQueues",
    rows,
    query,
    pages: "nodes",
    key: ({ kind, name }) => `${kind}/${name}`,
    group: ({ kind }) => kind === "Cohort",
    columns: [
      { title: "Queue", cell: nodeName },
      { title: "Gated", kind: "number", cell: number("gated") },
      { title: "Pending", kind: "number", cell: number("pending") },
      { title: "Admitted", kind: "number", cell: number("admitted") },
      { title: "Quota", kind: "widest full", cell: ({ resources }) => resources.length > 0 && bars(resources) },
    ],
  });
}

function nodeName({ kind, name, depth, parent, inactive, weightedShare }) {
  return h(`div.depth-${Math.min(depth, 4)}`, null,
    kind === "Cohort" ? h("span.name", null, name) : h("span.name", null, queueLink(name)),
    kind === "Cohort" && h("span.tag", null, " cohort"),
    parent && h("span.visually-hidden", null, ` in ${parent}`),
    weightedShare !== undefined && h("span.sub", null, `share ${weightedShare} ‰`),
    inactive && h("span.sub", null, `Admits nothing: ${inactive}`));
}

function locals(rows, query) {
  return table({
    label: "LocalQueues",
    rows,
    query,
    noun: "LocalQueue",
    key: ({ namespace, name }) => `${namespace}/${name}`,
    columns: [
      { title: "LocalQueue", cell: ({ namespace, name, inactive }) => [h("span.name", null, localQueueLink(namespace, name)), inactive && h("span.sub", null, `Admits nothing: ${inactive}`)] },
      { title: "Namespace", cell: ({ namespace }) => namespace },
      { title: "ClusterQueue", cell: ({ clusterQueue }) => queueLink(clusterQueue) },
      { title: "Gated", kind: "number", cell: ({ gated }) => gated },
      { title: "Pending", kind: "number", cell: ({ pending }) => pending },
      { title: "Admitted", kind: "number", cell: ({ admitted }) => admitted },
      { title: "Holds", cell: ({ usage }) => usage },
    ],
  });
}
