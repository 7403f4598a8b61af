// The agents on the ring of ids, with the tree of all agents or of one job.

import { every, get } from "./api.js";
import { allAgents } from "./agents.js";
import { ring } from "./ring.js";
import { fill, h } from "./text.js";

const TREES = 200;

export function overlayView(main, world, signal, learnAgents) {
  const picture = h("figure", { class: "picture" });
  const choice = h("select", { id: "tree", on: { change: () => draw() } }, h("option", { value: "all" }, "the tree of all agents"));
  fill(main, h("div", { class: "title" }, h("h1", {}, "Overlay"), h("label", { class: "hidden", for: "tree" }, "Tree to draw"), choice), picture);

  async function draw() {
    const tree = choice.value;
    const { trees } = await get(`/v1/trees?tree=${encodeURIComponent(tree)}`, signal);
    if (choice.value === tree) fill(picture, ring(allAgents(world), trees));
  }

  every(6000, signal, async () => {
    await learnAgents(signal);
    options(choice, world.jobs);
    await draw();
  });
}

function options(choice, jobs) {
  const wanted = [["all", "the tree of all agents"], ...jobs.slice(0, TREES).map((job) => [job.id, job.job])];
  if (wanted.length === choice.options.length && wanted.every(([id], at) => choice.options[at].value === id)) return;
  const chosen = choice.value;
  fill(choice, wanted.map(([id, text]) => h("option", { value: id }, text)));
  if (wanted.some(([id]) => id === chosen)) choice.value = chosen;
}
