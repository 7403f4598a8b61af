// One job: its results as they come or of a range of time, who is missing, what holds the next interval, and time per step.

import { ApiError, every, follow, get, jobPath, post, remove } from "./api.js";
import { TimeChart, bars, strip, style } from "./charts.js";
import { chartAsPng, rowsAsCsv, save } from "./export.js";
import { History, INTERVALS_MAX } from "./history.js";
import { completeness, fact, jobLink, stateTag } from "./overview.js";
import { RangePicker, intervalsIn, iso, rangeOf, rangeQuery, readIntervals } from "./range.js";
import { rows as treeRows } from "./ring.js";
import { pathsLink } from "./paths.js";
import { standbysLink } from "./standbys.js";
import { Table } from "./table.js";
import { cell, clock, fill, h, names, number, percent, say, seconds, showLines } from "./text.js";

const BACK = 120;
const DRAW_MS = 250;

/** Returns the view, whose `change` gets the query of another address of the same job. */
export function jobView(main, world, signal, job, query) {
  const page = new JobPage(main, world, signal, job);
  page.start(query);
  return page;
}

class JobPage {
  constructor(main, world, signal, job) {
    Object.assign(this, { world, signal, job });
    this.history = new History();
    this.chosen = null;
    this.value = "";
    this.range = null;
    this.home = null; // the query before the first zoom
    this.picker = new RangePicker((range) => this.go(range));
    this.chart = new TimeChart(signal, (from, to) => this.zoom({ from: from * 1000, to: to * 1000 }));
    this.unzoom = h("button", { type: "button", title: "The range before the zoom (Escape)", hidden: true, on: { click: () => this.leaveZoom() } }, "Reset zoom");
    this.csv = h("button", { type: "button", title: "All rows of the closed intervals that are shown, with all digits", on: { click: () => this.saveRows() } }, "Save CSV");
    this.png = h("button", { type: "button", title: "The chart as it is shown", on: { click: () => this.savePicture() } }, "Save PNG");
    this.saved = h("p", { class: "problem", role: "alert" });
    this.state = h("span");
    this.live = h("span", { class: "pulse", role: "status" }, "connecting");
    this.problem = h("p", { class: "problem", role: "alert" });
    this.facts = h("dl", { class: "facts" });
    this.why = h("div", { class: "why", "aria-live": "polite" });
    this.strip = h("div", { class: "strip", role: "group", "aria-label": "Intervals, oldest first" });
    this.choice = h("select", { id: "value", on: { change: () => ((this.value = this.choice.value), this.draw()) } });
    this.bars = h("div");
    this.barsTitle = h("h2", {}, "Newest interval");
    this.rowsTitle = h("span", { class: "faint" });
    this.rowsBox = h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Rows of the interval" });
    this.tree = h("tbody");
    this.spent = h("div", { class: "spent" });
    this.text = h("pre", { class: "query", tabindex: "0", "aria-label": "The job's text" });
    this.errors = h("ul", { class: "concerns" });
    this.buttons = h("div", { class: "row" });
    this.intervals = this.intervalTable();
    this.lay(main);
  }

