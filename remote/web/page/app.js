import { el, setText, when } from "./dom.js";
import { chart } from "./charts.js";
import { jobTable, jobLink, facts, whyBox, roleTable, panels } from "./panels.js";

// Where the token is kept: as long as the tab, and for nobody else.
const tokenKey = "edl-token";
const main = document.getElementById("main");
const linkLine = document.getElementById("link");

// A report has its data inside.
const embedded = document.getElementById("data");

let values = new Map(); // what the listener has told, by key
let view = null; // draws values
let reading = null; // aborts the stream that is read
let namespaces = []; // of the jobs that the listener has told of

function token() {
  const given = new URLSearchParams(location.hash.slice(1)).get("token");
  if (given) {
    sessionStorage.setItem(tokenKey, given);
    history.replaceState(null, "", "#/");
  }
  return sessionStorage.getItem(tokenKey) ?? "";
}

// ask is fetch with the token.
function ask(path, signal) {
  return fetch(path, { headers: { Authorization: `Bearer ${token()}` }, signal, cache: "no-store" });
}

// events calls each with every event of a stream. It is read with fetch, because an EventSource shows no token.
async function events(path, signal, each) {
  const answer = await ask(path, signal);
  if (!answer.ok) throw Object.assign(new Error((await answer.text()).trim()), { status: answer.status });
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  for (let rest = ""; ;) {
    const { value, done } = await reader.read();
    if (done) return;
    rest += value;
    for (let end = rest.indexOf("\n\n"); end >= 0; end = rest.indexOf("\n\n")) {
      const data = rest.slice(0, end).split("\n").filter((l) => l.startsWith("data: ")).map((l) => l.slice(6)).join("\n");
      rest = rest.slice(end + 2);
      if (data) each(JSON.parse(data));
    }
  }
}

function merge(changes) {
  for (const [key, value] of Object.entries(changes)) {
    if (value === null) values.delete(key);
    else values.set(key, value);
  }
  const about = values.get("listener");
  setText(document.getElementById("about"), about ? `listener ${about.address}, edl ${about.version}` : "");
  setText(linkLine, about?.error ? `What is shown is old: ${about.error}` : "");
  view?.(changes);
}

const wait = (ms, signal) => new Promise((resolve) => {
  const timer = setTimeout(resolve, ms);
  signal.addEventListener("abort", () => { clearTimeout(timer); resolve(); });
});

// follow reads the stream of a page until another page is shown. A stream that breaks is begun again.
async function follow(path) {
  reading?.abort();
  reading = new AbortController();
  const { signal } = reading;
  for (let pause = 500; !signal.aborted; pause = Math.min(2 * pause, 8000)) {
    try {
      let fresh = true;
      await events(path, signal, (changes) => {
        if (fresh) { values = new Map(); fresh = false; pause = 500; }
        merge(changes);
      });
    } catch (error) {
      if (signal.aborted) return;
      if (error.status === 401) return askToken(error.message);
      if (error.status === 404) return show(el("h1", {}, "No such job"), el("p", {}, error.message));
      setText(linkLine, `The listener does not answer: ${error.message}. Trying again.`);
    }
    await wait(pause, signal);
  }
}

function show(...nodes) {
  view = null;
  main.replaceChildren(...nodes.filter((n) => n != null));
}

// askToken lets the user paste a token.
function askToken(reason) {
  sessionStorage.removeItem(tokenKey);
  const field = el("input", { id: "token", type: "password", autocomplete: "off", required: true });
  show(el("h1", {}, "A token is needed"), el("p", {}, reason),
    el("p", {}, "Open the URL that \"edl listen --web\" has printed, or paste a token of \"edl token create NAME --role viewer\"."),
    el("form", { class: "row", onsubmit: (e) => { e.preventDefault(); sessionStorage.setItem(tokenKey, field.value.trim()); route(); } },
      el("label", { for: "token" }, "Token"), field, el("button", {}, "Show the jobs")));
  field.focus();
}

