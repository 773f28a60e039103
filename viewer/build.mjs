// Builds templates/viewer.js and templates/viewer.css; with --check it only says whether they equal their source.
import { readFile, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const HERE = dirname(fileURLToPath(import.meta.url));
const OUTPUT = join(HERE, "..", "templates");
const LICENCES = new Set(["MIT", "ISC", "BSD-2-Clause", "BSD-3-Clause", "Apache-2.0"]);
const MOST_BYTES = 112_950;

/** Returns the packages of a bundle with their versions, licences and copyright lines; refuses other licences. */
async function bundled(metafile) {
  const names = new Set();
  for (const file of Object.keys(metafile.inputs)) {
    const found = /node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(file);
    if (found) names.add(found[1]);
  }
  const lines = [];
  for (const name of [...names].sort()) {
    const folder = join(HERE, "node_modules", name);
    const { version, license } = JSON.parse(await readFile(join(folder, "package.json"), "utf8"));
    if (!LICENCES.has(license)) throw new Error(`${name} ${version} has the licence ${license}: it must not be bundled`);
    lines.push(` * --- ${name} ${version}, ${license} ---`);
    const text = await readFile(join(folder, "LICENSE"), "utf8");
    if (text.includes("*/")) throw new Error(`the licence of ${name} cannot stand in a comment`);
    for (const line of text.trim().split(/\r?\n/)) lines.push(` * ${line}`.trimEnd());
  }
  return lines;
}

const made = await build({
  absWorkingDir: HERE,
  entryPoints: [
    { in: "src/main.tsx", out: "viewer" },
    { in: "src/style.css", out: "viewer" },
  ],
  bundle: true,
  minify: true,
  write: false,
  metafile: true,
  charset: "ascii",
  format: "iife",
  target: ["chrome123", "firefox120", "safari17.5"],
  jsx: "automatic",
  jsxImportSource: "preact",
  legalComments: "none",
  outdir: OUTPUT,
  logLevel: "warning",
});
const banner = [
  "/*!",
  " * Built from viewer/ by `make viewer`: do not edit.",
  " * The licences of the packages in it:",
  ...(await bundled(made.metafile)),
  " */",
  "",
].join("\n");
let differing = false;
for (const file of made.outputFiles) {
  const text = (file.path.endsWith(".js") ? banner : "") + file.text;
  // The page holds both inside of elements, which these would end.
  if (/<\/(script|style)|<!--/i.test(text)) throw new Error(`${file.path} holds what ends a script or style element`);
  const size = Buffer.byteLength(text);
  if (size > MOST_BYTES) throw new Error(`${file.path} has ${size} bytes, more than ${MOST_BYTES}`);
  const name = file.path.slice(OUTPUT.length + 1);
  const before = await readFile(file.path, "utf8").catch(() => null);
  if (!process.argv.includes("--check")) {
    await writeFile(file.path, text);
    console.log(`templates/${name}: ${size} bytes`);
  } else if (before !== text) {
    differing = true;
    console.error(`templates/${name} is not what viewer/ gives: run make viewer and commit it`);
  }
}
process.exitCode = differing ? 1 : 0;
