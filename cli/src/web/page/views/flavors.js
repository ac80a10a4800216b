// Flavors: the nodes that they stand for, and who has quota in them.

import { h } from "../dom.js";
import { count } from "../format.js";
import { bar, empty, head, legend, matcher, queueLink, search } from "../parts.js";
import { table } from "../table.js";

export const view = {
  name: "flavors",
  title: () => "Flavors",
  path: () => "/api/flavors",
  render({ flavors }, { query }) {
    const has = matcher(query);
    const found = flavors.filter(({ name, quotas }) => has(name, ...quotas.map(({ queue }) => queue)));
    return [
      head("Flavors", h("span.sum", null, count(flavors.length, "flavor"))),
      h("div.tools", null, search(query, "flavor or queue"), flavors.length > 0 && legend()),
      found.map((one) => flavor(one, query)),
      !found.length && empty(flavors.length ? "No flavor is like that." : "There is no ResourceFlavor that you may see."),
    ];
  },
};

function flavor({ name, spec, quotas }, query) {
  const labels = Object.entries(spec?.nodeLabels ?? {}).map(([key, value]) => `${key}=${value}`);
  const taints = (spec?.nodeTaints ?? []).map(({ key, value, effect }) => `${key}${value ? `=${value}` : ""}:${effect}`);
  return h("section", { "data-key": name, "aria-label": name },
    h("h2", null, name),
    !spec && h("p.sum", null, "There is no such ResourceFlavor, or none that you may see."),
    chips("Node labels", labels), chips("Taints", taints),
    quotas.length > 0 && table({
      label: `Quota in ${name}`,
      rows: quotas,
      query,
      noun: "quota",
      pages: `quota-${name}`,
      key: ({ kind, queue, name: resource }) => `${kind}/${queue}/${resource}`,
      columns: [
        { title: "Queue", cell: owner },
        { title: "Resource", cell: (quota) => quota.name },
        // What is used of the quota of a cohort is told of the cohort as a whole, with what its queues lend.
        { title: "Usage", kind: "wide full", cell: (quota) => quota.used !== undefined && bar(quota) },
        { title: "Used", kind: "number", cell: ({ used }) => used },
        { title: "Nominal", kind: "number", cell: ({ nominal }) => nominal },
        { title: "Borrowed", kind: "number", cell: ({ borrowed }) => (borrowed === "0" ? null : borrowed) },
        { title: "Lent", kind: "number", cell: ({ lent }) => (lent === "0" ? null : lent) },
      ],
    }));
}

function owner({ kind, queue }) {
  if (kind === "Cohort") return [h("span.name", null, queue), h("span.tag", null, " cohort")];
  return h("span.name", null, queueLink(queue));
}

function chips(title, texts) {
  if (!texts.length) return null;
  return h("div.tools", null, h("span.tag", null, title), h("ul.chips", null, texts.map((text) => h("li", null, text))));
}