// namespaceBox chooses of which namespace the jobs are shown. The choice is part of the address.
function namespaceBox(within) {
  const select = el("select", { id: "namespace", onchange: () => { location.hash = select.value ? `#/namespace/${encodeURIComponent(select.value)}` : "#/"; } });
  const node = el("div", { class: "row", hidden: true }, el("label", { for: "namespace" }, "Namespace"), select);
  let offered = "";
  const update = () => {
    const all = [...new Set([...namespaces, within])].filter(Boolean).sort();
    node.hidden = !within && all.length < 2 && document.activeElement !== select;
    if (all.join() === offered) return;
    offered = all.join();
    select.replaceChildren(el("option", { value: "" }, "all"), ...all.map((n) => el("option", { value: n, selected: n === within }, n)));
  };
  update();
  return { node, update };
}

// overview is the page of all jobs, or of those in a namespace: those that do not go on first.
function overview(within) {
  const box = namespaceBox(within);
  const stuck = el("div", { class: "why", role: "status", "aria-live": "polite" });
  const table = el("section", { "aria-labelledby": "jobs" }, el("h2", { id: "jobs" }, "Jobs"));
  const place = el("div");
  table.append(place);
  show(el("h1", {}, within ? `Jobs in the namespace ${within}` : "Jobs of this listener"), stuck, box.node, table);
  let said = "";
  view = () => {
    namespaces = values.get("listener")?.namespaces ?? namespaces;
    box.update();
    const rows = [...values].filter(([k]) => k.startsWith("row/")).map(([, v]) => v).sort((a, b) => a.order - b.order);
    const held = rows.filter((r) => r.stalled);
    const text = held.map((r) => `${r.job} does not go on: ${r.why}`).join("\n") || (rows.some((r) => !r.ended) ? "All jobs that run go on." : "No job runs.");
    if (text !== said) { // readers of the screen hear only what is new
      said = text;
      stuck.classList.toggle("stalled", held.length > 0);
      stuck.replaceChildren(...(held.length ? held.map((r) => el("p", {}, jobLink(r.job), ` does not go on: ${r.why}`)) : [el("p", {}, text)]));
    }
    const focus = place.contains(document.activeElement) ? document.activeElement.textContent : null;
    place.replaceChildren(jobTable(rows, within ? "No job in this namespace that you may see." : "No job yet. Start one with \"edl run --remote=ADDR\"."));
    if (focus !== null) [...place.querySelectorAll("a")].find((a) => a.textContent === focus)?.focus();
  };
}

// job is the page of one job.
function job(id) {
  const report = embedded !== null;
  const why = whyBox(), numbers = facts(), roles = roleTable(!report), plots = new Map();
  const curves = el("div", { class: "charts" });
  const tables = panels.map(([key, title, make]) => [key, make, el("div")].concat(title));
  show(el("h1", {}, `Job ${id}`), why.node, el("section", { "aria-label": "Numbers" }, numbers.node),
    el("section", { "aria-labelledby": "curves" }, el("h2", { id: "curves" }, "Values of steps"), curves), roles.node,
    el("div", { class: "pair" }, tables.map(([key, , place, title]) => el("section", { class: key === "queues" || key === "discards" ? "wide" : null, "aria-label": title }, el("h2", {}, title), place))),
    report ? null : programBox(id), logBox(id));
  view = (changes) => {
    const h = values.get("head");
    if (!h) return;
    why.update(h);
    numbers.update(h);
    for (const name of h.names ?? []) {
      if (!plots.has(name)) { plots.set(name, chart(name)); curves.append(plots.get(name).node); }
      if (changes[`series/${name}`]) plots.get(name).update(changes[`series/${name}`]);
    }
    if (!plots.size && !curves.firstChild) curves.append(el("p", { class: "soft" }, "The steps fetch no single numbers, or none was read yet."));
    if (plots.size) curves.querySelector(":scope > p")?.remove();
    const list = [...values].filter(([k]) => k.startsWith("role/")).map(([, v]) => v);
    list.sort((a, b) => a.place - b.place);
    roles.update(list, h);
    for (const [key, make, place] of tables) if (key in changes) place.replaceChildren(make(values.get(key)));
  };
}

