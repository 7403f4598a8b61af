// The console: write a job, see what is wrong at its column, see what becomes of the state, then apply it.

import { ApiError, get, jobPath, lines, post } from "./api.js";
import { difference } from "./difference.js";
import { makeEditor } from "./editor.js";
import { labelTag, reason } from "./coordination.js";
import { jobLink } from "./overview.js";
import { fill, h, names, number, say } from "./text.js";

const CHECK_MS = 300;
const SAMPLES = 20;
const TEMPLATE = (stream) => `CREATE JOB demo.hits EVERY '10 s' LATENESS '2 s' AS
SELECT COUNT(*) AS hits
FROM   ${stream}
GROUP BY TUMBLE(ts, INTERVAL '10' SECOND)
`;
const MEANING = {
  new: "a new job; no job has this name",
  unchanged: "this version is already running",
  keep: "the state is kept; open windows continue",
  "warm up": "open windows are recomputed from the logs; no record is lost",
  reset: "groups or windows start empty at the boundary",
};

export async function consoleView(main, world, signal, job) {
  const status = h("p", { class: "verdict", role: "status", "aria-live": "polite" });
  const jump = h("button", { type: "button", class: "link", hidden: true }, "Go there");
  const planBox = h("section", { class: "plan", "aria-live": "polite", "aria-label": "Plan of the change" });
  const host = h("div", { class: "editor" });
  const planButton = h("button", { type: "button", class: "main", disabled: true }, "Plan");
  const note = h("p", { class: "faint" });
  const side = h("section", { class: "names" });
  const choice = h("select", { id: "which" });
  fill(main,
    h("div", { class: "title" }, h("h1", {}, "Console"), h("label", { class: "hidden", for: "which" }, "Job to edit"), choice),
    h("div", { class: "columns" },
      h("section", { class: "wide-column" }, host, h("div", { class: "row" }, status, jump), h("div", { class: "row" }, planButton, note), planBox),
      side));
  let language;
  try {
    language = await get("/v1/language", signal);
  } catch (error) {
    if (!signal.aborted) fill(main, h("p", { class: "problem", role: "alert" }, `${error.message}. ${error.hint ?? ""}`));
    return;
  }
  if (signal.aborted) return;

  const columns = new Map(language.streams.map((each) => [each.stream, new Set(each.columns)]));
  const fields = new Set();
  let checked = null;
  let timer = null;
  let turn = 0;

  const editor = makeEditor(host, {
    label: "ELF-QL, the text of a job", language, run: () => planButton.disabled || plan(),
    columns: () => [...new Set([...fields, ...[...columns.values()].flatMap((each) => [...each])])],
    changed: () => {
      fill(planBox);
      checked = null;
      allow();
      clearTimeout(timer);
      timer = setTimeout(check, CHECK_MS);
    },
  });
  signal.addEventListener("abort", () => (clearTimeout(timer), editor.end()));
  planButton.addEventListener("click", plan);

  async function check() {
    const mine = ++turn;
    const text = editor.text;
    if (!text.trim()) return verdict("", "Write a job: CREATE JOB namespace.name AS SELECT …");
    try {
      const answer = await post("/v1/check", { text }, signal);
      if (mine !== turn) return;
      checked = answer;
      answer.fields.forEach((each) => fields.add(each));
      editor.mark(null);
      verdict("good", `${checked.job} reads ${names(checked.streams)} and gives ${names(checked.columns, 8)}`);
    } catch (error) {
      if (mine !== turn || signal.aborted) return;
      checked = null;
      wrong(error);
    }
    allow();
  }

  function wrong(error) {
    const { line, column, hint } = error.body ?? {};
    editor.mark(line ? error.body : null);
    verdict("bad", `${line ? `line ${line}, column ${column}: ` : ""}${error.message}. ${hint ?? ""}`);
    jump.hidden = !line;
    jump.onclick = () => editor.go(error.body);
  }

  function verdict(kind, text) {
    status.className = `verdict ${kind}`;
    jump.hidden = true;
    say(status, text);
  }

  function allow() {
    const may = checked && world.mayChange(checked.namespace);
    planButton.disabled = !may;
    say(note, checked && !may ? `Your role can only read. Submitting to ${checked.namespace} needs another role. Give a token at the top right.` : "Nothing is changed before you confirm. Ctrl+Enter plans.");
  }

  async function plan() {
    const text = editor.text;
    planButton.disabled = true;
    try {
      const answer = await post("/v1/jobs", { text, dry_run: true, source: "console" }, signal);
      const old = answer.state === "new" ? null : (await get(jobPath(answer.job), signal)).text;
      const { outputs } = await post("/v1/coordination", { text }, signal);
      if (editor.text === text) showPlan(answer, text, old, outputs.find((each) => !each.provisional));
    } catch (error) {
      if (!signal.aborted) wrong(error);
    }
    allow();
  }

  function showPlan(answer, text, old, output) {
    const meaning = answer.state === "reset" && answer.in_place === false ? "results and interval numbers restart" : (MEANING[answer.state] ?? answer.state);
    const effects = Object.entries(answer.columns ?? {});
    const result = h("p", { class: "verdict", role: "status" });
    const confirm = h("button", { type: "button", class: answer.state === "reset" ? "danger" : "main", disabled: answer.state === "unchanged" },
      answer.state === "new" ? "Create the job" : `Apply version ${answer.version}`);
    confirm.addEventListener("click", async () => {
      confirm.disabled = true;
      result.className = "verdict";
      say(result, "Waiting for the agents to acknowledge.");
      try {
        const done = await post("/v1/jobs", { text, source: "console" }, signal);
        result.className = "verdict good";
        fill(result, `Version ${done.version}: ${done.acknowledged} of ${done.expected} agents have it. `, h("a", { href: jobLink(done.job) }, `Watch ${done.job}`));
      } catch (error) {
        result.className = "verdict bad";
        say(result, `${error.message}. ${error.hint ?? ""}`);
        confirm.disabled = false;
      }
    });
    fill(planBox,
      h("h2", {}, `${answer.job}, version ${answer.version}`),
      h("p", {}, h("span", { class: `state ${{ keep: "good", new: "good", "warm up": "warn", reset: "bad" }[answer.state] ?? "open"}` }, answer.state), ` ${meaning}`,
        answer.reasons?.length ? ` (${answer.reasons.join(", ")})` : "", `; ${number(answer.expected)} agents`),
      output ? h("p", {}, labelTag(output), ` ${reason(output)} ${output.conditions.length ? `if ${output.conditions.join(", ")}` : ""}`) : null,
      effects.length ? h("ul", { class: "effects" }, effects.map(([name, effect]) => h("li", {}, h("code", {}, name), ` ${effect}`))) : null,
      answer.hint ? h("p", { class: "faint" }, answer.hint) : null,
      old === null || old.trim() === text.trim() ? null : difference(old, text),
      h("div", { class: "row" }, confirm, result));
  }

  function drawSide() {
    fill(side,
      h("h2", {}, "Streams"),
      language.streams.length ? h("ul", { class: "plain" }, language.streams.map((each) => {
        const known = [...(columns.get(each.stream) ?? [])];
        const look = h("button", { type: "button", class: "link", on: { click: () => sample(each.stream, look) } }, "show lines");
        return h("li", {}, h("strong", {}, each.stream), ` ${each.formats.join(", ")}, ${each.agents.length} agents`,
          h("div", { class: "tags" }, known.length ? known.map((name) => h("span", { class: "tag" }, name)) : [h("span", { class: "faint" }, "its columns are known only from the data", world.me?.operate ? "; " : ""), world.me?.operate ? look : null]));
      })) : h("p", { class: "faint" }, "No agent has a stream."),
      h("h2", {}, "Language"),
      h("p", { class: "faint" }, `${language.functions.length} functions; Ctrl+Space completes names, columns and functions.`));
  }

  async function sample(stream, button) {
    button.disabled = true;
    try {
      const body = { texts: [`SELECT * FROM ${stream}`], limit: SAMPLES, seconds: 3, beginning: true, rate: 200 };
      const found = await lines("/v1/tap", body, SAMPLES + 2, signal);
      const paths = new Set();
      for (const { line } of found) if (typeof line === "string") collect(line, paths);
      columns.set(stream, paths);
      drawSide();
      if (!paths.size) say(note, `No line was found in ${stream} on ${world.agent}.`);
    } catch (error) {
      if (!signal.aborted) say(note, `${error.message}. ${error.hint ?? ""}`);
    }
  }

  function options() {
    fill(choice, h("option", { value: "" }, "a new job"), language.jobs.map((each) => h("option", { value: each }, each)));
    choice.value = job;
    choice.addEventListener("change", () => (location.hash = choice.value ? `#/console/${choice.value.split("/").map(encodeURIComponent).join("/")}` : "#/console"));
  }

  options();
  drawSide();
  try {
    editor.text = job ? (await get(jobPath(job), signal)).text : TEMPLATE(language.streams[0]?.stream ?? "stream");
  } catch (error) {
    if (error instanceof ApiError) verdict("bad", `${error.message}. ${error.hint}`);
  }
}

const PATHS_MAX = 200;

/** The dotted paths of a JSON line; a line that is none has no columns to show. */
function collect(line, paths) {
  let value;
  try {
    value = JSON.parse(line);
  } catch {
    return;
  }
  const walk = (each, path) => {
    for (const [key, inner] of Object.entries(each)) {
      if (paths.size >= PATHS_MAX) return;
      const name = path ? `${path}.${key}` : key;
      if (inner && typeof inner === "object" && !Array.isArray(inner)) walk(inner, name);
      else paths.add(name);
    }
  };
  if (value && typeof value === "object") walk(value, "");
}
