// A table in pages. However long a list is, only one page of it is on the page.

import { withQuery } from "./address.js";
import { h } from "./dom.js";
import { count } from "./format.js";

const ROWS = 100;

/**
 * `columns` are `{title, cell, kind}`. `kind` is a class: number, narrow, wide, full. The one with `heads`, or the first
 * one, is the header of its row.
 * `pages` names the parameter of the address that says which page; each list of a view has its own.
 */
export function table({ label, columns, rows, key, group, query, noun = "row", pages = "page" }) {
  const header = columns.find(({ heads }) => heads) ?? columns[0];
  const last = Math.max(1, Math.ceil(rows.length / ROWS));
  const page = Math.min(last, Math.max(1, Number.parseInt(query.get(pages) ?? "1", 10) || 1));
  const shown = rows.slice((page - 1) * ROWS, page * ROWS);
  return h("div.sheet", null,
    h("table.stacks", { "aria-label": label, "aria-rowcount": rows.length + 1 },
      h("thead", null, h("tr", { "aria-rowindex": 1 }, columns.map(({ title, kind }) => h("th", { scope: "col", class: kind }, title)))),
      h("tbody", null, shown.map((row, index) =>
        h("tr", { "data-key": key(row), "aria-rowindex": (page - 1) * ROWS + index + 2, class: group?.(row) ? "group" : null }, columns.map((column) => cell(column, row, column === header)))))),
    last > 1 && turn(page, last, rows.length, pages, noun));
}

function cell({ title, cell: content, kind }, row, isHeader) {
  const inside = [content(row)].flat(Infinity).filter((part) => part !== null && part !== undefined && part !== false && part !== "");
  if (isHeader) return h("th", { scope: "row", class: kind }, inside);
  return h("td", { class: [kind, inside.length ? null : "none"].filter(Boolean).join(" ") || null, "data-column": title }, h("div", null, inside));
}

function turn(page, last, total, name, noun) {
  // With keys, as the one that has the focus must not become the other.
  const link = (to, text) => (to < 1 || to > last ? null : h("a", { "data-key": text, href: withQuery({ [name]: to > 1 ? to : null }) }, text));
  return h("nav.pages", { "aria-label": "Pages" },
    h("span", null, `${(page - 1) * ROWS + 1}–${Math.min(total, page * ROWS)} of ${count(total, noun)}`),
    link(page - 1, "Previous"), link(page + 1, "Next"));
}
