// Asking the agent: JSON without losing digits, a stream that comes back, and the token, kept here and nowhere else.

import { Exact } from "./text.js";

let token = "";
export const hasToken = () => token !== "";
export function setToken(text) {
  token = text.trim();
}

/** What the agent says is wrong: its JSON, or that it does not answer. */
export class ApiError extends Error {
  constructor(status, body) {
    super(body.error || `HTTP ${status}`);
    this.status = status;
    this.body = body;
    this.hint = body.hint || "";
  }
}

const LONG = /"(?:[^"\\]|\\.)*"|-?\d[\d.eE+-]{14,}/g;
const MARK = "$exact";

/** JSON whose numbers keep every digit: one that a double would change becomes an `Exact`. */
export function parse(text) {
  return parsed(text, LONG, same);
}

const NUMBER = /"(?:[^"\\]|\\.)*"|-?\d[\d.eE+-]*/g;

/** JSON whose numbers keep their text, for files: one that JavaScript writes in another way becomes an `Exact`. */
export function parseTexts(text) {
  return parsed(text, NUMBER, (digits) => String(Number(digits)) === digits);
}

function parsed(text, numbers, stays) {
  const marked = text.replace(numbers, (found) =>
    found[0] === '"' || stays(found) ? found : `{"${MARK}":"${found}"}`,
  );
  if (marked === text) return JSON.parse(text);
  return JSON.parse(marked, (_, value) =>
    value && typeof value === "object" && typeof value[MARK] === "string" && Object.keys(value).length === 1
      ? new Exact(value[MARK])
      : value,
  );
}

function same(digits) {
  const value = Number(digits);
  return String(value) === digits || (/[.eE]/.test(digits) && Number(value.toPrecision(15)) === value);
}

function headers(more = {}) {
  return token ? { ...more, Authorization: `Bearer ${token}` } : more;
}

const SILENT = { error: "the agent does not answer", hint: "The agent may have stopped or may be restarting." };

async function send(method, path, body, signal) {
  const options = { method, headers: headers(), signal, cache: "no-store", redirect: "error" };
  if (body !== undefined) {
    options.headers["Content-Type"] = "application/json";
    options.body = JSON.stringify(body);
  }
  let response;
  try {
    response = await fetch(path, options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError(0, SILENT);
  }
  const text = await response.text();
  let answer;
  try {
    answer = parse(text);
  } catch {
    answer = { error: `the agent answered ${response.status} without JSON` };
    throw new ApiError(response.status, answer);
  }
  if (!response.ok) throw new ApiError(response.status, answer);
  return answer;
}

export const get = (path, signal) => send("GET", path, undefined, signal);
export const post = (path, body, signal) => send("POST", path, body ?? {}, signal);
export const remove = (path, signal) => send("DELETE", path, undefined, signal);
export const jobPath = (job) => `/v1/jobs/${job.split("/").map(encodeURIComponent).join("/")}`;

/** Lines of a POST, at most `most`; what the answer says beyond them is not read. */
export async function lines(path, body, most, signal) {
  const options = { method: "POST", headers: headers({ "Content-Type": "application/json" }), signal };
  const response = await fetch(path, { ...options, body: JSON.stringify(body) });
  const text = await response.text();
  if (!response.ok) throw new ApiError(response.status, parse(text));
  return text.split("\n").filter(Boolean).slice(0, most).map(parse);
}

export const pause = (ms, signal) =>
  new Promise((done, failed) => {
    const timer = setTimeout(done, ms);
    signal?.addEventListener("abort", () => (clearTimeout(timer), failed(signal.reason)), { once: true });
  });

/** Call `work` again and again, never twice at once, not while the page is hidden. Ends with the signal. */
export async function every(ms, signal, work) {
  while (!signal.aborted) {
    if (!document.hidden) {
      try {
        await work();
      } catch (error) {
        if (signal.aborted) return;
        if (!(error instanceof ApiError)) throw error;
      }
    }
    try {
      await pause(ms, signal);
    } catch {
      return;
    }
  }
}

const SILENCE_MS = 45_000;
const LINE_MAX = 32 << 20;

/**
 * Read an answer of results line by line. `record` gets the first part of each record, with `rowCount` rows in
 * all; `part` (optional) gets each part as it comes. `alive` is called for each piece.
 */
async function readLines(response, record, part = null, alive = () => {}, read = parse) {
  let held = "";
  let first = null;
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    alive();
    const parts = (held + value).split("\n");
    held = parts.pop();
    if (held.length > LINE_MAX) throw new Error("an unterminated line");
    for (const line of parts) {
      if (!line) continue;
      const each = read(line);
      if (!each.interval) throw new ApiError(503, each);
      part?.(each);
      if ((each.part ?? 1) === 1) first = each;
      first.rowCount = (each === first ? 0 : first.rowCount) + each.rows.length;
      if (each.part === each.parts) record(first); // a record of several lines: its first rows are kept, and all counted
    }
  }
}

/** Read one page of results with `parse` or `parseTexts`; returns the number of the interval with which the next page begins. */
export async function readRecords(job, query, signal, record, part = null, read = parse) {
  const options = { headers: headers(), signal, cache: "no-store" };
  let response;
  try {
    response = await fetch(`${jobPath(job)}/results?${query}`, options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError(0, SILENT);
  }
  if (!response.ok) throw new ApiError(response.status, parse(await response.text()));
  await readLines(response, record, part, undefined, read);
  return Number(response.headers.get("X-Elf-Next"));
}

/**
 * Follow a job's results and go on after every break from the last interval that was final.
 * `record` gets each record, `state` gets "live", "waiting" (with the seconds until the next try) or "ended".
 */
export async function follow(job, from, signal, record, state) {
  let next = from;
  let wait = 500;
  while (!signal.aborted) {
    const broken = new AbortController();
    const stop = () => broken.abort();
    signal.addEventListener("abort", stop, { once: true });
    let timer = setTimeout(stop, SILENCE_MS);
    try {
      const query = `follow=1&state=all${next === null ? "" : `&from=${next}`}`;
      const options = { headers: headers(), signal: broken.signal, cache: "no-store" };
      const response = await fetch(`${jobPath(job)}/results?${query}`, options);
      if (!response.ok) throw new ApiError(response.status, parse(await response.text()));
      state("live");
      const alive = () => {
        clearTimeout(timer);
        timer = setTimeout(stop, SILENCE_MS);
        wait = 500;
      };
      const take = (each) => {
        if (each.state !== "TENTATIVE") next = each.interval.index + 1;
        record(each);
      };
      await readLines(response, take, null, alive);
    } catch (error) {
      if (signal.aborted) return;
      if (error instanceof ApiError && [401, 403, 404].includes(error.status)) {
        state("ended", error.message);
        return;
      }
    } finally {
      clearTimeout(timer);
      signal.removeEventListener("abort", stop);
    }
    state("waiting", wait / 1000);
    try {
      await pause(wait * (0.75 + Math.random() / 2), signal);
    } catch {
      return;
    }
    wait = Math.min(wait * 2, 10_000);
  }
}