// programBox shows the program before and after it was transpiled.
function programBox(id) {
  const picture = el("div", { class: "picture", hidden: true, tabindex: "0", role: "region", "aria-label": "Picture of a program" });
  const note = el("p", { class: "soft", role: "status" });
  let url = "";
  const load = async (of, button) => {
    for (const b of node.querySelectorAll("button")) b.setAttribute("aria-pressed", b === button);
    setText(note, "Drawing.");
    const answer = await ask(`/api/jobs/${encodeURIComponent(id)}/program?of=${of}`);
    if (!answer.ok) { picture.hidden = true; setText(note, (await answer.text()).trim()); return; }
    const blob = await answer.blob();
    if (url) URL.revokeObjectURL(url);
    url = URL.createObjectURL(blob);
    picture.hidden = false;
    picture.replaceChildren(el("img", { src: url, alt: `Program of ${of}` }));
    setText(note, "Ops are boxes, variables are ellipses.");
  };
  const button = (of, title) => el("button", { type: "button", "aria-pressed": "false", onclick: (e) => load(of, e.currentTarget) }, title);
  const node = el("section", { "aria-label": "Program" }, el("h2", {}, "Program"),
    el("div", { class: "row" }, button("user", "As written"), button("trainer", "Of a trainer"), button("pserver-0", "Of pserver 0")), note, picture);
  return node;
}

// logBox shows the last lines of the roles. They are read while the box is open.
function logBox(id) {
  const text = el("pre", { tabindex: "0", "aria-label": "Lines" });
  const write = (some) => {
    if (some.skipped) text.append(`(${some.skipped} earlier lines)\n`);
    text.append((some.lines ?? []).map((l) => `${l.role}: ${l.text}\n`).join(""));
    while (text.childNodes.length > 200) text.firstChild.remove();
    text.scrollTop = text.scrollHeight;
  };
  const told = embedded ? values.get("lines") : null;
  if (told) write(told);
  let open = null;
  const box = el("details", { open: Boolean(told), ontoggle: () => {
    open?.abort();
    if (!box.open || embedded) return;
    text.replaceChildren();
    open = new AbortController();
    events(`/api/jobs/${encodeURIComponent(id)}/logs`, open.signal, write).catch((error) => { if (error.name !== "AbortError") text.append(`${error.message}\n`); });
  } }, el("summary", {}, "Lines of all roles"), text);
  reading?.signal.addEventListener("abort", () => open?.abort());
  return el("section", { "aria-label": "Log" }, el("h2", {}, "Log"), box);
}

// addressed is what the address names after a prefix, or null.
function addressed(prefix) {
  if (!location.hash.startsWith(prefix)) return null;
  const name = location.hash.slice(prefix.length);
  try {
    return decodeURIComponent(name);
  } catch { // somebody has typed a %
    return name;
  }
}

function route() {
  token();
  const id = addressed("#/job/");
  const within = addressed("#/namespace/") ?? "";
  const chosen = document.activeElement?.id === "namespace"; // who chooses with the keyboard may choose again
  const title = id ?? within;
  setText(document.getElementById("where"), title ? `/ ${title}` : "");
  document.title = title ? `${title} - EDL` : "EDL";
  values = new Map();
  if (id === null) {
    document.getElementById("home").setAttribute("href", within ? location.hash : "#/"); // where the page of a job leads back to
    follow(within ? `/api/stream?namespace=${encodeURIComponent(within)}` : "/api/stream");
    overview(within);
  } else {
    follow(`/api/stream?job=${encodeURIComponent(id)}`);
    job(id);
  }
  if (chosen && id === null) document.getElementById("namespace").focus();
  else main.focus();
}

if (embedded) {
  const data = JSON.parse(embedded.textContent);
  values = new Map(Object.entries(data));
  const { job: id, made } = data.report;
  document.title = `Report of ${id}`;
  document.getElementById("home").removeAttribute("href");
  job(id);
  merge(data);
  setText(document.getElementById("where"), `report of job ${id}, made ${when(made)}`);
} else {
  addEventListener("hashchange", route);
  route();
}
