// The results of one job that the page keeps: the newest revision of each interval, a bounded number of them.

import { Exact, isNumber } from "./text.js";

export const INTERVALS_MAX = 240;
export const ROWS_MAX = 500;
const OLD_ROWS_MAX = 50;
const LINES = 8;

/** What stands for a key in a chart's legend. */
const keyOf = (row, keys) => keys.map((key) => (row[key] === null ? "null" : row[key] instanceof Exact ? row[key].text : typeof row[key] === "object" ? JSON.stringify(row[key]) : String(row[key]))).join(" · ");

export class History {
  constructor() {
    this.byIndex = new Map();
  }

  /** Take a record in; an older revision of what is final is nothing. */
  add(record) {
    const { index } = record.interval;
    const before = this.byIndex.get(index);
    if (before && before.state !== "TENTATIVE" && record.state === "TENTATIVE") return;
    record.rowCount ??= record.rows.length;
    record.rows = record.rows.slice(0, ROWS_MAX);
    record.seen = Date.now();
    this.byIndex.set(index, record);
    if (this.byIndex.size > INTERVALS_MAX) this.byIndex.delete(Math.min(...this.byIndex.keys()));
    const old = this.list()[Math.max(0, this.byIndex.size - 20)];
    if (old && old.rows.length > OLD_ROWS_MAX && old.interval.index < index) old.rows = old.rows.slice(0, OLD_ROWS_MAX);
  }

  /** Oldest first. */
  list() {
    return [...this.byIndex.values()].sort((a, b) => a.interval.index - b.interval.index);
  }

  get newest() {
    return this.byIndex.size ? this.byIndex.get(Math.max(...this.byIndex.keys())) : null;
  }

  /** The columns of the rows: those with numbers in all rows, and the others. */
  columns() {
    const rows = this.list().slice(-20).flatMap((record) => record.rows.slice(0, OLD_ROWS_MAX));
    const all = [...new Set(rows.flatMap((row) => Object.keys(row)))];
    const values = all.filter((name) => {
      const known = rows.map((row) => row[name]).filter((value) => value !== null && value !== undefined);
      return known.length > 0 && known.every(isNumber);
    });
    return { all, values, keys: all.filter((name) => !values.includes(name)) };
  }

  /**
   * One column over time: a line for each of the keys with the largest sums, or for each group-less value.
   * @returns {times: seconds, records: of each time, null where intervals are not known, lines: [{label, points}],
   *   hidden: how many keys have no line}
   */
  series(value) {
    const { keys } = this.columns();
    const known = this.list().filter((record) => record.interval.start);
    const records = [];
    const times = [];
    for (const record of known) {
      const time = Date.parse(record.interval.start) / 1000;
      const last = records.at(-1);
      if (last && record.interval.index > last.interval.index + 1) {
        records.push(null); // no line leads over intervals that have no record here
        times.push((times.at(-1) + time) / 2);
      }
      records.push(record);
      times.push(time);
    }
    const sums = new Map();
    for (const record of known)
      for (const row of record.rows) {
        const key = keyOf(row, keys);
        sums.set(key, (sums.get(key) ?? 0) + Math.abs(Number(row[value] ?? 0)));
      }
    const top = [...sums].sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1)).slice(0, LINES).map(([key]) => key);
    const lines = top.map((label) => ({ label: label || value, points: [] }));
    const place = new Map(top.map((key, at) => [key, at]));
    records.forEach((record, at) => {
      for (const line of lines) line.points[at] = null;
      if (!record || record.state === "SKIPPED") return;
      for (const row of record.rows) {
        const line = place.get(keyOf(row, keys));
        if (line !== undefined && row[value] !== null && row[value] !== undefined) lines[line].points[at] = Number(row[value]);
      }
    });
    return { times, records, lines, hidden: sums.size - top.length };
  }

  /** The rows of one record by one column, largest first. */
  bars(record, value) {
    const { keys } = this.columns();
    return record.rows
      .filter((row) => row[value] !== null && row[value] !== undefined)
      .map((row) => ({ label: keyOf(row, keys) || value, value: row[value] }))
      .sort((a, b) => Number(b.value) - Number(a.value))
      .slice(0, 15);
  }
}
