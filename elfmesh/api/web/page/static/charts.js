// A chart over time (uPlot), bars of the largest rows, and a strip of how complete each interval is.

import uPlot from "./vendor/uplot.js";
import { cell, clock, fill, h, names, number, percent, short, show } from "./text.js";

const HEIGHT = 230;
const COLOURS = 8;

/** What the strip fills at most of an interval that is not complete, so that one agent of many can be seen. */
const PARTIAL_SHARE_MAX = 0.8;

/** Dragging over less than this many pixels is a click. */
const DRAG_MIN = 5;

/** Distance of the lines that hatch an interval that is not complete, in pixels. */
const HATCH = 7;

export const style = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

const stateOf = (record) => record.state.toLowerCase().replace("_", ", ");

/** Whether the values of an interval are lower bounds, because records of it are missing. */
const isPartial = (record) => Boolean(record) && record.state !== "SKIPPED" && record.completeness < 1;

/** Seconds from the start of an interval to that of the next one. */
function slideOf({ times, records }) {
  const { interval: first } = records[0];
  const { interval: last } = records.at(-1);
  return last.index > first.index ? (times.at(-1) - times[0]) / (last.index - first.index) : (Date.parse(first.end) - Date.parse(first.start)) / 1000;
}

/**
 * Lines over time; its colours follow the scheme, its width the page.
 * Dragging calls `zoom` with the seconds of the first chosen interval and of the first one after them.
 */
export class TimeChart {
  constructor(signal, zoom) {
    this.zoom = zoom;
    this.tip = h("div", { class: "tip", hidden: true, "aria-hidden": "true" });
    this.box = h("div", { class: "chart", role: "img", "aria-label": "No results yet" });
    this.legend = h("ul", { class: "lines" });
    this.element = h("div", { class: "plot" }, this.box, this.tip, this.legend);
    this.plot = null;
    this.shape = "";
    const resize = new ResizeObserver(() => this.plot?.setSize({ width: this.width(), height: HEIGHT }));
    resize.observe(this.element);
    const scheme = matchMedia("(prefers-color-scheme: dark)");
    const redraw = () => ((this.shape = ""), this.data && this.update(this.data));
    scheme.addEventListener("change", redraw, { signal });
    signal.addEventListener("abort", () => (resize.disconnect(), this.plot?.destroy()));
  }

  width() {
    return Math.max(200, this.element.clientWidth);
  }

  clear() {
    this.plot?.destroy();
    [this.plot, this.data, this.shape, this.tip.hidden] = [null, null, "", true];
    fill(this.legend);
    this.box.setAttribute("aria-label", "No results yet");
  }

  /** The lines of the legend, and what the hatching stands for. */
  entries({ lines, hidden, records }) {
    const partial = records.filter(isPartial);
    const least = Math.min(...partial.map((record) => record.completeness));
    return [
      ...lines.map((line, at) => ({ label: line.label, colour: `--line-${at % COLOURS}` })),
      ...(hidden > 0 ? [{ label: `and ${hidden} smaller`, colour: null }] : []),
      ...(partial.length ? [{ label: `not complete: ${partial.length} of ${records.filter(Boolean).length} intervals, the least ${percent(least)}`, colour: "--warn", hatched: true }] : []),
    ];
  }

  update(data) {
    this.data = data;
    const { times, lines, value } = data;
    const shape = JSON.stringify([lines.map((line) => line.label), value, times.length > 1]);
    if (shape !== this.shape) {
      this.shape = shape;
      this.plot?.destroy();
      this.plot = new uPlot(this.options(lines, times), [times, ...lines.map((line) => line.points)], this.box);
    } else this.plot.setData([times, ...lines.map((line) => line.points)]);
    fill(this.legend, this.entries(data).map(({ label, colour, hatched }) =>
      h("li", { class: colour ? null : "faint" }, colour ? h("span", { class: `swatch ${hatched ? "hatched" : ""}`, vars: { "--colour": `var(${colour})` } }) : null, label)));
    const newest = lines.map((line) => `${line.label} ${line.points.at(-1) ?? "none"}`).join(", ");
    this.box.setAttribute("aria-label", show(`${value} by interval over ${times.length} intervals; newest: ${newest}`.slice(0, 500)));
  }

  options(lines) {
    const axis = {
      stroke: style("--faint"), font: "11px system-ui, sans-serif",
      grid: { stroke: style("--grid"), width: 1 }, ticks: { stroke: style("--grid"), width: 1, size: 4 },
    };
    return {
      width: this.width(), height: HEIGHT, legend: { show: false }, cursor: { y: false, drag: { x: true, y: false, setScale: false, dist: DRAG_MIN }, points: { size: 6 } },
      padding: [10, 28, 0, 0], tzDate: (time) => uPlot.tzDate(new Date(time * 1000), "UTC"),
      scales: { x: { time: true }, y: { range: (_, low, high) => [Math.min(0, low ?? 0), high > 0 ? high * 1.05 : 1] } },
      axes: [
        { ...axis, size: 30, space: 70, values: (_, at) => at.map((time) => new Date(time * 1000).toISOString().slice(11, 19)) },
        { ...axis, size: 52, values: (_, at) => at.map(short) },
      ],
      series: [{}, ...lines.map((line, at) => ({
        label: line.label, stroke: style(`--line-${at % COLOURS}`), width: 1.6, spanGaps: false,
        points: { show: line.points.length < 40, size: 4, fill: style(`--line-${at % COLOURS}`) },
      }))],
      hooks: { drawClear: [(plot) => this.shade(plot)], setSelect: [(plot) => this.selected(plot)], setCursor: [(plot) => this.point(plot)] },
    };
  }

