// Elements and numbers. Everything that comes from a listener becomes text: no string is ever parsed as HTML.

const svgSpace = "http://www.w3.org/2000/svg";

// el makes an element with attributes and children, which are elements or become text.
export function el(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

// svg is el for elements of pictures.
export function svg(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(svgSpace, tag), attributes, children);
}

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value === true) node.setAttribute(name, "");
    else if (value !== false && value != null) node.setAttribute(name, value);
  }
  node.append(...children.flat().filter((c) => c != null).map((c) => (c instanceof Node ? c : String(c))));
  return node;
}

// setText changes a text only if it is another one, so that readers of the screen hear only what is new.
export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

// count writes a whole number with thin spaces.
export function count(n) {
  return n == null ? "" : Math.round(n).toLocaleString("en").replaceAll(",", "\u202f");
}

// short writes a number with four digits or so.
export function short(v) {
  if (v == null) return "";
  const a = Math.abs(v);
  if (a === 0) return "0";
  if (a >= 1e6 || a < 1e-3) return v.toExponential(2);
  if (a >= 1000) return count(v);
  return String(Number(v.toPrecision(4)));
}

// span writes seconds for people.
export function span(seconds) {
  if (seconds == null) return "";
  const s = Math.round(seconds);
  if (s < 120) return `${s} s`;
  if (s < 7200) return `${Math.floor(s / 60)} min ${s % 60} s`;
  if (s < 172800) return `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} min`;
  return `${Math.floor(s / 86400)} d ${Math.floor((s % 86400) / 3600)} h`;
}

// size writes bytes for people.
export function size(bytes) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let n = bytes, i = 0;
  while (n >= 10240 && i < units.length - 1) { n /= 1024; i++; }
  return `${i ? n.toFixed(1) : n} ${units[i]}`;
}

// when writes milliseconds since 1970 as a time.
export function when(ms) {
  return ms ? new Date(ms).toLocaleString("sv") : "";
}

// clock writes the time of day of milliseconds since 1970.
export function clock(ms) {
  return new Date(ms).toLocaleTimeString("sv");
}

// grid makes a table: columns are [title, cell, class], where cell makes the content for a row. The first column heads its rows.
export function grid(caption, columns, rows, none) {
  if (!rows || rows.length === 0) return el("p", { class: "soft" }, none);
  return el("div", { class: "scroll" }, el("table", {},
    caption ? el("caption", {}, caption) : null,
    el("thead", {}, el("tr", {}, columns.map(([title, , kind]) => el("th", { scope: "col", class: kind }, title)))),
    el("tbody", {}, rows.map((r) => el("tr", {}, columns.map(([, cell, kind], i) =>
      i === 0 ? el("th", { scope: "row", class: kind }, cell(r)) : el("td", { class: kind }, cell(r))))))));
}
