// How a job with PATHS is reduced: its gateways and sites, each path between them, and which site votes first: `elf plan`.

import { ApiError, every, get, jobPath } from "./api.js";
import { fact, jobLink, stateTag } from "./overview.js";
import { fill, h, number, percent, say, seconds } from "./text.js";

const EVERY_MS = 3000;
const LATE = 2; // closed intervals of which a path has brought nothing, at which it is late

export const pathsLink = (job) => `#/paths/${job.split("/").map(encodeURIComponent).join("/")}`;

const known = (value) => value !== null && value !== undefined;

/** The state of a path: how urgent, and in words. */
export function pathState(path) {
  if (!path.live) return ["open", "idle"];
  if ((path.behind ?? 0) >= LATE) return ["bad", `late: ${number(path.behind)} intervals behind`];
  return ["good", "live"];
}

const delay = (path) => (path.gateway === path.site ? "the same agent" : known(path.latency_seconds) ? `${seconds(path.latency_seconds)} one way` : "not measured");

function pathCell(path, most, copies) {
  if (!path) return h("td", {}, "–");
  const [kind, text] = pathState(path);
  const more = [
    known(path.lag_seconds) ? `arrives after ${seconds(path.lag_seconds)}` : null,
    known(path.first) && copies > 1 ? `first in ${percent(path.first)}` : null,
  ].filter(Boolean).join(", ");
  return h("td", {},
    h("span", { class: `state ${kind}` }, text),
    h("span", { class: "late", vars: { "--share": known(path.latency_seconds) && most ? path.latency_seconds / most : 0 } },
      h("span", {}, delay(path))),
    more ? h("span", { class: "faint" }, more) : null);
}

function siteHead(site, at, why) {
  const votes = why?.sites;
  const isOpen = known(why?.held_for_seconds) || votes?.voted.length;
  const voted = votes?.voted.includes(site.agent) ? "has voted" : votes && isOpen ? "has not voted" : "";
  return h("th", { scope: "col" },
    `site ${at} ${site.agent}`,
    h("span", { class: "faint" }, [site.domain, at ? "" : "master"].filter(Boolean).join(", ")),
    known(site.first) ? h("span", { class: "faint" }, `votes first in ${percent(site.first)}`) : null,
    voted ? h("span", { class: `state ${voted === "has voted" ? "good" : "open"}` }, voted) : null);
}

export function pathsView(main, world, signal, job) {
  const state = h("span");
  const problem = h("p", { class: "problem", role: "alert" });
  const facts = h("dl", { class: "facts" });
  const because = h("div", { class: "why", "aria-live": "polite" });
  const head = h("tr");
  const body = h("tbody");
  const notes = h("ul", { class: "concerns" });
  const table = h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Paths" },
    h("table", { class: "paths" }, h("thead", {}, head), body));
  fill(main,
    h("div", { class: "title" }, h("h1", {}, job), state, h("div", { class: "row" }, h("a", { class: "button", href: jobLink(job) }, "Results"))),
    problem, facts, because,
    h("section", {}, h("h2", {}, "Paths from gateways to sites"), table),
    h("section", {}, h("h2", {}, "Notes"), notes));

  function draw(plan, why) {
    const { layout } = plan;
    const paths = plan.streams ?? [];
    const sites = layout?.sites ?? [];
    fill(state, stateTag(plan.paths ? `PATHS ${plan.paths}${plan.copies > 1 ? `, ${plan.copies}` : ""}` : "no PATHS"));
    const late = paths.filter((each) => pathState(each)[0] === "bad").length;
    fill(facts, ...(layout ? [
      fact("Sites", `${sites.length} of ${plan.paths}`, sites.length < plan.paths ? "warn" : ""),
      fact("Live paths", `${paths.filter((each) => each.live).length} of ${paths.length}`),
      fact("Late paths", number(late), late ? "warn" : ""),
      fact(`Messages between ${layout.label || "group"}s`, `${number(plan.messages)} (PATHS 1: ${number(plan.messages_of_one)})`),
      known(plan.expected) ? fact("Expected, by votes", seconds(plan.expected.by_votes_seconds)) : null,
      known(plan.expected) ? fact("Expected, by the master", seconds(plan.expected.by_master_seconds)) : null,
      known(plan.cost?.ratio) ? fact("Cost, in PATHS 1", number(plan.cost.ratio)) : null,
    ] : [fact("Layout", "one tree")]).filter(Boolean));
    say(because, why?.because ?? "");
    fill(head, h("th", { scope: "col" }, "Gateway"), ...sites.map((site, at) => siteHead(site, at, why)));
    const most = Math.max(0, ...paths.map((each) => each.latency_seconds ?? 0));
    fill(body, ...(layout?.groups ?? []).flatMap((group) => group.gateways.map((gateway, copy) => h("tr", {},
      h("th", { scope: "row" }, gateway.agent,
        h("span", { class: "faint" }, `${group.group || "no label"}, ${number(group.agents)} ${group.agents === 1 ? "agent" : "agents"}${group.gateways.length > 1 ? `, tree ${copy}` : ""}`)),
      ...sites.map((site) => pathCell(paths.find((each) => each.group === group.group && each.copy === copy && each.site === site.agent), most, group.gateways.length))))));
    fill(notes, ...plan.notes.map((each) => h("li", {}, h("span", { class: `dot ${plan.warnings?.includes(each) ? "warn" : "open"}` }), each)));
  }

  every(EVERY_MS, signal, async () => {
    try {
      const [plan, why] = await Promise.all([get(`${jobPath(job)}/plan`, signal), get(`${jobPath(job)}/why`, signal)]);
      draw(plan, why);
      say(problem, "");
    } catch (error) {
      if (error instanceof ApiError) say(problem, `${error.message}. ${error.hint}`);
      throw error;
    }
  });
}