  selected(plot) {
    const { left, width } = plot.select;
    if (!(width >= DRAG_MIN)) return;
    plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
    const { times, records } = this.data;
    const [low, high] = [plot.posToVal(left, "x"), plot.posToVal(left + width, "x")];
    const chosen = times.map((_, at) => at).filter((at) => records[at] && times[at] >= low && times[at] <= high);
    if (!chosen.length) return;
    this.zoom(times[chosen[0]], times[chosen.at(-1)] + slideOf(this.data));
  }

  /** What the interval under the pointer is; the table of intervals has the same for a screen reader. */
  point(plot) {
    const { idx, left } = plot.cursor;
    const record = left >= 0 && idx !== null && idx !== undefined ? this.data?.records[idx] : null;
    this.tip.hidden = !record;
    if (!record) return;
    const { missing } = record.agents;
    const values = this.data.lines.map((line, at) => h("div", {}, h("span", { class: "swatch", vars: { "--colour": `var(--line-${at % COLOURS})` } }), `${line.label}: ${number(line.points[idx])}`));
    fill(this.tip, h("strong", {}, clock(record.interval.start)), h("div", { class: isPartial(record) ? "warn-text" : "faint" }, `${stateOf(record)}, ${percent(record.completeness)}${missing.length ? `, missing ${names(missing, 4)}` : ""}`), values);
    this.tip.classList.toggle("left", left > plot.over.clientWidth / 2);
  }

  /** Hatch the intervals that are not complete: their values are lower bounds, not values. */
  shade(plot) {
    const { times, records } = this.data;
    const { ctx, bbox } = plot;
    if (!times.length) return;
    const half = slideOf(this.data) / 2;
    const at = (time) => plot.valToPos(time, "x", true);
    const gap = HATCH * devicePixelRatio;
    ctx.save();
    ctx.beginPath();
    ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
    ctx.clip();
    ctx.beginPath();
    records.forEach((record, index) => {
      const [low, high] = [at(times[index] - half), at(times[index] + half)];
      if (isPartial(record)) ctx.rect(low, bbox.top, Math.max(high - low, 2), bbox.height);
    });
    ctx.clip();
    ctx.fillStyle = style("--warn-soft");
    ctx.fillRect(bbox.left, bbox.top, bbox.width, bbox.height);
    ctx.beginPath();
    for (let x = bbox.left - bbox.height; x < bbox.left + bbox.width; x += gap) {
      ctx.moveTo(x, bbox.top + bbox.height);
      ctx.lineTo(x + bbox.height, bbox.top);
    }
    ctx.strokeStyle = style("--warn");
    ctx.lineWidth = devicePixelRatio;
    ctx.globalAlpha = 0.5;
    ctx.stroke();
    ctx.restore();
  }
}

/** The largest rows as bars, with their exact values. */
export function bars(found, value) {
  if (!found.length) return h("p", { class: "faint" }, "No rows in this interval.");
  const most = Math.max(...found.map((each) => Math.abs(Number(each.value))), Number.MIN_VALUE);
  return h("table", { class: "bars" },
    h("caption", { class: "hidden" }, `Rows by ${value}`),
    h("tbody", {}, found.map((each) => h("tr", {},
      h("th", { scope: "row", title: each.label }, each.label),
      h("td", { class: "extent" }, h("span", { vars: { "--share": Math.abs(Number(each.value)) / most } })),
      h("td", { class: "end" }, cell(each.value))))));
}

/** A cell for each interval: final, partial, tentative or skipped; a click chooses it. */
export function strip(records, chosen, choose) {
  return records.map((record) => {
    const { index, start } = record.interval;
    const { missing } = record.agents;
    const share = record.completeness < 1 ? Math.min(record.completeness, PARTIAL_SHARE_MAX) : 1;
    const words = `${clock(start)}: ${record.state.toLowerCase().replace("_", " ")}, ${percent(record.completeness)}${missing.length ? `, missing ${names(missing, 6)}` : ""}`;
    return h("button", {
      type: "button", class: `slot ${record.state.toLowerCase()}`, title: words, "aria-label": words, tabindex: "-1",
      "aria-pressed": index === chosen ? "true" : "false", "data-index": index, vars: { "--share": share }, on: { click: () => choose(index) },
    });
  });
}
