import { el, svg, setText, short, count } from "./dom.js";

// bounds are the least and the greatest of numbers; holes are skipped.
function bounds(...lists) {
  let low = Infinity, high = -Infinity;
  for (const list of lists) for (const v of list) if (v != null) { low = Math.min(low, v); high = Math.max(high, v); }
  return low <= high ? [low, high] : [0, 1];
}

// path draws values over a width and height of 600 and 160 (or 90 and 20). A hole ends a stroke.
function path(xs, values, [x0, x1], [y0, y1], width, height) {
  let d = "", pen = false;
  values.forEach((v, i) => {
    if (v == null) { pen = false; return; }
    const x = x1 > x0 ? ((xs[i] - x0) / (x1 - x0)) * width : width / 2;
    const y = y1 > y0 ? height - ((v - y0) / (y1 - y0)) * height : height / 2;
    d += `${pen ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`;
    if (!pen && (i + 1 === values.length || values[i + 1] == null)) d += "h0.1";
    pen = true;
  });
  return d;
}

// spark is a small curve without axes. What it says stands beside it as a number.
export function spark(values) {
  const list = values ?? [];
  const xs = list.map((_, i) => i);
  return svg("svg", { class: "spark", viewBox: "0 -1 90 22", preserveAspectRatio: "none", "aria-hidden": "true" },
    svg("path", { class: "curve", d: path(xs, list, [0, Math.max(1, list.length - 1)], bounds(list), 90, 20) }));
}

// chart draws one value of the steps: the mean of each point, and between which values it was. update takes another curve.
export function chart(name) {
  const title = el("span", {}, name), last = el("span", {});
  const top = el("span", {}), bottom = el("span", {}), from = el("span", {}), to = el("span", {});
  const band = svg("path", { class: "band" }), line = svg("path", { class: "curve" });
  const picture = svg("svg", { viewBox: "0 -2 600 164", preserveAspectRatio: "none", role: "img" }, band, line);
  const node = el("figure", {}, el("figcaption", {}, title, last),
    el("div", { class: "plot" }, el("div", { class: "y" }, top, bottom), picture, el("div", { class: "x" }, from, to)));
  return {
    node,
    update(c) {
      const steps = c.step, known = c.mean.filter((v) => v != null);
      if (steps.length === 0) return;
      const x = [steps[0], Math.max(steps.at(-1), steps[0] + 1)], y = bounds(c.min, c.max);
      line.setAttribute("d", path(steps, c.mean, x, y, 600, 160));
      const low = path(steps, c.min, x, y, 600, 160), high = path([...steps].reverse(), [...c.max].reverse(), x, y, 600, 160);
      const whole = known.length === c.mean.length && known.length > 1;
      band.setAttribute("d", whole ? `${high}L${low.slice(1)}Z` : "");
      setText(top, short(y[1])); setText(bottom, short(y[0]));
      setText(from, `step ${count(steps[0])}`); setText(to, count(steps.at(-1) + c.every - 1));
      const now = known.length ? short(known.at(-1)) : "no number";
      setText(last, c.odd ? `${now}, ${count(c.odd)} steps without a number` : now);
      picture.setAttribute("aria-label", `${name}: from ${short(known[0])} to ${now}, steps ${steps[0]} to ${steps.at(-1)}`);
    },
  };
}

// kinds are the colors of phases: those of trainers, then those that only pservers have.
const kinds = {
  compute: "compute", send: "send", wait: "wait", receive: "receive", read: "read", other: "other",
  merge: "merge", apply: "apply", push: "send",
};

// kindOf is the color of a phase.
export function kindOf(phase) {
  return kinds[phase] ?? "other";
}

// words says what a bar shows.
export function words(phases, shares) {
  return phases.map((p, i) => [p, shares[i]]).filter(([, s]) => s > 0).map(([p, s]) => `${p} ${(s / 10).toFixed(0)} %`).join(", ");
}

// bar shows the parts of the phases in a round.
export function bar(phases, shares) {
  let x = 0;
  const text = words(phases, shares);
  return svg("svg", { class: "bar", viewBox: "0 0 1000 14", preserveAspectRatio: "none", role: "img", "aria-label": text },
    svg("title", {}, text),
    shares.map((s, i) => {
      const part = svg("rect", { class: kindOf(phases[i]), x, y: 0, width: Math.max(0, s), height: 14 });
      x += s;
      return part;
    }));
}

// legend names the colors.
export function legend(phases) {
  const names = [...new Set(phases)];
  const entry = (kind, text) => el("li", {}, svg("svg", { viewBox: "0 0 12 12", "aria-hidden": "true" }, svg("rect", { class: kind, width: 12, height: 12 })), text);
  return [...names.map((p) => entry(kindOf(p), p)), entry("heldup", "others wait for it"), entry("down", "does not run")];
}

const frames = 60; // columns of a strip

// strips remembers how roles were, a column for each message, and draws them.
export function strips() {
  const history = new Map();
  let colors = {};
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { colors = {}; });
  const color = (kind) => {
    if (!colors[kind]) {
      const probe = svg("rect", { class: kind });
      const holder = svg("svg", { width: 0, height: 0 }, probe);
      document.body.append(holder);
      colors[kind] = getComputedStyle(probe).fill;
      holder.remove();
    }
    return colors[kind];
  };
  return {
    add(roles, phasesOf, stalled) {
      for (const r of roles) {
        const list = history.get(r.name) ?? [];
        let frame = (r.shares ?? []).map((s, i) => [kindOf(phasesOf(r)[i]), s]);
        if (r.held) frame = [["heldup", 1000]];
        else if (r.state !== "running") frame = [["down", 1000]];
        else if (stalled && r.waits) frame = [["wait", 1000]];
        list.push(frame);
        if (list.length > frames) list.shift();
        history.set(r.name, list);
      }
      const names = new Set(roles.map((r) => r.name));
      for (const name of history.keys()) if (!names.has(name)) history.delete(name);
    },
    draw(canvas, name) {
      const pen = canvas.getContext("2d");
      pen.clearRect(0, 0, canvas.width, canvas.height);
      const list = history.get(name) ?? [], width = canvas.width / frames;
      list.forEach((frame, i) => {
        let y = canvas.height;
        for (const [kind, s] of frame) {
          const height = (s / 1000) * canvas.height;
          pen.fillStyle = color(kind);
          pen.fillRect((frames - list.length + i) * width, y - height, width - 0.5, height);
          y -= height;
        }
      });
    },
  };
}
