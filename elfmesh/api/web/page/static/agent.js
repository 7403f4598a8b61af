// One agent: its load since the page was opened, its streams and sinks, samples of bad lines, and its live lines.

import { ApiError, every, get, jobPath, lines } from "./api.js";
import { allAgents, labels, troubles } from "./agents.js";
import { newest, spark } from "./loads.js";
import { fact, jobLink } from "./overview.js";
import { Table } from "./table.js";
import { bytes, fill, h, names, number, say, seconds, short } from "./text.js";

/** Jobs of the agent of which the page asks for samples of bad lines, and how many it shows. */
const JOBS_MAX = 20;
const SAMPLES_MAX = 50;
const TAIL = { limit: 50, seconds: 5, rate: 50 };

const link = (job) => h("a", { href: jobLink(job) }, job);
const list = (jobs) => (jobs.length ? jobs.slice(0, JOBS_MAX).flatMap((job, at) => [at ? ", " : null, link(job)]) : "–");

const STREAMS = [
  { key: "stream", label: "Stream", by: (s) => s.stream, cell: (s) => s.stream },
  { key: "path", label: "Path", by: (s) => s.path, cell: (s) => h("code", {}, s.path ?? "–") },
  { key: "format", label: "Format", by: (s) => s.format, cell: (s) => s.format ?? "–" },
  { key: "lines", label: "Lines read", end: true, by: (s) => s.lines, cell: (s) => number(s.lines) },
  { key: "bytes", label: "Bytes read", end: true, by: (s) => s.bytes, cell: (s) => bytes(s.bytes) },
  { key: "jobs", label: "Jobs", by: (s) => s.jobs.length, cell: (s) => list(s.jobs) },
  { key: "problem", label: "Problem", by: (s) => s.problem, cell: (s) => s.problem || "none" },
];

const SINKS = [
  { key: "sink", label: "Sink", by: (s) => s.sink, cell: (s) => s.sink },
  { key: "type", label: "Type", by: (s) => s.type, cell: (s) => s.type ?? "–" },
  { key: "job", label: "Job", by: (s) => s.job, cell: (s) => (s.job ? link(s.job) : "none yet") },
  { key: "written", label: "Written", end: true, by: (s) => s.written, cell: (s) => number(s.written) },
  { key: "lag", label: "Intervals behind", end: true, by: (s) => s.lag, cell: (s) => number(s.lag) },
  { key: "refused", label: "Refused", end: true, by: (s) => s.refused, cell: (s) => number(s.refused) },
  { key: "lost", label: "Lost", end: true, by: (s) => s.lost, cell: (s) => number(s.lost) },
  { key: "problem", label: "Problem", by: (s) => s.problem, cell: (s) => s.problem || "none" },
];

const streamsOf = (agent) => {
  const reported = { ...agent.inputs, ...agent.sources };
  return Object.entries(reported).map(([stream, each]) => ({
    stream, path: each.path, format: each.format, lines: each.lines, bytes: each.bytes, jobs: each.jobs ?? [],
    problem: [...Object.values(each.problems ?? {}), agent.inputs?.[stream]?.problem].filter(Boolean).join("; "),
  }));
};

const sinksOf = (agent) => Object.entries(agent.sinks ?? {}).flatMap(([sink, { type, jobs }]) => {
  const found = Object.entries(jobs ?? {}).map(([job, each]) => ({ sink, type, job, ...each }));
  return found.length ? found : [{ sink, type, job: "" }];
});

