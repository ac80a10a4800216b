// One job: how it stands, why it waits, and its life.

import { h } from "../dom.js";
import { asker, estimates, start } from "../estimates.js";
import { moment, requests } from "../format.js";
import { bars, localQueueLink, plain, queueLink, since, state } from "../parts.js";
import { explanation } from "./explanation.js";

export const view = {
  name: "jobs",
  title: ({ parts }) => parts[2],
  path: ({ parts }) => {
    const [namespace, kind, name] = parts.map(encodeURIComponent);
    return `/api/namespaces/${namespace}/jobs/${kind}/${name}`;
  },
  estimates: (route) => `${view.path(route)}/start`,
  isEstimatedAtOnce: ({ explained }) => explained?.job.state === "Pending",
  render(data, route) {
    const { explained, gates, turns } = data;
    const [namespace, kind, name] = route.parts;
    const job = explained?.job;
    const estimated = view.isEstimatedAtOnce(data) ? estimates(view.estimates(route)) : null;
    return [
      h("div.head", null,
        h("p.crumb", null, h("a", { href: "/jobs" }, "Jobs"), " / ", h("a", { href: `/jobs?namespace=${encodeURIComponent(namespace)}` }, namespace)),
        h("h1", null, name), h("span.sum", null, plain(kind)), job && state(job.state)),
      job?.state !== "Admitted" && job?.message && h("p.says", null, job.message),
      !job && h("p.says", null, gates.length ? "Gates hold it: it is not queued yet." : "It is not queued: Sluice has no Workload for it."),
      h("div.two", null,
        h("div", null,
          h("h2", null, "How it stands"),
          h("div.sheet", null, facts(explained, gates, estimated)),
          explained?.explanation && explanation(explained.explanation, namespace, route.query),
          explained?.queue?.resources.length > 0 && [h("h2", null, `Quota of ${explained.queue.name}`),
            h("div.sheet", null, h("div.pad", null, bars(explained.queue.resources)))]),
        h("div", null, h("h2", null, "Its life"), h("div.sheet", null, life(turns)))),
    ];
  },
};

function facts(explained, gates, estimated) {
  const job = explained?.job;
  const of = (number, all) => (number === undefined ? null : all === undefined ? String(number) : `${number} of ${all}`);
  const rows = [
    ["LocalQueue", job?.queue && localQueueLink(job.namespace, job.queue)],
    ["ClusterQueue", explained?.clusterQueue && queueLink(explained.clusterQueue)],
    ["Since", job?.since && [since(job.since), ` (${moment(job.since)})`]],
    ["Priority", job && String(job.priority)],
    ["Place", job && of(job.place, job.pending)],
    ["Start", estimated && [estimated.starts?.map(start), asker(estimated, "Estimate")]],
    ["Ahead", !explained?.explanation && explained?.ahead.length ? someOf(explained.ahead) : null],
    ["Requests", requests(explained?.requests)],
    ["Gates", gates.join(", ")],
    ["Reason", job?.reason !== job?.state && job?.reason],
    ["Workload", job?.workload],
  ];
  return h("dl.facts", null, rows.filter(([, value]) => value).map(([name, value]) => [h("dt", null, name), h("dd", null, value)]));
}

function someOf(names) {
  const more = names.length - 5;
  return names.slice(0, 5).join(", ") + (more > 0 ? ` and ${more} more` : "");
}

function life(turns) {
  return h("ol.life", null, turns.map(({ at, what, title, by, reason, message, count }) =>
    h("li", { "data-what": what },
      at && h("time.when", { datetime: at }, moment(at)),
      h("span.name", null, title), by && ` by ${by}`, count && h("span.tag", null, ` ${count} times`),
      reason && reason !== title && h("span.sub", null, reason),
      message && h("span.sub", null, message))));
}
