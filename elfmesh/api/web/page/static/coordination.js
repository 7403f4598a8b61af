// Which outputs of the fleet's jobs can differ, why, and what repairs them: the labels of `elf blazes --fleet`.

import { every, get } from "./api.js";
import { jobLink } from "./overview.js";
import { Table } from "./table.js";
import { fill, h, say, seconds } from "./text.js";

const RANK = { Async: 0, Run: 1, Inst: 2, Diverge: 3 };
const KIND = { Async: "good", Run: "warn", Inst: "warn", Diverge: "bad" };
const EVERY_MS = 30_000;

/** The label of an output, with its second case. */
export const labelTag = (output) =>
  h("span", { class: `state ${KIND[output.otherwise ?? output.label] ?? "open"}`, title: conditions(output) },
    output.otherwise ? `${output.label} | ${output.otherwise}` : output.label);

const conditions = (output) => (output.conditions.length ? `if ${output.conditions.join(", ")}` : "");
const worst = (output) => Math.max(RANK[output.label], RANK[output.otherwise ?? output.label]);

/** Why the label is not Async, in words. */
export function reason(output) {
  if (output.inherits.length) return `inherits the label of ${output.inherits.join(", ")}`;
  const cause = output.derivation.find((each) => /Taint|NDRead/.test(each.conclusion) && !/protected/.test(each.conclusion));
  if (cause) return cause.why || `${cause.path} is ${cause.annotation}`;
  return output.otherwise ? "it may be published without stragglers" : "";
}

function repair(output) {
  if (output.remedies.length) return output.remedies.join("; ");
  const [first] = output.repairs;
  return first ? `${first.strategy}: ${first.label}, expected ${seconds(first.expected_s)}` : "";
}

const COLUMNS = [
  { key: "name", label: "Output", by: (o) => o.name, cell: (o) => h("a", { href: jobLink(o.name.replace(".", "/")) }, o.name) },
  { key: "label", label: "Label", by: (o) => worst(o), cell: labelTag },
  { key: "why", label: "Because", by: reason, cell: (o) => reason(o) || "–" },
  { key: "if", label: "Conditions", by: conditions, cell: (o) => o.conditions.join(", ") || "–" },
  { key: "repair", label: "Repair", by: repair, cell: (o) => repair(o) || "–" },
  { key: "paths", label: "Paths", cell: paths },
];

function paths(output) {
  return h("details", {}, h("summary", {}, `${output.derivation.length} steps`),
    h("ul", { class: "plain" }, output.derivation.map((each) =>
      h("li", {}, h("code", {}, `${each.path} ${each.annotation}`), ` rule ${each.rule}: ${each.input} gives ${each.conclusion}`, each.why ? `; ${each.why}` : ""))));
}

export function coordinationView(main, world, signal) {
  const note = h("p", { class: "faint", role: "status" });
  const notes = h("ul", { class: "plain" });
  const table = new Table({
    label: "outputs", columns: COLUMNS, id: (o) => o.name, size: 50, sort: { key: "label", down: true },
    words: (o) => `${o.name} ${o.label} ${reason(o)}`, empty: "There is no job yet.",
  });
  fill(main, h("div", { class: "title" }, h("h1", {}, "Coordination"), note), table.element, notes);
  every(EVERY_MS, signal, async () => {
    const found = await get("/v1/coordination", signal);
    const outputs = found.outputs.filter((each) => !each.provisional);
    const differ = outputs.filter((each) => worst(each) > 0).length;
    say(note, `${differ} of ${outputs.length} outputs can differ between runs, readers or replicas`);
    table.update(outputs);
    fill(notes, found.notes.map((each) => h("li", {}, each)));
  });
}
