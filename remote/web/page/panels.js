import { el, svg, setText, count, short, span, size, when, clock, grid } from "./dom.js";
import { spark, bar, legend, strips, words } from "./charts.js";

// badge is the state of a job in a word.
export function badge(r) {
  const word = r.stalled ? "stalled" : r.state;
  return el("span", { class: `state ${word}` }, word);
}

// jobLink leads to the page of a job.
export function jobLink(id) {
  return el("a", { href: `#/job/${encodeURIComponent(id)}` }, id);
}

const passes = (r) => `${r.pass} of ${r.passes}`;
const value = (r) => (r.value ? `${r.value}` : "");

// jobTable lists jobs.
export function jobTable(rows, none) {
  return grid("", [
    ["Job", (r) => jobLink(r.job)], ["State", badge], ["Mode", (r) => r.mode], ["Pass", passes, "number"], ["Steps", (r) => count(r.steps), "number"],
    ["Records/s", (r) => short(r.rate), "number"], ["Left, about", (r) => span(r.left), "number"], ["Value", value, "number"],
    ["", (r) => (r.spark ? spark(r.spark) : "")], ["Trainers", (r) => `${r.trainers} of ${r.wanted}`, "number"], ["Owner", (r) => r.owner ?? ""],
    ["Why", (r) => r.why, "text"],
  ], rows, none);
}

// facts shows numbers of a job. Its fields stay where they are.
export function facts() {
  const fields = [
    ["State", badge], ["Mode", (h) => h.mode], ["Pass", passes], ["Steps", (h) => count(h.steps)], ["Records", (h) => count(h.records)],
    ["Records/s", (h) => short(h.rate)], ["Left, about", (h) => span(h.left)], ["Trainers", (h) => `${h.trainers} of ${h.wanted}`], ["Age", (h) => span(h.seconds)],
    ["Generation", (h) => h.generation ?? ""], ["Phase", (h) => h.phase ?? ""], ["Went back", (h) => `${h.attempt} times`], ["Messages refused", (h) => count(h.refused)],
    ["Owner", (h) => h.owner ?? ""], ["Program", (h) => (h.hash ?? "").slice(0, 12)],
  ];
  const cells = fields.map(() => el("dd"));
  const node = el("dl", { class: "facts" }, fields.map(([name], i) => el("div", {}, el("dt", {}, name), cells[i])));
  return { node, update: (h) => fields.forEach(([, cell], i) => {
    const c = cell(h);
    if (c instanceof Node) cells[i].replaceChildren(c); else setText(cells[i], c);
  }) };
}

// whyBox says whether a job goes on, and why it does not.
export function whyBox() {
  const first = el("p"), since = el("p", { class: "soft", "aria-live": "off" }), list = el("ul");
  const more = el("details", { hidden: true }, el("summary", {}, "All waits"), list);
  const node = el("div", { class: "why", role: "status", "aria-live": "polite" }, first, since, more);
  return { node, update(h) {
    node.classList.toggle("stalled", h.stalled || h.state === "failed");
    let text = h.why;
    if (!text) text = h.ended ? `The job has ended: ${h.state}.` : h.state === "running" ? "The job goes on." : `The job is ${h.state}.`;
    else if (h.state === "waiting") text = `The job stands in the job queue: ${text}`;
    else if (h.stalled) text = `The job does not go on: ${text}`;
    setText(first, text);
    setText(since, h.stalled && h.since ? `Since ${clock(h.since)}.` : "");
    more.hidden = h.waits.length === 0;
    list.setAttribute("aria-live", "off"); // their times change all the time
    const said = [...list.children].map((c) => c.textContent).join("\n");
    if (said !== h.waits.join("\n")) list.replaceChildren(...h.waits.map((w) => el("li", {}, w)));
  } };
}

const rowHeight = 32; // of a role, as the style says
const allShown = 60; // so many roles are shown at once; of more, those that are in view

