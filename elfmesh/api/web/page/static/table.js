// A table of many rows of which a page is in the document: sorted, filtered, and drawn anew only where it changed.

import { fill, h, say } from "./text.js";

/**
 * @param options.label what the table is, for a screen reader
 * @param options.columns {key, label, title, cell(row) -> node or text, by(row) -> sort value, end: right-aligned}
 * @param options.id a row's own key
 * @param options.words what a filter looks through
 * @param options.size rows of a page
 * @param options.empty what is said of no rows
 */
export class Table {
  constructor({ label, columns, id, words, size = 25, empty, sort = null, filter = true, mark = () => "" }) {
    Object.assign(this, { columns, id, words, size, empty, mark });
    this.rows = [];
    this.page = 0;
    this.sort = sort ?? { key: columns[0].key, down: false };
    this.drawn = new Map();
    this.search = h("input", {
      type: "search", placeholder: "Filter", "aria-label": `Filter ${label}`, spellcheck: "false",
      on: { input: () => ((this.page = 0), this.draw()) },
    });
    this.count = h("span", { class: "count", role: "status" });
    this.heads = columns.map((column) => this.head(column));
    this.body = h("tbody");
    this.before = h("button", { type: "button", on: { click: () => this.turn(-1) } }, "Previous");
    this.after = h("button", { type: "button", on: { click: () => this.turn(1) } }, "Next");
    this.pager = h("div", { class: "pager" }, this.before, this.after);
    this.element = h("div", { class: "table" },
      h("div", { class: "table-head" }, filter ? this.search : null, this.count, this.pager),
      h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": label },
        h("table", {}, h("thead", {}, h("tr", {}, this.heads)), this.body)));
  }

  head(column) {
    const cell = h("th", { scope: "col", class: column.end ? "end" : null });
    if (!column.by) return fill(cell, column.label);
    const click = () => {
      this.sort = { key: column.key, down: this.sort.key === column.key && !this.sort.down };
      this.draw();
    };
    return fill(cell, h("button", { type: "button", class: "sort", title: column.title, on: { click } }, column.label));
  }

  turn(step) {
    this.page += step;
    this.draw();
  }

  update(rows) {
    this.rows = rows;
    this.draw();
  }

  draw() {
    const wanted = this.search.value.trim().toLowerCase();
    const found = wanted ? this.rows.filter((row) => this.words(row).toLowerCase().includes(wanted)) : [...this.rows];
    const column = this.columns.find((each) => each.key === this.sort.key);
    if (column?.by) {
      const way = this.sort.down ? -1 : 1;
      found.sort((a, b) => way * compare(column.by(a), column.by(b)) || compare(this.id(a), this.id(b)));
    }
    const pages = Math.max(1, Math.ceil(found.length / this.size));
    this.page = Math.min(Math.max(this.page, 0), pages - 1);
    const shown = found.slice(this.page * this.size, (this.page + 1) * this.size);
    this.columns.forEach((each, at) => {
      const order = each.key === this.sort.key ? (this.sort.down ? "descending" : "ascending") : null;
      if (order) this.heads[at].setAttribute("aria-sort", order);
      else this.heads[at].removeAttribute("aria-sort");
    });
    const first = this.page * this.size + 1;
    say(this.count, found.length ? (pages > 1 ? `${first}–${first + shown.length - 1} of ${found.length}` : `${found.length} ${found.length === 1 ? "row" : "rows"}`) : "");
    this.pager.hidden = pages < 2;
    this.before.disabled = this.page === 0;
    this.after.disabled = this.page === pages - 1;
    this.place(shown, wanted);
  }

  place(shown, wanted) {
    const kept = new Map();
    const rows = shown.map((row) => {
      const key = this.id(row);
      const state = JSON.stringify(row);
      const old = this.drawn.get(key);
      const drawn = old && old.state === state ? old : { state, element: this.row(row, old?.element) };
      kept.set(key, drawn);
      return drawn.element;
    });
    this.drawn = kept;
    if (!rows.length) {
      const text = wanted ? "Nothing matches the filter." : this.empty;
      rows.push(h("tr", {}, h("td", { colspan: this.columns.length, class: "empty" }, text)));
    }
    const now = [...this.body.children];
    if (now.length !== rows.length || now.some((each, at) => each !== rows[at])) this.body.replaceChildren(...rows);
  }

  row(row, element) {
    const cells = this.columns.map((column, at) =>
      h(at === 0 ? "th" : "td", { scope: at === 0 ? "row" : null, class: column.end ? "end" : null, "data-label": column.label },
        column.cell(row)));
    const focused = element?.contains(document.activeElement);
    const made = element ?? h("tr");
    made.className = this.mark(row);
    fill(made, cells);
    if (focused) made.querySelector("a, button")?.focus();
    return made;
  }
}

function compare(a, b) {
  if (a === b) return 0;
  if (a === null || a === undefined) return 1;
  if (b === null || b === undefined) return -1;
  return typeof a === "string" ? a.localeCompare(b, "en", { numeric: true }) : a < b ? -1 : 1;
}