  lay(main) {
    const treeTable = h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Reducer tree" },
      h("table", { class: "tree" },
        h("thead", {}, h("tr", {}, ["Agent", "Below", "Contributions arrive", "Has sealed", "State"].map((text, at) => h("th", { scope: "col", class: at === 1 || at === 3 ? "end" : null }, text)))),
        this.tree));
    fill(main,
      h("div", { class: "title" }, h("h1", {}, this.job), this.state, this.live, this.buttons),
      this.problem, this.facts, this.why, this.picker.element, this.saved,
      h("div", { class: "columns" },
        h("section", { class: "wide-column" },
          h("div", { class: "title" }, h("h2", {}, "By interval"), h("label", { for: "value", class: "hidden" }, "Column to draw"), this.choice, h("div", { class: "row" }, this.unzoom, this.csv, this.png)),
          this.chart.element, this.strip,
          h("p", { class: "key" }, ["final", "final, partial", "tentative", "skipped"].map((text, at) => h("span", { class: "legend" }, h("span", { class: `slot ${["final", "final_partial", "tentative", "skipped"][at]}`, vars: { "--share": at === 1 ? 0.6 : 1 } }), text)))),
        h("section", {}, this.barsTitle, this.bars)),
      h("div", { class: "columns" },
        h("section", { class: "wide-column" }, h("h2", {}, "Reducer tree, and time per step"), this.spent, treeTable),
        h("section", {}, h("div", { class: "title" }, h("h2", {}, "Rows"), this.rowsTitle), this.rowsBox)),
      h("section", {}, h("h2", {}, "Intervals"), this.intervals.element),
      h("section", {}, h("h2", {}, "Text"), this.errors, this.text));
  }

  intervalTable() {
    const choose = (record) => h("button", { type: "button", class: "link", on: { click: () => this.choose(record.interval.index) } }, clock(record.interval.start) === "–" ? String(record.interval.index) : clock(record.interval.start));
    const lost = (record) => Object.entries(record.counts).filter(([name, count]) => count && !["contributed", "filtered"].includes(name)).map(([name, count]) => `${name.replace("_", " ")} ${number(count)}`).join(", ");
    return new Table({
      label: "intervals", size: 15, filter: false, id: (r) => String(r.interval.index), sort: { key: "start", down: true },
      empty: "This page has no interval to show.", words: () => "", mark: () => "",
      columns: [
        { key: "start", label: "Start", by: (r) => r.interval.index, cell: choose },
        { key: "state", label: "State", by: (r) => r.state, cell: (r) => [stateTag(r.state), r.rev > 1 ? h("span", { class: "faint" }, ` rev ${r.rev}`) : null] },
        { key: "complete", label: "Complete", by: (r) => r.completeness, cell: (r) => completeness(r.completeness, r.agents.missing) },
        { key: "in", label: "Agents", end: true, cell: (r) => `${r.agents.in} of ${r.agents.expected}` },
        { key: "missing", label: "Missing", by: (r) => r.agents.missing.length, cell: (r) => (r.agents.missing.length ? names(r.agents.missing, 6) : "–") },
        { key: "rows", label: "Rows", end: true, by: (r) => r.rowCount, cell: (r) => number(r.rowCount) },
        { key: "records", label: "Records", end: true, by: (r) => r.counts.contributed, cell: (r) => number(r.counts.contributed) },
        { key: "lost", label: "Not used", cell: (r) => lost(r) || "–" },
        { key: "version", label: "Version", end: true, by: (r) => r.version, cell: (r) => number(r.version) },
      ],
    });
  }

  start(query) {
    this.drawButtons(null);
    const leave = (event) => event.key === "Escape" && this.home !== null && !document.querySelector("dialog[open]") && this.leaveZoom();
    document.addEventListener("keydown", leave, { signal: this.signal });
    every(3000, this.signal, () => this.describe());
    this.change(query);
  }

  // -- the range -----------------------------------------------------------------------------------------

  /** Show the range of another query of the address. */
  change(query) {
    this.reading?.abort();
    this.reading = new AbortController();
    const signal = AbortSignal.any([this.signal, this.reading.signal]);
    [this.history, this.chosen, this.caughtUp, this.interval] = [new History(), null, false, null];
    this.chart.clear();
    fill(this.strip);
    fill(this.bars);
    fill(this.rowsBox);
    say(this.saved, "");
    this.intervals.update([]);
    try {
      this.range = rangeOf(query);
    } catch (error) {
      this.still("bad", "no range");
      return say(this.saved, error.message);
    }
    if (rangeQuery(this.range) === this.home) this.home = null;
    this.unzoom.hidden = this.home === null;
    this.picker.show(this.range);
    if (this.range) this.read(signal);
    else this.follow(signal);
  }

  go(range) {
    this.home = null;
    location.hash = `${jobLink(this.job)}${rangeQuery(range)}`;
  }

  zoom(range) {
    this.home ??= rangeQuery(this.range);
    location.hash = `${jobLink(this.job)}${rangeQuery(range)}`;
  }

  leaveZoom() {
    location.hash = `${jobLink(this.job)}${this.home}`;
  }

  still(kind, text) {
    this.live.className = `pulse ${kind}`;
    say(this.live, text);
  }

  /** Read the closed intervals of the range, at most as many as the page keeps. */
  async read(signal) {
    this.still("warn", "reading");
    try {
      const found = await intervalsIn(this.job, this.range, signal);
      this.picker.found(found);
      if (found) {
        this.picker.end = found.newest;
        this.interval = { first: Math.max(found.first, found.last - INTERVALS_MAX + 1), last: found.last };
        await readIntervals(this.job, this.interval, signal, (each) => this.take(each));
      }
      this.still("", "a range, not live");
      this.draw();
    } catch (error) {
      if (signal.aborted) return;
      this.still("bad", "not read");
      say(this.saved, `${error.message}${error.hint ? `. ${error.hint}` : ""}`);
    }
  }

  take(record) {
    this.history.add(record);
    this.timer ??= setTimeout(() => ((this.timer = null), this.signal.aborted || this.draw()), DRAW_MS);
  }

  async follow(signal) {
    this.still("", "connecting");
    const pulse = (state, wait) => {
      this.still(state === "live" ? "good" : state === "ended" ? "bad" : "warn", state === "live" ? "live" : state === "ended" ? `ended: ${wait}` : "connection lost, trying again");
    };
    let from = null;
    const record = (each) => {
      // What was there already says nothing about how long results take to get here.
      if (this.caughtUp && each.state !== "TENTATIVE" && each.interval.end) each.delay = (Date.now() - Date.parse(each.interval.end)) / 1000;
      this.caughtUp ||= from === null || each.interval.index >= this.known;
      this.picker.end = Math.max(this.picker.end ?? 0, Date.parse(each.interval.end) || 0) || null;
      this.take(each);
    };
    try {
      const { latest, earliest } = await get(`${jobPath(this.job)}/offsets`, signal);
      this.known = latest;
      from = latest === null || latest < earliest ? null : Math.max(earliest, latest - BACK);
    } catch (error) {
      if (!(error instanceof ApiError)) return;
    }
    follow(this.job, from, signal, record, pulse);
  }

  async saveRows() {
    const closed = this.history.list().filter((each) => each.state !== "TENTATIVE");
    const shown = this.interval ?? (closed.length ? { first: closed[0].interval.index, last: closed.at(-1).interval.index } : null);
    await this.saving(this.csv, async () => {
      if (!shown) throw new Error("No closed interval is shown.");
      save(await rowsAsCsv(this.job, shown, this.signal), `${this.job}-${shown.first}-${shown.last}.csv`);
    });
  }

  async savePicture() {
    await this.saving(this.png, async () => {
      const { plot, data } = this.chart;
      if (!plot) throw new Error("No chart is shown.");
      const known = data.records.filter(Boolean);
      const title = `${this.job}: ${data.value}, ${known[0].interval.start} to ${known.at(-1).interval.end}`;
      save(await chartAsPng(plot, title, this.chart.entries(data), style), `${this.job}-${data.value}-${iso(Date.parse(known[0].interval.start))}.png`);
    });
  }

  async saving(button, act) {
    button.disabled = true;
    say(this.saved, "");
    try {
      await act();
    } catch (error) {
      if (!this.signal.aborted) say(this.saved, error.message);
    } finally {
      button.disabled = false;
    }
  }

  choose(index) {
    this.chosen = this.chosen === index ? null : index;
    this.draw();
  }

  // -- results -------------------------------------------------------------------------------------------

  draw() {
    const records = this.history.list();
    const newest = records.at(-1);
    if (!newest) return void this.intervals.update(records);
    const record = this.history.byIndex.get(this.chosen) ?? records.findLast((each) => each.rows.length) ?? newest;
    const { values, all } = this.history.columns();
    if (!values.includes(this.value)) this.value = values.find((name) => !/^window_/.test(name)) ?? "";
    if ([...this.choice.options].map((each) => each.value).join("\n") !== values.join("\n"))
      fill(this.choice, values.map((name) => h("option", { value: name }, name)));
    this.choice.value = this.value;
    this.choice.hidden = values.length < 2;
    if (this.value) {
      this.chart.update({ ...this.history.series(this.value), value: this.value });
      fill(this.bars, bars(this.history.bars(record, this.value), this.value));
    }
    const focused = document.activeElement?.dataset?.index;
    fill(this.strip, strip(records.slice(-BACK), this.chosen ?? record.interval.index, (index) => this.choose(index)));
    if (focused) this.strip.querySelector(`[data-index="${CSS.escape(focused)}"]`)?.focus();
    const which = `${clock(record.interval.start)}${this.chosen === null ? ", newest with rows" : ""}`;
    fill(this.barsTitle, this.value ? `${this.value} at ${which}` : which);
    this.drawRows(record, all);
    this.intervals.update(records);
  }

  drawRows(record, columns) {
    const shown = record.rows.slice(0, 200);
    say(this.rowsTitle, `${number(record.rowCount)} at ${clock(record.interval.start)}${record.rowCount > shown.length ? `, the first ${shown.length} are shown` : ""}`);
    const numeric = new Set(this.history.columns().values);
    fill(this.rowsBox, h("table", {},
      h("thead", {}, h("tr", {}, columns.map((name) => h("th", { scope: "col", class: numeric.has(name) ? "end" : null }, name)))),
      h("tbody", {}, shown.map((row) => h("tr", {}, columns.map((name) => h("td", { class: numeric.has(name) ? "end" : row[name] === null ? "faint" : null }, cell(row[name]))))))));
  }

  // -- the job itself ------------------------------------------------------------------------------------

  async describe() {
    let about;
    try {
      const [described, why] = await Promise.all([get(jobPath(this.job), this.signal), get(`${jobPath(this.job)}/why`, this.signal)]);
      about = described;
      say(this.problem, "");
      this.drawWhy(why);
    } catch (error) {
      if (error instanceof ApiError) say(this.problem, `${error.message}. ${error.hint}`);
      throw error;
    }
    const { trees } = await get(`/v1/trees?tree=${about.id}`, this.signal);
    this.drawFacts(about);
    this.drawTree(about, trees);
    this.drawSpent(about.spent ?? []);
    this.drawButtons(about);
    if (this.text.textContent !== showLines(about.text)) this.text.textContent = showLines(about.text);
    const errors = [...about.errors, ...about.parse_error_samples.slice(0, 5)];
    fill(this.errors, errors.map((each) => h("li", {}, h("span", { class: "dot warn" }), each)));
  }

  drawFacts(about) {
    const dead = about.roster.agents.filter((each) => each.dead).map((each) => each.agent);
    const newest = about.results.at(-1);
    const { counts } = about;
    fill(this.state, stateTag(about.state));
    const lost = Object.entries(counts).filter(([name]) => !["contributed", "filtered"].includes(name)).reduce((sum, [, count]) => sum + count, 0);
    fill(this.facts,
      fact("Newest result", newest ? [stateTag(newest.state), ` ${percent(newest.completeness)}`] : "none yet", newest && newest.completeness < 1 ? "warn" : ""),
      fact("Missing", newest?.missing.length ? names(newest.missing, 6) : dead.length ? `${names(dead, 6)} (dead)` : "none", newest?.missing.length || dead.length ? "bad" : ""),
      fact(`Records used in term ${about.epoch}`, number(counts.contributed)),
      fact("Filtered", number(counts.filtered)),
      fact("Not used", number(lost), lost ? "warn" : ""),
      fact("Window", about.window.slide === about.window.size ? about.window.size : `${about.window.size} every ${about.window.slide}`),
      fact("Master", `${about.master}, term ${about.epoch}`),
      fact("Version", number(about.version)));
  }

  drawWhy(why) {
    const held = why.held_for_seconds !== null;
    const waiting = why.agents.map((each) => h("li", {}, h("strong", {}, each.agent), ` ${each.state}${each.behind ? `, ${number(each.behind)} intervals behind` : ""}${each.dead_for_seconds === null ? "" : ` for ${seconds(each.dead_for_seconds)}`}${each.error ? `: ${each.error}` : ""}`));
    const lacks = why.missing ?? why.agents.map((each) => each.agent); // an older master says nothing of it
    const title = held ? `Interval ${why.interval ? clock(why.interval.start) : ""} is open:` : lacks.length ? "On time, but not complete:" : "On time:";
    const detail = `${why.stage}; ${why.in} of ${why.expected} are in${why.tentative_rev ? `; shown as it is, revision ${why.tentative_rev}` : ""}`;
    const text = JSON.stringify([title, lacks, why.agents.map((each) => [each.agent, each.state]), why.stage, why.in]);
    this.why.className = `why ${lacks.length ? "held" : ""}`;
    if (text === this.whyText) {
      say(this.why.querySelector(".because"), why.because);
      return;
    }
    this.whyText = text;
    fill(this.why, h("strong", {}, title), " ", h("span", { class: "because" }, why.because), held ? h("div", { class: "faint" }, detail) : null, waiting.length ? h("ul", {}, waiting) : null);
  }

  drawTree(about, trees) {
    const members = about.roster.agents;
    const found = treeRows(members, trees);
    const latest = Math.max(...members.map((each) => each.late_seconds ?? 0), 0.001);
    const front = Math.max(...members.map((each) => each.frontier ?? -Infinity));
    const missing = new Set(about.collecting.missing);
    fill(this.tree, found.map(({ member, depth, size, root }) => {
      const behind = member.dead || member.frontier === null ? null : front - member.frontier;
      const state = member.dead ? ["bad", "missing (does not answer)"] : missing.has(member.agent) ? ["warn", "waited for"] : depth === null ? ["warn", "not in the tree"] : ["good", root ? "root" : "on time"];
      return h("tr", { class: member.dead ? "gone" : null },
        h("th", { scope: "row" }, h("span", { class: "branch", vars: { "--depth": depth ?? 0 } }), h("span", { class: `dot ${state[0]}` }), member.agent),
        h("td", { class: "end" }, size > 1 ? number(size - 1) : "–"),
        h("td", {}, member.dead || member.late_seconds === null || member.late_seconds === undefined ? h("span", { class: "faint" }, member.dead ? "–" : "nothing yet")
          : h("span", { class: "late", vars: { "--share": member.late_seconds / latest } }, h("span", {}, member.late_seconds < 0.0005 ? "first" : `+${seconds(member.late_seconds)}`))),
        h("td", { class: "end" }, behind === null ? "–" : behind === 0 ? "all" : `${number(behind)} behind`),
        h("td", {}, state[1]));
    }));
  }

  drawSpent(spent) {
    if (!spent.length) return void fill(this.spent, h("p", { class: "faint" }, "This master has not closed an interval yet."));
    const middle = (name) => spent.map((each) => each[name]).sort((a, b) => a - b)[Math.floor(spent.length / 2)];
    const parts = [["gathering", "gathering contributions"], ["making", "making rows"], ["agreeing", "agreeing to close"]].map(([name, text]) => [name, text, middle(name)]);
    const delays = this.history.list().map((each) => each.delay).filter((each) => each !== undefined).sort((a, b) => a - b);
    const delay = delays.length ? `; from the end of an interval to this page ${seconds(delays[Math.floor(delays.length / 2)])}, by this browser's clock` : "";
    const sum = parts.reduce((all, [, , each]) => all + each, 0) || 1;
    fill(this.spent,
      h("div", { class: "stack", "aria-hidden": "true" }, parts.map(([name, , each]) => h("span", { class: name, vars: { "--share": each / sum } }))),
      h("p", {}, parts.map(([name, text, each]) => h("span", { class: "legend" }, h("span", { class: `swatch ${name}` }), `${text} ${seconds(each)}`)), h("span", { class: "faint" }, `median of ${spent.length} intervals${delay}`)));
  }

  drawButtons(about) {
    const [namespace] = this.job.split("/");
    const may = this.world.mayChange(namespace);
    const state = JSON.stringify([may, about?.state]);
    if (state === this.buttonState) return;
    this.buttonState = state;
    const target = jobPath(this.job);
    const edit = h("a", { class: "button", href: `#/console/${this.job.split("/").map(encodeURIComponent).join("/")}` }, may ? "Edit" : "Open in console");
    const views = [[standbysLink, "Standbys"], [pathsLink, "Paths"]].map(([link, text]) => h("a", { class: "button", href: link(this.job) }, text));
    if (!may || !about) return void fill(this.buttons, views, edit);
    const paused = about.state === "paused";
    const verb = paused ? "resume" : "pause";
    const then = () => this.describe();
    const toggle = () => this.world.ask(`${paused ? "Resume" : "Pause"} ${this.job}?`,
      paused ? "Agents continue where they stopped. No record is lost." : "Agents stop reading for the job and keep their position. No interval closes until you resume it.",
      paused ? "Resume" : "Pause", async () => (await post(`${target}/${verb}`), then()));
    const erase = () => this.world.ask(`Delete ${this.job}?`, "The job stops on all agents, and its results are deleted. You cannot undo this.",
      "Delete", async () => (await remove(target), (location.hash = "#/")), "danger");
    fill(this.buttons, views, edit,
      h("button", { type: "button", on: { click: toggle } }, paused ? "Resume" : "Pause"),
      h("button", { type: "button", class: "danger", on: { click: erase } }, "Delete"));
  }
}
