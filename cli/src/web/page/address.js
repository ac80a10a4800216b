// The query of the address: what is searched for, and which page is shown.

/** The address with these changes of its query; what is empty is left out. */
export function withQuery(changes) {
  const query = new URLSearchParams(location.search);
  for (const [name, value] of Object.entries(changes)) {
    if (value) query.set(name, value);
    else query.delete(name);
  }
  const text = query.toString();
  return text ? `${location.pathname}?${text}` : location.pathname;
}

/** By what a view is refined. All else in the query says which page of a list is shown. */
const REFINES = new Set(["search", "namespace", "state"]);

/** What asks for something else begins at the first page of each list. */
export function refined(changes) {
  const pages = [...new URLSearchParams(location.search).keys()].filter((name) => !REFINES.has(name));
  return withQuery({ ...Object.fromEntries(pages.map((name) => [name, null])), ...changes });
}
