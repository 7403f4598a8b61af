// The page's frame: which view is open, who looks, whether the agent answers. Views own everything else.

import { ApiError, every, get, hasToken, setToken } from "./api.js";
import { agentView } from "./agent.js";
import { agentsView } from "./agents.js";
import { coordinationView } from "./coordination.js";
import { overviewView } from "./overview.js";
import { learnLoads } from "./loads.js";
import { overlayView } from "./overlay.js";
import { jobView } from "./job.js";
import { pathsView } from "./paths.js";
import { standbysView } from "./standbys.js";
import { fill, h, names, say } from "./text.js";

const main = document.getElementById("main");
const dialog = document.getElementById("dialog");

/** What the views share: who looks, what is known of the overlay, and how to ask before something is done. */
export const world = {
  me: null,
  agents: [],
  jobs: [],
  asked: { answered: 0, expected: 0 },
  agent: "",
  gone: new Map(),
  ask,
  mayChange: (namespace) => {
    const me = world.me;
    return Boolean(me?.submit && (me.operate || me.namespaces.includes("*") || me.namespaces.includes(namespace)));
  },
};

const GONE_MS = 15 * 60_000;
const GONE_MAX = 1000;
let seen = new Map();

/** Spark lines have a sample at most so often, because several views ask at times of their own. */
const LEARN_MS = 2500;
let learned = 0;

/** All agents, those among them that have answered before and do not now. */
export async function learnAgents(signal) {
  const [answer, { jobs }] = await Promise.all([get("/v1/agents", signal), get("/v1/jobs", signal)]);
  const now = Date.now();
  const dead = answer.agents.filter((agent) => agent.status === "dead");
  const alive = answer.agents.filter((agent) => agent.status !== "dead");
  const here = new Map(alive.map((agent) => [agent.name, agent]));
  for (const [name, agent] of seen) if (!here.has(name) && !world.gone.has(name)) world.gone.set(name, { agent, since: now });
  for (const [name, { since }] of world.gone) if (here.has(name) || now - since > GONE_MS) world.gone.delete(name);
  for (const [name, { agent }] of world.gone) if (!agent.id && !lacking(jobs).has(name)) world.gone.delete(name);
  for (const agent of dead) if (!here.has(agent.name)) world.gone.set(agent.name, { agent, since: Date.parse(agent.last_seen) || now });
  for (const name of lacking(jobs)) if (!here.has(name) && !world.gone.has(name)) world.gone.set(name, { agent: { name, id: "" }, since: now });
  while (world.gone.size > GONE_MAX) world.gone.delete(world.gone.keys().next().value);
  for (const [name, agent] of here) agent.before = before(seen.get(name), agent);
  if (now - learned >= LEARN_MS) {
    learned = now;
    learnLoads(alive, jobs);
  }
  seen = here;
  world.agents = alive;
  world.asked = answer.asked;
  world.jobs = jobs;
}

/** Who is missing from the newest result of a job: known also to a page that was opened after they had gone. */
const lacking = (jobs) => new Set(jobs.flatMap((job) => job.missing ?? []));

/** What rates are counted from: an agent's last answer that is at least a second older. */
function before(last, agent) {
  if (!last?.load || !agent.load) return null;
  const { load, incarnation } = last;
  return agent.load.clock_seconds - load.clock_seconds >= 1 ? { load, incarnation } : last.before;
}

// -- who looks -----------------------------------------------------------------------------------------

const meButton = document.getElementById("me");
meButton.addEventListener("click", openToken);

async function learnMe() {
  world.me = await get("/v1/me");
  const role = world.me.operate ? "operator" : world.me.submit ? `submitter of ${world.me.namespaces.join(", ")}` : "read-only";
  say(meButton, role);
  meButton.title = `You are ${world.me.name}, known by ${world.me.source}. Change it here.`;
}

/** The warning that no view can hide: agents that believe any peer that reaches them. */
function warn(health) {
  const others = world.agents.filter((each) => String(each.security?.mode ?? "").startsWith("INSECURE")).map((each) => each.name);
  const open = health.insecure || world.me?.insecure_network || others.length > 0;
  const banner = document.getElementById("insecure");
  banner.hidden = !open;
  say(banner, open ? `Insecure network: ${names(others.length ? others : [health.agent])} answers other hosts without certificates. They trust every host that can reach them.` : "");
}