// roleTable is the step stream: a row for each role. live draws how roles were over time, which a report does not know.
export function roleTable(live) {
  const history = strips();
  const columns = ["Role", "Now", "Last rounds", ...(live ? ["Over time"] : []), "Round, ms", "Starts", "Where", "Last end"];
  const body = el("tbody");
  const table = el("table", {}, el("thead", {}, el("tr", {}, columns.map((c) => el("th", { scope: "col" }, c)))), body);
  const box = el("div", { class: "roles", tabindex: "0", role: "region", "aria-label": "Roles" }, table);
  const colors = el("ul", { class: "legend" }), reading = el("p", { class: "soft" });
  const filter = el("input", { type: "search", placeholder: "such as trainer-1", "aria-label": "Show roles whose name or state has this text", oninput: () => draw() });
  const some = el("span", { class: "soft", role: "status" });
  let roles = [], phases = { trainer: [], pserver: [] }, named = "";
  const phasesOf = (r) => (r.kind === "trainer" ? phases.trainer : phases.pserver);
  const now = (r) => {
    if (r.held) return el("span", { class: "held" }, r.held);
    if (r.state !== "running") return el("span", { class: `state ${r.state}` }, r.state);
    return r.waits ? `waits for ${r.waits}` : "works";
  };
  const line = (r, at) => {
    const canvas = live ? el("canvas", { class: "strip", width: 180, height: 22, role: "img", "aria-label": r.shares ? words(phasesOf(r), r.shares) : "no rounds" }) : null;
    const tr = el("tr", { "aria-rowindex": at + 2 }, el("th", { scope: "row" }, r.name), el("td", { class: "now", title: r.held || r.waits || r.state }, now(r)),
      el("td", {}, r.shares ? bar(phasesOf(r), r.shares) : ""), live ? el("td", {}, canvas) : null,
      el("td", { class: "number" }, r.median ? `${short(r.median)} / ${short(r.worst)}` : ""), el("td", { class: "number" }, r.starts),
      el("td", {}, [r.node, r.pid ? `pid ${r.pid}` : ""].filter(Boolean).join(" ")), el("td", { class: "now", title: r.last ?? "" }, r.last ?? ""));
    if (canvas) history.draw(canvas, r.name);
    return tr;
  };
  const gap = (n) => {
    const tr = el("tr", { "aria-hidden": "true" }, el("td", { colspan: columns.length }));
    tr.style.height = `${n * rowHeight}px`;
    return tr;
  };
  function draw() {
    const text = filter.value.trim().toLowerCase();
    const list = roles.filter((r) => !text || `${r.name} ${r.state} ${r.held ?? ""} ${r.waits ?? ""} ${r.node ?? ""}`.toLowerCase().includes(text));
    table.setAttribute("aria-rowcount", list.length + 1);
    setText(some, text ? `${list.length} of ${roles.length} roles` : `${roles.length} roles`);
    let first = 0, end = list.length;
    if (list.length > allShown) {
      first = Math.max(0, Math.min(Math.floor(box.scrollTop / rowHeight) - 5, list.length - allShown));
      end = Math.min(list.length, first + allShown);
    }
    body.replaceChildren(...[first > 0 ? gap(first) : null, ...list.slice(first, end).map((r, i) => line(r, first + i)),
      end < list.length ? gap(list.length - end) : null].filter(Boolean));
  }
  box.addEventListener("scroll", () => { if (roles.length > allShown) requestAnimationFrame(draw); });
  const rank = (r) => (r.held ? 0 : r.state === "failed" ? 1 : 2);
  const node = el("section", { "aria-labelledby": "stream" }, el("h2", { id: "stream" }, "Step stream"), reading, colors, el("div", { class: "row" }, filter, some), box);
  return { node, update(all, h) {
    phases = h.phases;
    roles = [...all].sort((a, b) => rank(a) - rank(b) || a.place - b.place);
    history.add(roles, phasesOf, h.stalled);
    const names = [...phases.trainer, ...phases.pserver];
    if (names.join() !== named) { named = names.join(); colors.replaceChildren(...legend(names)); }
    setText(reading, h.reading ?? "");
    draw();
  } };
}

// panels are the tables of a job, by the key of their value.
export const panels = [
  ["queues", "Task queues", (rows) => grid("", [["Dataset", (q) => q.dataset], ["Pass", (q) => `${q.pass} of ${q.passes}`, "number"], ["Todo", (q) => count(q.todo), "number"],
    ["Pending", (q) => count(q.pending), "number"], ["Done", (q) => count(q.done), "number"], ["Discarded", (q) => count(q.discarded), "number"],
    ["Records", (q) => count(q.records) + (q.following ? " and growing" : ""), "number"], ["Handed out again", (q) => count(q.retried), "number"]], rows, "The job has no task queue.")],
  ["discards", "Discarded tasks", (rows) => grid("", [["Task", (d) => `${d.dataset} ${d.task}`], ["Pass", (d) => d.pass, "number"], ["Records", (d) => count(d.records), "number"],
    ["Failures", (d) => d.failures, "number"], ["Last reason", (d) => d.reason, "text"]], rows, "No task was discarded.")],
  ["ledger", "Ledger", (rows) => grid("", [["Pass", (s) => s.pass], ["Records", (s) => count(s.records), "number"], ["Once", (s) => count(s.once), "number"], ["Again", (s) => count(s.again), "number"],
    ["Discarded", (s) => count(s.discarded), "number"], ["Not yet", (s) => count(s.not_yet), "number"], ["Sum", (s) => (s.unknown ? "not known" : s.agrees ? "agrees" : "does not agree")]], rows, "No record has been trained.")],
  ["servers", "Pservers", (rows) => grid("", [["Pserver", (s) => s.server], ["Placed", (s) => size(s.bytes), "number"], ["Slices", (s) => count(s.slices), "number"],
    ["Share", (s) => share(s.bytes, rows.map((r) => r.bytes))]], rows, "The job has no pserver.")],
  ["tables", "Tables on pservers", (rows) => grid("", [["Table", (t) => t.table], ["Pserver", (t) => t.server, "number"], ["Rows", (t) => count(t.rows), "number"], ["Room", (t) => count(t.room), "number"],
    ["Values", (t) => size(t.values), "number"], ["Slots", (t) => size(t.slots), "number"], ["Structure", (t) => size(t.structure), "number"]], rows, "Trainers hold all parameters.")],
  ["checkpoints", "Checkpoints", (rows) => grid("", [["After step", (k) => (k.name ? count(k.steps) : "none yet")], ["Made", (k) => when(k.created)], ["Size", (k) => (k.name ? size(k.bytes) : ""), "number"],
    ["Place", (k) => [k.store, k.name].filter(Boolean).join("/"), "text"], ["Later ones", (k) => (k.failing ? `fail since ${when(k.failing)}: ${k.error ?? ""}` : ""), "text"]], rows, "The job makes no checkpoints.")],
  ["settings", "Started with", (rows) => grid("", [["Setting", (s) => s.name], ["Value", (s) => s.value, "text"]], rows, "Not known.")],
];

// share draws a part of a sum.
function share(part, all) {
  const sum = all.reduce((a, b) => a + b, 0) || 1;
  const text = `${((100 * part) / sum).toFixed(0)} %`;
  return svg("svg", { class: "bar", viewBox: "0 0 1000 14", preserveAspectRatio: "none", role: "img", "aria-label": text },
    svg("title", {}, text), svg("rect", { class: "wait", width: 1000, height: 14 }), svg("rect", { class: "compute", width: (1000 * part) / sum, height: 14 }));
}
