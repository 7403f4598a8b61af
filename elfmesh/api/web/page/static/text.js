// Elements and text. Everything that is shown goes in as a text node: nothing here can make markup of a value.

const UNSAFE =
  /[\u0000-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb\ud800-\udfff\u{e0000}-\u{e007f}]/gu;

/** Text from logs as it may be shown: control, invisible and direction-changing characters are written out. */
export function show(value) {
  return String(value).replace(UNSAFE, (char) => {
    const code = char.codePointAt(0);
    if (code < 256) return `\\x${code.toString(16).padStart(2, "0")}`;
    return code < 65536 ? `\\u${code.toString(16).padStart(4, "0")}` : `\\u{${code.toString(16)}}`;
  });
}

/** The same over several lines: newlines and tabs stay. */
export function showLines(value) {
  return String(value).split("\n").map((line) => line.split("\t").map(show).join("\t")).join("\n");
}

const SVG = new Set(["svg", "g", "line", "path", "circle", "text", "title", "rect"]);

/** An element; strings among its children become text, null and false nothing. */
export function h(tag, attributes = {}, ...children) {
  const element = SVG.has(tag)
    ? document.createElementNS("http://www.w3.org/2000/svg", tag)
    : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "on") for (const [event, call] of Object.entries(value)) element.addEventListener(event, call);
    else if (name === "vars") for (const [key, size] of Object.entries(value)) element.style.setProperty(key, size);
    else if (name === "value") element.value = value;
    else element.setAttribute(name, value === true ? "" : show(value));
  }
  element.append(...nodes(children));
  return element;
}

function nodes(children) {
  return children
    .flat(3)
    .filter((child) => child !== null && child !== undefined && child !== false)
    .map((child) => (child instanceof Node ? child : document.createTextNode(show(child))));
}

/** Replace what an element holds. */
export function fill(element, ...children) {
  element.replaceChildren(...nodes(children));
  return element;
}

/** Change a text only if it is another one, so that a screen reader is not told twice. */
export function say(element, text) {
  const shown = show(text);
  if (element.textContent !== shown) element.textContent = shown;
}

// -- numbers and times ---------------------------------------------------------------------------------

const WHOLE = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const PARTS = new Intl.NumberFormat("en", { maximumFractionDigits: 3 });

/** A value of a result row, with all its digits: exact numbers arrive as `Exact`. */
export function cell(value) {
  if (value === null || value === undefined) return "null";
  if (typeof value === "number") return Number.isInteger(value) ? WHOLE.format(value) : String(value);
  if (value instanceof Exact) return value.text;
  return typeof value === "object" ? plain(value) : String(value);
}

/** A list or an object as JSON; numbers that a double cannot hold are strings in it. */
export const plain = (value) => JSON.stringify(value, (_, each) => (each instanceof Exact ? each.text : each));

/** A number that a double cannot hold. */
export class Exact {
  constructor(text) {
    this.text = text;
  }
  valueOf() {
    return Number(this.text);
  }
}

export const isNumber = (value) => typeof value === "number" || value instanceof Exact;
export const number = (value) => (value === null || value === undefined ? "–" : PARTS.format(value));
export const short = (value) =>
  Math.abs(value) >= 1e4
    ? new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 }).format(value)
    : PARTS.format(value);

/** Seconds as people say them. */
export function seconds(value) {
  if (value === null || value === undefined) return "–";
  const size = Math.abs(value);
  if (size < 0.0005) return "0 ms";
  if (size < 1) return `${(value * 1000).toFixed(size < 0.01 ? 1 : 0)} ms`;
  if (size < 120) return `${value.toFixed(size < 10 ? 1 : 0)} s`;
  return size < 7200 ? `${Math.round(value / 60)} min` : `${Math.round(value / 3600)} h`;
}

export function bytes(value) {
  if (value === null || value === undefined) return "–";
  const units = ["B", "kB", "MB", "GB", "TB"];
  let at = 0;
  for (; value >= 1000 && at < units.length - 1; at++) value /= 1000;
  return `${value >= 100 || at === 0 ? Math.round(value) : value.toFixed(1)} ${units[at]}`;
}

export const percent = (share) => {
  if (share === null || share === undefined) return "–";
  return share === 1 ? "100\u00a0%" : `${(Math.floor(share * 1000) / 10).toFixed(1)}\u00a0%`;
};

/** "10:05:30" of an ISO time in UTC; with the day if it is not today's. */
export function clock(iso) {
  if (!iso) return "–";
  const [day, time] = String(iso).split("T");
  if (!time) return String(iso);
  const hours = time.replace("Z", "");
  return day === new Date().toISOString().slice(0, 10) ? hours : `${day} ${hours}`;
}

/** Some names, and how many more. */
export function names(list, most = 4) {
  const shown = list.slice(0, most).join(", ");
  return list.length > most ? `${shown} and ${list.length - most} more` : shown;
}