function openToken() {
  const input = h("input", { type: "password", id: "token", autocomplete: "off", spellcheck: "false", class: "wide" });
  const problem = h("p", { class: "problem", role: "alert" });
  const use = async (text) => {
    setToken(text);
    try {
      await learnMe();
      dialog.close();
      opened.path = null;
      route();
    } catch (error) {
      setToken("");
      say(problem, error.message);
      await learnMe().catch(() => {});
    }
  };
  open("Your identity", [
    h("p", {}, `${world.me?.name ?? "unknown"}, known by ${world.me?.source ?? "nothing"}.`),
    h("label", { for: "token" }, "The agent's API token"),
    input,
    h("p", { class: "faint" }, "The token is in the file api.token in the agent's data directory. This page keeps it in memory only, so a reload discards it."),
    problem,
  ], [
    hasToken() ? ["Forget the token", () => use("")] : null,
    ["Use the token", () => (input.value.trim() ? use(input.value) : say(problem, "Enter a token first."))],
  ]);
}

// -- asking before something is done -------------------------------------------------------------------

function open(title, content, buttons) {
  const close = h("button", { type: "button", on: { click: () => dialog.close() } }, "Cancel");
  const others = buttons.filter(Boolean).map(([label, call, kind]) =>
    h("button", { type: "button", class: kind ?? "main", on: { click: call } }, label));
  fill(dialog, h("h2", { id: "dialog-title" }, title), content, h("div", { class: "row end" }, close, others));
  dialog.showModal();
}

/** Ask before `act`; what goes wrong is said in the dialog, which stays open then. */
function ask(title, text, label, act, kind = "main") {
  const problem = h("p", { class: "problem", role: "alert" });
  const go = async (event) => {
    event.target.disabled = true;
    try {
      await act();
      dialog.close();
    } catch (error) {
      say(problem, `${error.message} ${error.hint ?? ""}`);
      event.target.disabled = false;
    }
  };
  open(title, [h("p", {}, text), problem], [[label, go, kind]]);
}

// -- views ---------------------------------------------------------------------------------------------

let leaving = new AbortController();
let opened = { path: null, view: null };

/** Returns whether another view was opened; a view that knows what to do with another query stays. */
async function route() {
  const [path, ...asked] = location.hash.split("?");
  const query = new URLSearchParams(asked.join("?"));
  if (path === opened.path && opened.view?.change) {
    opened.view.change(query);
    return false;
  }
  leaving.abort();
  leaving = new AbortController();
  opened = { path, view: null };
  const [, view = "", ...rest] = decodeURI(path).split("/");
  const job = rest.map(decodeURIComponent).join("/");
  for (const link of document.querySelectorAll("nav a")) {
    const here = link.getAttribute("href") === `#/${["job", "paths", "standbys"].includes(view) ? "" : view}`;
    if (here) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  document.title = job ? `${job} · elfmesh` : `${view || "overview"} · elfmesh`;
  const signal = leaving.signal;
  if (view === "console") {
    fill(main, h("p", { class: "faint" }, "Loading the editor."));
    const { consoleView } = await import("./console.js");
    if (!signal.aborted) consoleView(main, world, signal, job);
  } else if (view === "agents" && job) agentView(main, world, signal, job, learnAgents);
  else if (view === "agents") agentsView(main, world, signal, learnAgents);
  else if (view === "overlay") overlayView(main, world, signal, learnAgents);
  else if (view === "coordination") coordinationView(main, world, signal);
  else if (view === "job" && job) opened.view = jobView(main, world, signal, job, query);
  else if (view === "paths" && job) pathsView(main, world, signal, job);
  else if (view === "standbys" && job) {
    if (!world.agents.length) await learnAgents(signal).catch(() => {});
    if (!signal.aborted) standbysView(main, world, signal, job);
  }
  else overviewView(main, world, signal, learnAgents);
  return true;
}

const pulse = document.getElementById("pulse");

async function beat() {
  try {
    const health = await get("/v1/health");
    world.agent = health.agent;
    warn(health);
    pulse.className = `pulse ${health.status === "ok" ? "good" : "warn"}`;
    say(pulse, health.status === "ok" ? `live at ${health.agent}` : `${health.agent}: ${health.problem ?? health.status}`);
    if (!world.me) await learnMe();
  } catch (error) {
    pulse.className = "pulse bad";
    say(pulse, error instanceof ApiError && error.status ? error.message : "the agent does not answer");
    throw error;
  }
}

window.addEventListener("hashchange", () => route().then((other) => other && main.focus({ preventScroll: true })));
if (location.hash.startsWith("#token=")) {
  // Printed by `elf page`: taken out of the address before anything can keep it.
  setToken(decodeURIComponent(location.hash.slice("#token=".length)));
  window.history.replaceState(null, "", location.pathname);
}
await learnMe().catch(() => {});
route();
const always = new AbortController().signal;
every(5000, always, beat);
// Also while another view is open: who goes meanwhile was here.
every(10_000, always, () => learnAgents());
