// A chart over time (uPlot), bars of the largest rows, and a strip of how complete each interval is.

import uPlot from "./vendor/uplot.js";
import { cell, clock, fill, h, names, percent, short, show } from "./text.js";

const HEIGHT = 230;
const COLOURS = 8;

/** What the strip fills at most of an interval that is not complete, so that one agent of many can be seen. */
const PARTIAL_SHARE_MAX = 0.8;

const style = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/** Lines over time; its colours follow the scheme, its width the page. */
export class TimeChart {
  constructor(signal) {
    this.box = h("div", { class: "chart", role: "img", "aria-label": "No results yet" });
    this.legend = h("ul", { class: "lines" });
    this.element = h("div", {}, this.box, this.legend);
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

  update(data) {
    this.data = data;
    const { times, lines, hidden, value, partial } = data;
    const shape = JSON.stringify([lines.map((line) => line.label), value, times.length > 1, partial.includes(true)]);
    if (shape !== this.shape) {
      this.shape = shape;
      this.plot?.destroy();
      this.plot = new uPlot(this.options(lines, times), [times, ...lines.map((line) => line.points)], this.box);
      fill(this.legend, lines.map((line, at) => h("li", {}, h("span", { class: "swatch", vars: { "--colour": `var(--line-${at % COLOURS})` } }), line.label)),
        hidden > 0 ? h("li", { class: "faint" }, `and ${hidden} smaller`) : null,
        partial.includes(true) ? h("li", {}, h("span", { class: "swatch", vars: { "--colour": "var(--warn-soft)" } }), "not complete") : null);
    } else this.plot.setData([times, ...lines.map((line) => line.points)]);
    const newest = lines.map((line) => `${line.label} ${line.points.at(-1) ?? "none"}`).join(", ");
    this.box.setAttribute("aria-label", show(`${value} by interval over ${times.length} intervals; newest: ${newest}`.slice(0, 500)));
  }

  options(lines) {
    const axis = {
      stroke: style("--faint"), font: "11px system-ui, sans-serif",
      grid: { stroke: style("--grid"), width: 1 }, ticks: { stroke: style("--grid"), width: 1, size: 4 },
    };
    return {
      width: this.width(), height: HEIGHT, legend: { show: false }, cursor: { y: false, drag: { x: false, y: false }, points: { size: 6 } },
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
      hooks: { drawClear: [(plot) => this.shade(plot)] },
    };
  }

  /** Shade the intervals that are not complete: their values are lower bounds, not values. */
  shade(plot) {
    const { times, partial } = this.data;
    const { ctx, bbox } = plot;
    const at = (index) => plot.valToPos(times[index], "x", true);
    const step = times.length > 1 ? (at(times.length - 1) - at(0)) / (times.length - 1) : bbox.width;
    ctx.save();
    ctx.beginPath();
    ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
    ctx.clip();
    ctx.fillStyle = style("--warn-soft");
    partial.forEach((is, index) => is && ctx.fillRect(at(index) - step / 2, bbox.top, Math.max(step, 2), bbox.height));
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
