// The agents of the overlay: labels, load, skew, version, and who does not answer.

import { every } from "./api.js";
import { rate } from "./loads.js";
import { bytes, fill, h, names, number, say, seconds, short } from "./text.js";
import { Table } from "./table.js";

export const SKEW_WARN_S = 1;
export const LAG_WARN_S = 0.25;

export const agentLink = (name) => `#/agents/${encodeURIComponent(name)}`;

/** What is wrong with an agent, in words; [] if nothing is. */
export function troubles(agent) {
  if (agent.gone) return ["does not answer"]; // what it said last is over
  const found = [];
  if (agent.problem) found.push(agent.problem);
  for (const [stream, source] of Object.entries(agent.sources ?? {}))
    for (const problem of Object.values(source.problems ?? {})) found.push(`${stream}: ${problem}`);
  for (const [stream, input] of Object.entries(agent.inputs ?? {})) if (input.problem) found.push(`${stream}: ${input.problem}`);
  if (agent.load?.slowed?.length) found.push(`at its processor limit: ${names(agent.load.slowed, 2)} slowed down`);
  if (agent.security?.problem) found.push(agent.security.problem);
  if (agent.memory?.problem) found.push(agent.memory.problem);
  if (Math.abs(agent.skew_seconds ?? 0) >= SKEW_WARN_S) found.push(`its clock is ${seconds(agent.skew_seconds)} off`);
  if ((agent.overlay_stats?.lag_s ?? 0) >= LAG_WARN_S) found.push(`busy: ${seconds(agent.overlay_stats.lag_s)} behind itself`);
  return found;
}

/** Agents that answer, and those that did. */
export function allAgents(world) {
  const gone = [...world.gone.values()].map(({ agent, since }) => ({ ...agent, gone: since }));
  return [...world.agents, ...gone];
}

const cores = (agent) => (rate(agent, "cpu_seconds") === null ? "–" : `${(100 * rate(agent, "cpu_seconds")).toFixed(1)}\u00a0%`);

export const labels = (agent) => Object.entries(agent.labels ?? {}).map(([key, value]) => `${key}=${value}`);

function meter(value, limit, text) {
  const share = limit ? Math.min(1, value / limit) : 0;
  return h("span", { class: "meter", vars: { "--share": share }, title: `${text} of ${bytes(limit)}` }, text);
}

const COLUMNS = [
  { key: "name", label: "Agent", by: (a) => a.name, cell: (a) => [h("span", { class: `dot ${a.gone ? "bad" : troubles(a).length ? "warn" : "good"}` }), h("a", { href: agentLink(a.name) }, a.name)] },
  { key: "state", label: "State", by: (a) => (a.gone ? 0 : troubles(a).length ? 1 : 2), cell: (a) => troubles(a).join("; ") || "in order" },
  { key: "labels", label: "Labels", by: (a) => labels(a).join(), cell: (a) => labels(a).map((each) => h("span", { class: "tag" }, each)) },
  { key: "streams", label: "Streams", by: (a) => (a.streams ?? []).join(), cell: (a) => (a.streams ?? []).join(", ") || "–" },
  { key: "jobs", label: "Jobs", end: true, by: (a) => (a.jobs ?? []).length, cell: (a) => number((a.jobs ?? []).length) },
  { key: "leads", label: "Leads", end: true, title: "Jobs of which it is the master", by: (a) => (a.masters ?? []).length, cell: (a) => number((a.masters ?? []).length) },
  { key: "lag", label: "Lag", end: true, title: "Delay of its event loop", by: (a) => a.overlay_stats?.lag_s, cell: (a) => seconds(a.overlay_stats?.lag_s) },
  { key: "cpu", label: "CPU", end: true, title: "Share of one core", by: (a) => rate(a, "cpu_seconds"), cell: cores },
  { key: "rss", label: "Memory", end: true, title: "Memory of the process", by: (a) => a.load?.rss_bytes, cell: (a) => bytes(a.load?.rss_bytes) },
  { key: "lines", label: "Lines/s", end: true, title: "Lines read", by: (a) => rate(a, "lines"), cell: (a) => (rate(a, "lines") === null ? "–" : short(Math.round(rate(a, "lines")))) },
  { key: "memory", label: "Intervals", end: true, title: "Memory of open intervals", by: (a) => a.memory?.open_intervals_bytes, cell: (a) => meter(a.memory?.open_intervals_bytes, a.memory?.limit_bytes, bytes(a.memory?.open_intervals_bytes)) },
  { key: "log", label: "Frame log", end: true, title: "Disk space of sealed intervals that are not closed", by: (a) => a.frame_log?.bytes, cell: (a) => meter(a.frame_log?.bytes, a.frame_log?.limit_bytes, bytes(a.frame_log?.bytes)) },
  { key: "skew", label: "Skew", end: true, title: "Difference between its clock and its peers' clocks", by: (a) => Math.abs(a.skew_seconds ?? 0), cell: (a) => seconds(a.skew_seconds) },
  { key: "version", label: "Version", by: (a) => a.version, cell: (a) => a.version ?? "–" },
  { key: "address", label: "Overlay", by: (a) => a.overlay, cell: (a) => h("code", {}, a.overlay ?? "–") },
];

export function agentsView(main, world, signal, learnAgents) {
  const note = h("p", { class: "faint", role: "status" });
  const table = new Table({
    label: "agents", columns: COLUMNS, id: (a) => `${a.name} ${a.id}`, size: 50, sort: { key: "state", down: false },
    words: (a) => [a.name, a.id, a.overlay, ...labels(a), ...(a.streams ?? []), ...troubles(a)].join(" "),
    empty: "No agent has answered yet.", mark: (a) => (a.gone ? "gone" : ""),
  });
  fill(main, h("div", { class: "title" }, h("h1", {}, "Agents"), note), table.element);
  every(4000, signal, async () => {
    await learnAgents(signal);
    const versions = new Set(world.agents.map((each) => each.version));
    const { answered, expected } = world.asked;
    say(note, `${answered} of ${Math.max(expected, answered + world.gone.size)} answer${versions.size > 1 ? `; ${versions.size} versions: ${[...versions].join(", ")}` : ""}`);
    table.update(allAgents(world));
  });
}
