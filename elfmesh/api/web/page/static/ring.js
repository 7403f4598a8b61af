// Two drawings: the agents on the ring of ids with one tree between them, and a tree as rows for many agents.

import { h } from "./text.js";

const SIZE = 440;
const MIDDLE = SIZE / 2;
const LABELS_MAX = 40;
const NAME_MAX = 12;
/** How wide a character of a label is at most, so that none is cut off at the edge. */
const CHARACTER = 7;

const short = (name) => (name.length > NAME_MAX ? `${name.slice(0, NAME_MAX - 1)}…` : name);

/** Where an id stands on the ring, in turns. */
const turn = (id) => parseInt(id.slice(0, 10), 16) / 2 ** 40;

/**
 * Agents by the place of their ids; where these are too close they are moved apart, in order.
 * @param trees what each agent says of one tree: {agent, parent, children, root}
 */
export function ring(agents, trees) {
  const sorted = agents.filter((agent) => agent.id).sort((a, b) => (a.id < b.id ? -1 : 1));
  const labelled = sorted.length <= LABELS_MAX;
  const longest = Math.max(0, ...sorted.map((agent) => short(agent.name).length));
  const radius = MIDDLE - (labelled ? Math.max(34, 16 + CHARACTER * longest) : 18);
  const gap = Math.min(0.9 / Math.max(sorted.length, 1), labelled ? 0.045 : 0.004);
  const places = new Map();
  let last = -1;
  sorted.forEach((agent, at) => {
    const room = 1 - (sorted.length - 1 - at) * gap;
    last = Math.min(Math.max(turn(agent.id), last + gap), room);
    places.set(agent.id, last * 2 * Math.PI - Math.PI / 2);
  });
  const point = (id, r = radius) => [MIDDLE + r * Math.cos(places.get(id)), MIDDLE + r * Math.sin(places.get(id))];
  const byName = new Map(agents.map((agent) => [agent.name, agent]));
  const edges = [];
  const inside = new Set();
  let root = null;
  for (const tree of trees) {
    const agent = byName.get(tree.agent);
    if (!agent) continue;
    inside.add(agent.id);
    if (tree.root) root = agent.id;
    if (!tree.parent || !places.has(tree.parent)) continue;
    const [x, y] = point(agent.id);
    const [px, py] = point(tree.parent);
    const pull = 0.35;
    edges.push(h("path", { class: `edge ${agent.gone ? "gone" : ""}`, d: `M${x.toFixed(1)} ${y.toFixed(1)} Q${(MIDDLE + ((x + px) / 2 - MIDDLE) * pull).toFixed(1)} ${(MIDDLE + ((y + py) / 2 - MIDDLE) * pull).toFixed(1)} ${px.toFixed(1)} ${py.toFixed(1)}` }));
  }
  const marks = sorted.map((agent) => {
    const [x, y] = point(agent.id);
    const kind = agent.gone ? "gone" : agent.id === root ? "root" : inside.has(agent.id) ? "in" : "out";
    const group = h("g", { class: `mark ${kind}` },
      h("title", {}, `${agent.name} ${agent.id.slice(0, 8)}${agent.gone ? ", does not answer" : agent.id === root ? ", root" : ""}`),
      h("circle", { cx: x.toFixed(1), cy: y.toFixed(1), r: agent.id === root ? 7 : labelled ? 5 : 3.5 }));
    if (labelled) {
      const [lx, ly] = point(agent.id, radius + 12);
      const side = lx < MIDDLE - 20 ? "end" : lx > MIDDLE + 20 ? "start" : "middle";
      const down = side !== "middle" ? 4 : ly < MIDDLE ? 0 : 8;
      group.append(h("text", { x: lx.toFixed(1), y: (ly + down).toFixed(1), "text-anchor": side }, short(agent.name)));
    }
    return group;
  });
  const missing = agents.filter((each) => each.gone).map((each) => each.name);
  const words = `${agents.length} agents on the ring of ids; root of the tree: ${agents.find((each) => each.id === root)?.name ?? "unknown"}${missing.length ? `; not answering: ${missing.join(", ")}` : ""}`;
  return [
    h("svg", { viewBox: `0 0 ${SIZE} ${SIZE}`, role: "img", "aria-label": words },
      h("circle", { class: "orbit", cx: MIDDLE, cy: MIDDLE, r: radius }), edges, marks),
    h("figcaption", {}, legend("root", "root"), legend("in", "in the tree"), legend("out", "not in it"), legend("gone", "no answer")),
  ];
}

function legend(kind, text) {
  return h("span", { class: "legend" },
    h("svg", { viewBox: "0 0 12 12", width: "12", height: "12", "aria-hidden": "true" }, h("g", { class: `mark ${kind}` }, h("circle", { cx: 6, cy: 6, r: 4.5 }))), text);
}

/**
 * A tree as rows, the root first, each behind its parent.
 * @param members {agent, id, dead, late_seconds, frontier} of the roster
 * @returns {member, depth, size, last} each; who hangs in no tree comes last, with depth null
 */
export function rows(members, trees) {
  const byId = new Map(members.map((member) => [member.id, member]));
  const told = new Map(trees.map((tree) => [tree.agent, tree]));
  const children = new Map();
  let root = null;
  for (const [id, member] of byId) {
    const tree = told.get(member.agent);
    if (!tree) continue;
    if (tree.root) root = id;
    else if (tree.parent) children.set(tree.parent, [...(children.get(tree.parent) ?? []), id]);
  }
  for (const tree of trees) if (tree.root && !root) root = `root:${tree.agent}`;
  const found = [];
  const seen = new Set();
  const walk = (id, depth) => {
    if (seen.has(id)) return;
    seen.add(id);
    const member = byId.get(id);
    const below = (children.get(id) ?? []).filter((each) => !seen.has(each)).sort((a, b) => byId.get(a).agent.localeCompare(byId.get(b).agent, "en", { numeric: true }));
    if (member) found.push({ member, depth, size: told.get(member.agent)?.size ?? 1, root: depth === 0 });
    for (const child of below) walk(child, depth + 1);
  };
  if (root) walk(root, 0);
  for (const parent of [...children.keys()].sort()) if (!seen.has(parent) && !byId.has(parent)) walk(parent, 0);
  for (const [id, member] of byId) if (!seen.has(id)) found.push({ member, depth: null, size: 1, root: false });
  return found;
}
