// A range of time of a job's results: its address, the intervals in it, and the controls that choose it.

import { get, jobPath, readRecords } from "./api.js";
import { INTERVALS_MAX } from "./history.js";
import { clock, fill, h, number, say } from "./text.js";

const LAST = [[5, "5 min"], [15, "15 min"], [60, "1 h"], [360, "6 h"], [1440, "1 day"], [10080, "7 days"]];
const PAGE = 100;

/** The first or the last time that an address may name: what `Date` can hold. */
const MS_MAX = 8.64e15;

/** A range as an address has it: UTC, and no milliseconds if they are 0. */
export const iso = (ms) => new Date(ms).toISOString().replace(".000Z", "Z");

/** Milliseconds of an ISO time; one without an offset is UTC, as in `elf results --since`. NaN if it is none. */
function time(text) {
  if (!/^\d{4}-\d\d-\d\d(T\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:\d\d)?)?$/.test(text)) return NaN;
  return Date.parse(/T.*(Z|[+-]\d\d:\d\d)$/.test(text) ? text : text.includes("T") ? `${text}Z` : `${text}T00:00:00Z`);
}

/**
 * The range that an address names.
 * @returns {from, to} in milliseconds; null: the page follows the newest results. Throws Error with the reason.
 */
export function rangeOf(query) {
  const [from, to] = ["from", "to"].map((name) => query.get(name));
  if (from === null && to === null) return null;
  const range = {};
  for (const [name, text] of [["from", from], ["to", to]]) {
    if (text === null) throw new Error(`The address has no ${name}=: a range needs from= and to=.`);
    range[name] = time(text);
    if (!(Math.abs(range[name]) <= MS_MAX)) throw new Error(`${name}=${text} is not a time such as 2026-03-01T10:05:00Z.`);
  }
  if (range.from >= range.to) throw new Error(`The range ends at ${iso(range.to)}, which is not after its start ${iso(range.from)}.`);
  return range;
}

/** The query of an address for a range; "" for none. */
export const rangeQuery = (range) => (range ? `?from=${iso(range.from)}&to=${iso(range.to)}` : "");

/**
 * The numbers of the intervals that start in [from, to), as far as the results log holds them.
 * Two requests for one record each: the numbers of intervals are a line over their starts.
 * @returns {first, last, total, earliest: start of the oldest record}; null if the log has none of them
 */
export async function intervalsIn(job, { from, to }, signal) {
  const { earliest, latest } = await get(`${jobPath(job)}/offsets`, signal);
  if (earliest === null || latest < earliest) return null;
  const head = async (index) => {
    let found = null;
    await readRecords(job, `from=${index}&limit=1&rows=0`, signal, (each) => (found ??= each));
    return found?.interval;
  };
  const [oldest, newest] = [await head(earliest), await head(latest)];
  if (!oldest || !newest) return null;
  if (!newest.start) throw new Error("The intervals of this job have no times, so that it has no ranges of time.");
  const [old, recent] = [oldest, newest].map((each) => Date.parse(each.start));
  const span = newest.index - oldest.index;
  const slide = span ? (recent - old) / span : Math.max(1, Date.parse(newest.end) - recent);
  const numberAt = (ms) => newest.index - Math.floor((recent - ms) / slide + 1e-9); // the first that starts at `ms` or later
  const first = Math.max(numberAt(from), oldest.index);
  const last = Math.min(numberAt(to) - 1, newest.index);
  return last < first ? null : { first, last, total: last - first + 1, earliest: old, newest: Date.parse(newest.end) };
}

/** Read the closed intervals [first, last], page by page; `record` gets each with at most the rows of one answer's line. */
export async function readIntervals(job, { first, last }, signal, record, every = null, read = undefined) {
  for (let next = first; next <= last; ) {
    const after = await readRecords(job, `from=${next}&to=${last}&limit=${PAGE}`, signal, record, every, read);
    if (!(after > next)) return;
    next = after;
  }
}

/** The controls of a job's page that choose the range; `go` gets a range, or null for the newest results. */
export class RangePicker {
  constructor(go) {
    this.go = go;
    this.range = null;
    this.end = null;
    this.note = h("span", { class: "faint", role: "status" });
    this.last = h("select", { id: "range-last", on: { change: () => this.choose() } },
      h("option", { value: "live" }, "live"), LAST.map(([minutes, text]) => h("option", { value: minutes }, `last ${text}`)),
      h("option", { value: "own", hidden: true }, "a range"));
    const field = (id) => h("input", { type: "datetime-local", step: "1", id, required: true });
    const named = (text, input) => h("label", { for: input.id }, text, input);
    [this.from, this.to] = [field("range-from"), field("range-to")];
    const button = (text, title, click) => h("button", { type: "button", title, on: { click } }, text);
    this.earlier = button("Earlier", "The range before this one, of the same length", () => this.move(-1));
    this.later = button("Later", "The range after this one, of the same length", () => this.move(1));
    this.element = h("form", { class: "range row", "aria-label": "Range of time", on: { submit: (event) => (event.preventDefault(), this.apply()) } },
      h("label", { for: "range-last" }, "Show"), this.last,
      named("From (UTC)", this.from), named("To (UTC)", this.to),
      h("button", {}, "Apply"), this.earlier, this.later, this.note);
    this.show(null);
  }

  /** Show which range the page has. */
  show(range) {
    this.range = range;
    this.last.value = range ? "own" : "live";
    this.earlier.disabled = this.later.disabled = !range;
    const text = (ms) => new Date(ms).toISOString().slice(0, 19);
    fill(this.note);
    [this.from.value, this.to.value] = range ? [text(range.from), text(range.to)] : ["", ""];
  }

  /** What the range holds, or that it holds nothing. */
  found(found) {
    if (!found) return say(this.note, "No closed interval is in this range.");
    const kept = this.range.from < found.earliest ? ` The results begin at ${clock(iso(found.earliest))}.` : "";
    say(this.note, `${number(found.total)} ${found.total === 1 ? "interval" : "intervals"}${found.total > INTERVALS_MAX ? `, of which the newest ${INTERVALS_MAX} are shown` : ""}.${kept}`);
  }

  choose() {
    if (this.last.value === "live") return this.go(null);
    const to = this.end ?? Math.ceil(Date.now() / 1000) * 1000;
    this.go({ from: to - Number(this.last.value) * 60_000, to });
  }

  apply() {
    const [from, to] = [this.from, this.to].map((each) => time(each.value));
    if (from >= to) return say(this.note, "The range must end after its start.");
    this.go({ from, to });
  }

  move(step) {
    const length = this.range.to - this.range.from;
    this.go({ from: this.range.from + step * length, to: this.range.to + step * length });
  }
}
