// Elements from texts, and how those on the page become others without losing focus, selection or what is open.
// All text is set as text; nothing here makes markup of it.

const SVG = "http://www.w3.org/2000/svg";
const SVG_TAGS = new Set(["svg", "rect"]);

/** An element: `h("a.name", {href}, "text", child)`. What is null or false is left out. */
export function h(tag, attributes, ...children) {
  const [name, ...classes] = tag.split(".");
  const element = SVG_TAGS.has(name) ? document.createElementNS(SVG, name) : document.createElement(name);
  if (classes.length) element.setAttribute("class", classes.join(" "));
  for (const [key, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    element.setAttribute(key, value === true ? "" : String(value));
  }
  element.append(...children.flat(Infinity).filter(is).map((child) => (child instanceof Node ? child : String(child))));
  return element;
}

function is(child) {
  return child !== null && child !== undefined && child !== false;
}

/** Makes the children of `target` those that are given. */
export function show(target, ...children) {
  const wanted = document.createDocumentFragment();
  wanted.append(...children.flat(Infinity).filter(is));
  become(target, wanted);
}

function become(target, wanted) {
  const kept = new Set([...wanted.children].map((child) => child.dataset?.key));
  const keyed = new Map();
  for (const child of [...target.children]) {
    const key = child.dataset?.key;
    // What is gone goes first: else all that follow it would be moved, and what is moved loses focus and selection.
    if (key && !kept.has(key)) child.remove();
    else if (key) keyed.set(key, child);
  }
  let at = target.firstChild;
  for (const next of [...wanted.childNodes]) {
    const key = next.dataset?.key;
    const found = key ? keyed.get(key) : at && !at.dataset?.key ? at : null;
    if (!found || found.nodeName !== next.nodeName) {
      target.insertBefore(next, at);
      continue;
    }
    if (found === at) at = at.nextSibling;
    else target.insertBefore(found, at);
    update(found, next);
  }
  while (at) {
    const following = at.nextSibling;
    at.remove();
    at = following;
  }
}

function update(element, wanted) {
  if (element.nodeType === Node.TEXT_NODE) {
    if (element.data !== wanted.data) element.data = wanted.data;
    return;
  }
  for (const { name } of [...element.attributes]) {
    // Whether details are open is the reader's choice.
    if (!wanted.hasAttribute(name) && name !== "open") element.removeAttribute(name);
  }
  for (const { name, value } of wanted.attributes) {
    if (element.getAttribute(name) !== value) element.setAttribute(name, value);
  }
  become(element, wanted);
  if (element instanceof HTMLInputElement && element !== document.activeElement) {
    element.value = wanted.getAttribute("value") ?? "";
  }
  if (element instanceof HTMLSelectElement && element !== document.activeElement) element.value = wanted.value;
}
