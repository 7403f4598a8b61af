// What a job keeps if a failure domain is lost, who stands by for whom, and how far behind: `elf plan` and `elf what-if`.

import { ApiError, every, get, jobPath } from "./api.js";
import { completeness, fact, jobLink, stateTag } from "./overview.js";
import { Table } from "./table.js";
import { bytes, fill, h, names, say, seconds } from "./text.js";

const PLAN_MS = 5000;
const LOSS_MS = 30_000;
const AGENT = "agent";
const USUAL = ["rack", "zone", "region"];

export const standbysLink = (job) => `#/standbys/${job.split("/").map(encodeURIComponent).join("/")}`;

const LOSSES = [
  { key: "lost", label: "If lost", by: (c) => c.lost, cell: (c) => c.lost },
  { key: "kept", label: "Kept of what was read", title: "Of the open windows, with what standbys hold", by: (c) => c.kept, cell: (c) => share(c.kept) },
  { key: "later", label: "Later windows", title: "Fidelity of later results, by usual records", by: (c) => c.fidelity, cell: (c) => share(c.fidelity) },
  { key: "bounds", label: "Bounds", cell: (c) => (c.at_most - c.at_least < 0.005 ? "–" : `${c.at_least.toFixed(2)} .. ${c.at_most.toFixed(2)}`) },
  { key: "agents", label: "Members lost", by: (c) => c.gone.length, cell: (c) => (c.gone.length ? names(c.gone, 4) : "–") },
  { key: "voters", label: "Voters left", end: true, by: (c) => c.voters_left, cell: (c) => `${c.voters_left} of ${c.voters}` },
  { key: "next", label: "Next result", by: (c) => c.next_result, cell: (c) => (c.next_result === "on time" ? c.next_result : h("strong", { class: "warn-text" }, c.next_result)) },
];

const STANDBYS = [
  { key: "agent", label: "Member", by: (m) => m.agent, cell: (m) => m.agent },
  { key: "standby", label: "Stands by", by: (m) => m.standby, cell: (m) => m.standby ?? h("strong", { class: "warn-text" }, m.problem || "none yet") },
  { key: "lag", label: "Lacks the newest", end: true, title: "Age of the oldest record that the standby may lack", by: (m) => m.lag_seconds, cell: (m) => seconds(m.lag_seconds) },
  { key: "rate", label: "Ships per second", end: true, by: (m) => m.bytes_per_second, cell: (m) => bytes(m.bytes_per_second) },
];

const share = (value) => completeness(Math.min(1, Math.max(0, value)));

/** The rows of `/v1/what-if` about one job. */
const losses = (cases, job) =>
  cases.flatMap((each) => each.jobs.filter((row) => row.job === job && row.fidelity !== undefined).map((row) => ({ ...row, gone: row.lost, lost: each.lost })));

export function standbysView(main, world, signal, job) {
  const state = h("span");
  const problem = h("p", { class: "problem", role: "alert" });
  const facts = h("dl", { class: "facts" });
  const notes = h("ul", { class: "concerns" });
  const choice = h("select", { id: "label", on: { change: () => learnLosses() } });
  const lossTable = new Table({
    label: "losses", columns: LOSSES, id: (c) => c.lost, size: 25, sort: { key: "kept", down: false },
    words: (c) => `${c.lost} ${c.gone.join(" ")}`, empty: "Nothing is known yet.",
  });
  const pairs = new Table({
    label: "standbys", columns: STANDBYS, id: (m) => m.agent, size: 25,
    words: (m) => `${m.agent} ${m.standby ?? ""} ${m.problem ?? ""}`, empty: "No member ships its open windows: the text of the job has no STANDBY, or its budget permits none.",
  });
  fill(main,
    h("div", { class: "title" }, h("h1", {}, job), state, h("div", { class: "row" }, h("a", { class: "button", href: jobLink(job) }, "Results"))),
    problem, facts,
    h("section", {}, h("div", { class: "title" }, h("h2", {}, "If a failure domain is lost"), h("label", { for: "label", class: "hidden" }, "Label of the domains"), choice), lossTable.element),
    h("section", {}, h("h2", {}, "Standbys"), notes, pairs.element));
  let across = null;

  function options() {
    const labels = [...new Set(world.agents.flatMap((each) => Object.keys(each.labels ?? {})))].sort();
    const wanted = [AGENT, ...labels];
    if ([...choice.options].map((each) => each.value).join("\n") === wanted.join("\n")) return;
    const kept = choice.value;
    fill(choice, wanted.map((name) => h("option", { value: name }, `each ${name}`)));
    choice.value = wanted.includes(kept) && kept !== AGENT ? kept : ([across, ...USUAL].find((name) => labels.includes(name)) ?? AGENT);
  }

  async function told(work) {
    try {
      await work();
      say(problem, "");
    } catch (error) {
      if (error instanceof ApiError) say(problem, `${error.message}. ${error.hint}`);
      throw error;
    }
  }

  async function learnLosses() {
    const label = choice.value;
    if (!label) return;
    await told(async () => {
      const { cases } = await get(`/v1/what-if?each=${encodeURIComponent(label)}&job=${encodeURIComponent(job)}`, signal);
      if (choice.value === label) lossTable.update(losses(cases, job));
    });
  }

  function drawPlan({ standbys }) {
    across = standbys?.across ?? null;
    const members = standbys?.members ?? [];
    const without = members.filter((each) => !each.standby).length;
    const slowest = members.reduce((most, each) => Math.max(most, each.lag_seconds ?? 0), 0);
    const kept = Math.min(1, ...Object.values(standbys?.kept ?? {}));
    const before = Math.min(1, ...Object.values(standbys?.without ?? {}));
    fill(state, stateTag(standbys ? `STANDBY ${standbys.budget}` : "no STANDBY"));
    fill(facts, standbys ? [
      fact("Members that ship", `${members.length} of ${standbys.of}`),
      fact("Without a standby", String(without), without ? "warn" : ""),
      fact(`Kept, whichever ${across} is lost`, share(kept)),
      fact("Without standbys", share(before)),
      fact("Greatest lag", seconds(slowest)),
      fact("Shipped per second", bytes(standbys.bytes_per_second)),
    ] : [fact("Standbys", "none")]);
    pairs.update(members);
    const least = /^KEEPS (.*)$/.exec(standbys?.budget ?? "");
    const short = least && standbys.reachable < Number(least[1]) ? [`No choice of standbys keeps ${least[1]}; this one keeps ${standbys.reachable}.`] : [];
    fill(notes, short.map((each) => h("li", {}, h("span", { class: "dot open" }), each)));
  }

  every(PLAN_MS, signal, async () => {
    await told(async () => drawPlan(await get(`${jobPath(job)}/plan`, signal)));
    const first = !choice.options.length;
    if (world.agents.length) options();
    if (first && choice.options.length) await learnLosses();
  });
  every(LOSS_MS, signal, learnLosses);
}
