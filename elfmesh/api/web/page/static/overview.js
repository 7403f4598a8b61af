// The fleet at a glance: what needs attention, its throughput and delay, and the jobs with their completeness.

import { every } from "./api.js";
import { SKEW_WARN_S, agentLink, allAgents, troubles } from "./agents.js";
import { newest, spark, version } from "./loads.js";
import { Table } from "./table.js";
import { fill, h, names, number, percent, seconds, short } from "./text.js";

const HELD_WARN_S = 30;
const SHOWN = 12;

export const jobLink = (job) => `#/job/${job.split("/").map(encodeURIComponent).join("/")}`;

/** A bar of completeness, and in words. */
export function completeness(share, missing = []) {
  if (share === null || share === undefined) return h("span", { class: "faint" }, "no result yet");
  const title = missing.length ? `missing: ${names(missing, 8)}` : "all agents have contributed";
  return h("span", { class: `full ${share < 1 ? "part" : ""}`, vars: { "--share": share }, title }, percent(share));
}

export function stateTag(state) {
  const kind = { running: "good", FINAL: "good", paused: "warn", FINAL_PARTIAL: "warn", TENTATIVE: "open", SKIPPED: "bad" }[state] ?? "open";
  const word = { FINAL_PARTIAL: "final, partial", FINAL: "final", TENTATIVE: "tentative", SKIPPED: "skipped" }[state] ?? state;
  return h("span", { class: `state ${kind}` }, word);
}

const COLUMNS = [
  { key: "job", label: "Job", by: (j) => j.job, cell: (j) => h("a", { href: jobLink(j.job) }, j.job) },
  { key: "state", label: "State", by: (j) => j.state, cell: (j) => stateTag(j.state) },
  { key: "complete", label: "Complete", title: "Completeness of the newest result", by: (j) => j.completeness ?? 2, cell: (j) => completeness(j.completeness, j.missing) },
  { key: "missing", label: "Missing", by: (j) => j.missing.length, cell: (j) => (j.missing.length ? h("strong", { class: "warn-text" }, names(j.missing, 3)) : "–") },
  { key: "held", label: "Held for", end: true, title: "Since an agent passed the end of the next interval", by: (j) => j.held_for_seconds, cell: (j) => seconds(j.held_for_seconds) },
  { key: "trend", label: "Held, recently", title: "How long the next interval was held, since the page was opened", cell: (j) => spark(`job ${j.id}`, `${j.job} held`, seconds) },
  { key: "agents", label: "Agents", end: true, by: (j) => j.agents, cell: (j) => number(j.agents) },
  { key: "version", label: "Version", end: true, by: (j) => j.version, cell: (j) => number(j.version) },
  { key: "stream", label: "Reads", by: (j) => j.stream, cell: (j) => j.stream },
  { key: "master", label: "Master", by: (j) => j.master, cell: (j) => j.master },
];

export function fact(label, value, kind = "") {
  return h("div", { class: `fact ${kind}` }, h("dt", {}, label), h("dd", {}, value));
}

function facts(world, jobs) {
  const { answered, expected } = world.asked;
  const silent = Math.max(expected - answered, world.gone.size);
  const partial = jobs.filter((job) => job.completeness !== null && job.completeness < 1).length;
  const stopped = jobs.filter((job) => job.state !== "running").length;
  const skew = world.agents.reduce((most, each) => Math.max(most, Math.abs(each.skew_seconds ?? 0)), 0);
  const versions = [...new Set(world.agents.map((each) => each.version))];
  const [lines, behind] = ["lines", "behind"].map(newest);
  return [
    fact("Lines per second", [lines === null ? "–" : short(Math.round(lines)), spark("lines", "Lines per second of all agents", (value) => short(Math.round(value)))]),
    fact("Lag", [seconds(behind), spark("behind", "Lag of the slowest job", seconds)]),
    fact("Agents that answer", `${answered} of ${answered + silent}`, silent ? "bad" : ""),
    fact("Jobs", number(jobs.length)),
    fact("Not complete", number(partial), partial ? "warn" : ""),
    fact("Not running", number(stopped), stopped ? "warn" : ""),
    fact("Largest skew", seconds(skew), skew >= SKEW_WARN_S ? "warn" : ""),
    fact(versions.length > 1 ? "Versions" : "Version", versions.join(", ") || "–", versions.length > 1 ? "warn" : ""),
  ];
}

function concerns(world, jobs) {
  const found = [];
  for (const agent of allAgents(world))
    for (const trouble of troubles(agent)) found.push([agent.gone ? "bad" : "warn", h("a", { href: agentLink(agent.name) }, agent.name), ` ${trouble}`]);
  for (const job of jobs) {
    const link = h("a", { href: jobLink(job.job) }, job.job);
    if (job.missing.length) found.push(["warn", link, ` has no contribution of ${names(job.missing)} in its newest result`]);
    else if (job.held_for_seconds > HELD_WARN_S) found.push(["warn", link, ` is held for ${seconds(job.held_for_seconds)}`]);
    else if (job.state !== "running") found.push(["open", link, ` is ${job.state}`]);
  }
  const shown = found.slice(0, SHOWN).map(([kind, ...words]) => h("li", {}, h("span", { class: `dot ${kind}` }), words));
  if (found.length > SHOWN) shown.push(h("li", { class: "faint" }, `and ${found.length - SHOWN} more`));
  return shown.length ? shown : [h("li", {}, h("span", { class: "dot good" }), "Nothing. All agents answer, and every newest result is complete.")];
}

export function overviewView(main, world, signal, learnAgents) {
  const strip = h("dl", { class: "facts" });
  const list = h("ul", { class: "concerns", "aria-live": "polite" });
  const table = new Table({
    label: "jobs", columns: COLUMNS, id: (j) => j.id, size: 25, words: (j) => `${j.job} ${j.state} ${j.stream} ${j.master} ${j.missing.join(" ")}`,
    empty: h("span", {}, "There is no job yet. ", h("a", { href: "#/console" }, "Write one")), mark: () => "",
  });
  fill(main,
    h("h1", { class: "hidden" }, "Overview"), strip,
    h("section", {}, h("h2", {}, "Needs attention"), list),
    h("section", {}, h("div", { class: "title" }, h("h2", {}, "Jobs"), h("a", { href: "#/console", class: "button" }, "New job")), table.element));
  let concern = "";

  every(3000, signal, async () => {
    await learnAgents(signal);
    const jobs = world.jobs.map((job) => ({ completeness: null, missing: [], held_for_seconds: null, ...job, trend: version(`job ${job.id}`) }));
    table.update(jobs);
    fill(strip, facts(world, jobs));
    const items = concerns(world, jobs);
    const text = items.map((each) => each.textContent).join("\n");
    if (text !== concern) fill(list, items);
    concern = text;
  });
}