export function agentView(main, world, signal, name, learnAgents) {
  const table = (label, columns, id, empty) => new Table({ label, columns, id, size: 15, filter: false, words: () => "", empty });
  const streams = table("streams", STREAMS, (s) => s.stream, "This agent reads no stream.");
  const sinks = table("sinks", SINKS, (s) => `${s.sink} ${s.job}`, "This agent has no sink.");
  const state = h("p", { role: "status" });
  const facts = h("dl", { class: "facts" });
  const samples = h("ul", { class: "concerns" });
  const tail = h("div", { class: "row" });
  const shown = h("pre", { class: "query", tabindex: "0", "aria-label": "Live lines", hidden: true });
  const note = h("p", { class: "faint", role: "status" });
  fill(main,
    h("div", { class: "title" }, h("h1", {}, name), h("a", { class: "button", href: "#/agents" }, "All agents")), state, facts,
    h("section", {}, h("h2", {}, "Streams"), streams.element),
    h("section", {}, h("h2", {}, "Live lines"), tail, note, shown),
    h("section", {}, h("h2", {}, "Samples of bad lines"), samples),
    h("section", {}, h("h2", {}, "Sinks"), sinks.element));
  let offered = "";

  const find = () => allAgents(world).find((each) => each.name === name);

  /** The tail reads the log of the agent that serves the page, for operators: the API permits no other. */
  function offer(agent) {
    const reason = agent.gone ? "This agent does not answer."
      : !world.me?.operate ? "Only an operator can read lines. Enter the agent's token at the top right."
      : world.agent !== name ? `Lines are read at the agent that serves the page, ${world.agent}. Open the page of ${name} itself.` : "";
    const state = JSON.stringify([reason, agent.streams]);
    if (state === offered) return;
    offered = state;
    say(note, reason);
    fill(tail, reason ? null : agent.streams.map((stream) => h("button", { type: "button", on: { click: (event) => read(stream, event.target) } }, `Read ${stream} for ${TAIL.seconds} s`)));
  }

  async function read(stream, button) {
    button.disabled = true;
    say(note, `Reading ${stream}.`);
    try {
      const found = await lines("/v1/tap", { texts: [`SELECT * FROM ${stream}`], stream, ...TAIL }, TAIL.limit + 50, signal);
      const read = found.map((each) => each.line).filter((each) => typeof each === "string");
      shown.hidden = !read.length;
      fill(shown, read.map((each) => h("span", { class: "line" }, each)));
      say(note, read.length ? `${read.length} ${read.length === 1 ? "line" : "lines"} of ${stream} in ${TAIL.seconds} s${read.length === TAIL.limit ? ", at most" : ""}.` : `${stream} got no line in ${TAIL.seconds} s.`);
    } catch (error) {
      if (!signal.aborted) say(note, `${error.message}. ${error.hint ?? ""}`);
    } finally {
      button.disabled = false;
    }
  }

  function drawFacts(agent) {
    const load = (label, key, text) => fact(label, [text(newest(key)), spark(key, label, text)]);
    const whole = (value) => (value === null ? "–" : short(Math.round(value)));
    fill(facts,
      load("Lines per second", `agent lines ${name}`, whole),
      load("CPU", `agent cpu ${name}`, (value) => (value === null ? "–" : `${value.toFixed(1)}\u00a0%`)),
      load("Memory", `agent memory ${name}`, bytes),
      load("Lag", `agent behind ${name}`, seconds),
      fact("Jobs", number((agent.jobs ?? []).length)),
      fact("Leads", number((agent.masters ?? []).length)),
      fact("Skew", seconds(agent.skew_seconds)),
      fact("Labels", names(labels(agent), 6) || "–"),
      fact("Version", agent.version ?? "–"));
  }

  every(3000, signal, async () => {
    await learnAgents(signal);
    const agent = find();
    if (!agent) return void say(state, `No agent that is called ${name} has answered.`);
    const problems = troubles(agent);
    state.className = agent.gone ? "problem" : problems.length ? "warn-text" : "";
    say(state, problems.join("; ") || "in order");
    drawFacts(agent);
    streams.update(streamsOf(agent));
    sinks.update(sinksOf(agent));
    offer(agent);
  });

  every(10_000, signal, async () => {
    if (!find()) await learnAgents(signal);
    const jobs = (find()?.jobs ?? []).slice(0, JOBS_MAX);
    const found = [];
    for (const job of jobs) {
      try {
        const about = await get(jobPath(job), signal);
        for (const each of about.parse_error_samples) if (each.startsWith(`${name}: `)) found.push(h("li", {}, h("span", { class: "dot warn" }), link(job), ` ${each.slice(name.length + 2)}`));
      } catch (error) {
        if (!(error instanceof ApiError)) throw error;
        found.push(h("li", {}, h("span", { class: "dot bad" }), link(job), ` ${error.message}`));
      }
    }
    fill(samples, found.length ? found.slice(0, SAMPLES_MAX) : h("li", { class: "faint" }, "Its jobs have reported no bad line of this agent."));
  });
}
