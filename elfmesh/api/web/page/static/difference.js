// What two texts differ in, line by line.

import { h } from "./text.js";

const LINES_MAX = 400;

/** The lines of both texts in order: kept, removed and added ones. */
export function changes(before, after) {
  const [a, b] = [before, after].map((text) => text.trimEnd().split("\n").slice(0, LINES_MAX));
  const longest = Array.from({ length: a.length + 1 }, () => new Uint16Array(b.length + 1));
  for (let i = a.length - 1; i >= 0; i--)
    for (let j = b.length - 1; j >= 0; j--)
      longest[i][j] = a[i] === b[j] ? longest[i + 1][j + 1] + 1 : Math.max(longest[i + 1][j], longest[i][j + 1]);
  const found = [];
  let i = 0;
  let j = 0;
  while (i < a.length || j < b.length) {
    if (i < a.length && j < b.length && a[i] === b[j]) {
      found.push([" ", a[i++]]);
      j++;
    } else if (i < a.length && (j === b.length || longest[i + 1][j] >= longest[i][j + 1])) found.push(["-", a[i++]]);
    else found.push(["+", b[j++]]);
  }
  return found;
}

export function difference(before, after) {
  const kinds = { " ": "same", "-": "gone", "+": "new" };
  return h("pre", { class: "difference", tabindex: "0", "aria-label": "Difference from the running version" },
    changes(before, after).map(([sign, line]) => h("span", { class: kinds[sign] }, `${sign} ${line}`)));
}
