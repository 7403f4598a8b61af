// Puts the libraries of the live page together: one module each, minified, with the licences of all in it.
// Run by `make page-vendor`; what it writes is checked in, so that nobody needs node to install or to run.
import { build } from "esbuild";
import { copyFile, mkdir, readFile, readdir, writeFile } from "node:fs/promises";

const page = "../../elfmesh/api/web/page/static/vendor";
const tests = "../../tests/e2e/vendor";
const options = { bundle: true, format: "esm", minify: true, target: "es2022", legalComments: "none" };

await mkdir(page, { recursive: true });
await mkdir(tests, { recursive: true });
await build({ ...options, entryPoints: ["editor.mjs"], outfile: `${page}/codemirror.js` });
await build({ ...options, entryPoints: ["node_modules/uplot/dist/uPlot.esm.js"], outfile: `${page}/uplot.js` });
await copyFile("node_modules/uplot/dist/uPlot.min.css", `${page}/uplot.css`);

async function licence(name) {
  const folder = `node_modules/${name}`;
  const { version, license } = JSON.parse(await readFile(`${folder}/package.json`, "utf8"));
  const file = (await readdir(folder)).find((each) => /^licen[cs]e/i.test(each));
  return `${name} ${version} (${license})\n\n${(await readFile(`${folder}/${file}`, "utf8")).trim()}\n`;
}

const { devDependencies } = JSON.parse(await readFile("package.json", "utf8"));
const shipped = Object.keys(devDependencies).filter((name) => !["esbuild", "axe-core"].includes(name));
const texts = await Promise.all(shipped.map(licence));
await writeFile(`${page}/LICENSES.txt`, texts.join(`\n${"-".repeat(80)}\n\n`));

await copyFile("node_modules/axe-core/axe.min.js", `${tests}/axe.min.js`);
await writeFile(`${tests}/LICENSES.txt`, await licence("axe-core"));
