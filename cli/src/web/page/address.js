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

/** What asks for something else begins at its first page. */
export function refined(changes) {
  return withQuery({ page: null, holding: null, ...changes });
}
