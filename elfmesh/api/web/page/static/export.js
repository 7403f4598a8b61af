// What a job's page shows, as files: the rows of its intervals as CSV, and the chart as PNG.

import { parseTexts } from "./api.js";
import { readIntervals } from "./range.js";
import { Exact, h, show } from "./text.js";

const HEAD = ["interval_index", "interval_start", "interval_end", "state", "rev", "completeness"];

/** How large a file of rows may become: it is in the memory of the browser until it is saved. */
const BYTES_MAX = 64 << 20;

const LINE = 18;
const MARGIN = 12;

const quoted = (text) => (/[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);

/** A value in a line of CSV: null is empty, numbers have the text of the agent, lists and objects are JSON. */
export function field(value) {
  if (value === null || value === undefined) return "";
  return quoted(typeof value === "object" ? json(value) : String(value));
}

function json(value) {
  if (value instanceof Exact) return value.text;
  if (Array.isArray(value)) return `[${value.map(json).join(",")}]`;
  if (value === null || typeof value !== "object") return JSON.stringify(value);
  return `{${Object.entries(value).map(([name, each]) => `${JSON.stringify(name)}:${json(each)}`).join(",")}}`;
}

/**
 * All rows of the closed intervals [first, last] as CSV, in the form of `elf results -o csv`: with a new header
 * where the columns change. The rows are read again, because the page keeps only some of them.
 * Throws ApiError, and Error if they do not fit.
 */
export async function rowsAsCsv(job, intervals, signal) {
  const parts = [];
  let size = 0;
  let columns = null;
  const add = (fields) => {
    const line = `${fields.map(field).join(",")}\n`;
    size += line.length;
    if (size > BYTES_MAX) throw new Error(`The rows take more than ${BYTES_MAX >> 20} MB. Choose a shorter range, or use \`elf results -o csv\`.`);
    parts.push(line);
  };
  await readIntervals(job, intervals, signal, () => {}, ({ interval, state, rev, completeness, rows }) => {
    for (const row of rows) {
      const names = Object.keys(row);
      if (JSON.stringify(names) !== JSON.stringify(columns)) add([...HEAD, ...(columns = names)]);
      add([interval.index, interval.start, interval.end, state, rev, completeness, ...names.map((name) => row[name])]);
    }
  }, parseTexts);
  return new Blob(parts, { type: "text/csv;charset=utf-8" });
}

/** The chart with a title above and its legend below, in the colours of the page. */
export function chartAsPng(plot, title, legend, style) {
  const source = plot.ctx.canvas;
  const scale = source.width / plot.width;
  const width = plot.width;
  const canvas = h("canvas", { width: source.width, height: source.height + Math.ceil((2 * MARGIN + LINE * (2 + legend.length)) * scale) });
  const pen = canvas.getContext("2d");
  pen.fillStyle = style("--panel");
  pen.fillRect(0, 0, canvas.width, canvas.height);
  pen.drawImage(source, 0, Math.ceil((MARGIN + LINE) * scale));
  pen.scale(scale, scale);
  pen.textBaseline = "top";
  const text = (words, x, y, font) => {
    pen.font = `${font} 13px system-ui, sans-serif`;
    pen.fillStyle = style("--ink");
    pen.fillText(show(words), x, y, width - x - MARGIN);
  };
  text(title, MARGIN, MARGIN, "bold");
  const top = MARGIN + LINE + source.height / scale;
  legend.forEach(({ label, colour }, at) => {
    pen.fillStyle = style(colour);
    pen.fillRect(MARGIN, top + at * LINE + 1, 11, 11);
    text(label, MARGIN + 18, top + at * LINE, "normal");
  });
  return new Promise((done, failed) => canvas.toBlob((blob) => (blob ? done(blob) : failed(new Error("The browser cannot make the picture."))), "image/png"));
}

/** Hand a file to the user. Its name has letters, digits, dots and dashes only. */
export function save(blob, name) {
  const url = URL.createObjectURL(blob);
  h("a", { href: url, download: name.replace(/[^A-Za-z0-9.-]+/g, "-") }).click();
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}
