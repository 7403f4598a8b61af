// What this page has seen of load and delay since it was opened: a bounded number of samples, drawn as spark lines.

import { h } from "./text.js";

/** How far back the samples of a series reach, and from which distance on there is a gap between two. */
const REACH_MS = 10 * 60_000;
const GAP_MS = 25_000;
const SERIES_MAX = 2000;
const WIDTH = 100;
const HEIGHT = 20;

const series = new Map();

/** Add a value, null if it is not known, to a series. The series that has been without one for longest is dropped first. */
function sample(name, value) {
  const found = series.get(name) ?? [];
  series.delete(name);
  series.set(name, found);
  const at = Date.now();
  found.push({ at, value: value ?? null });
  while (found[0].at < at - REACH_MS) found.shift();
  if (series.size > SERIES_MAX) series.delete(series.keys().next().value);
}

/** The newest value of a series, null if there is none. */
export const newest = (name) => series.get(name)?.at(-1)?.value ?? null;

/** Changes when the line of a series does: a line of zeros stays as it is. */
export const version = (name) => (series.get(name)?.some((each) => each.value) ? series.get(name).at(-1).at : 0);

/** The fleet's load: a sample of all agents together, of each agent and of each job. */
export function learnLoads(agents, jobs) {
  const rates = agents.map((agent) => rate(agent, "lines"));
  const known = rates.filter((each) => each !== null);
  sample("lines", known.length ? known.reduce((sum, each) => sum + each, 0) : null);
  const delays = agents.map((agent) => agent.load?.behind_seconds).filter((each) => each !== null && each !== undefined);
  sample("behind", delays.length ? Math.max(...delays) : null);
  agents.forEach((agent, at) => {
    sample(`agent lines ${agent.name}`, rates[at]);
    const cores = rate(agent, "cpu_seconds");
    sample(`agent cpu ${agent.name}`, cores === null ? null : 100 * cores);
    sample(`agent behind ${agent.name}`, agent.load?.behind_seconds);
    sample(`agent memory ${agent.name}`, agent.load?.rss_bytes);
  });
  for (const job of jobs) sample(`job ${job.id}`, job.held_for_seconds ?? 0);
}

/** A counter of an agent's load a second, between its last two answers and by its own clock. */
export function rate(agent, name) {
  const { before, load } = agent;
  if (!before || !load || before.incarnation !== agent.incarnation || load.clock_seconds <= before.load.clock_seconds) return null;
  if (load[name] === null || before.load[name] === null) return null;
  return Math.max(0, (load[name] - before.load[name]) / (load.clock_seconds - before.load.clock_seconds));
}

/** A line over the last ten minutes of a series, from 0 to the largest value, with gaps where none is known. */
export function spark(name, label, words) {
  const found = series.get(name) ?? [];
  const known = found.map((each) => each.value).filter((each) => each !== null);
  const most = Math.max(...known, Number.MIN_VALUE);
  const now = Date.now();
  let path = "";
  let last = null;
  for (const { at, value } of found) {
    if (value === null) {
      last = null;
      continue;
    }
    const begins = last === null || at - last > GAP_MS;
    const [x, y] = [WIDTH * (1 - (now - at) / REACH_MS), HEIGHT - 1 - (HEIGHT - 2) * (value / most)];
    path += `${begins ? "M" : "L"}${x.toFixed(2)} ${y.toFixed(1)}${begins ? "h0.1" : ""}`;
    last = at;
  }
  const text = known.length ? `${label}: ${words(known.at(-1))} now, at most ${words(Math.max(...known))}` : `${label}: not known yet`;
  return h("svg", { class: "spark", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img", "aria-label": text },
    h("title", {}, text), h("path", { d: path }));
}
