// Checks workflows and action.yml files with GitHub's own parser, the one of its editor: syntax, keys, expressions, contexts,
// events, schedules, called workflows, and the inputs that steps give to this repository's own actions.
//
//     node scripts/workflows/check.mjs [FILE…]     without a FILE, all that are in this repository
//
// Prints each finding as FILE:LINE:COLUMN. The exit code is 1 if there is one.
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { register } from "node:module";
import { basename, dirname, join, relative, resolve } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { TextDocument } from "vscode-languageserver-textdocument";
import { isMap, parse, parseAllDocuments } from "yaml";

// The packages import JSON as bundlers read it; Node.js wants the type named.
const load = (url, context, next) => next(url, url.endsWith(".json") ? { ...context, importAttributes: { type: "json" } } : context);
register(`data:text/javascript,${encodeURIComponent(`export const load = ${load}`)}`);
const { registerLogger, validate } = await import("@actions/languageservice");

const ROOT = resolve(dirname(fileURLToPath(import.meta.url)), "../..");
const OWN = "holodeck-action/holodeck-action";
const LOCAL_ACTION = /^(.*\buses: )\.\/(runner)?( |$)/gm;

let findings = 0;
function report(place, message) {
  findings += 1;
  console.log(`${place}: ${message}`);
}

// The parser checks inputs of published actions alone, so a local one is checked as if it were published. Actions of others
// are not fetched: without inputs in the answer, theirs are not checked.
const asPublished = text => text.replace(LOCAL_ACTION, (_, start, folder, end) => `${start}${OWN}${folder ? `/${folder}` : ""}@main${end}`);

const config = {
  actionsMetadataProvider: {
    async fetchActionMetadata({ owner, name, path }) {
      return `${owner}/${name}` === OWN ? parse(readFileSync(join(ROOT, path ?? "", "action.yml"), "utf8")) : {};
    },
  },
  fileProvider: {
    async getFileContent({ path }) {
      return { name: path, content: readFileSync(join(ROOT, path), "utf8") };
    },
  },
};

function filesOfRepository() {
  const listed = execFileSync("git", ["ls-files", "-z", "*.yml", "*.yaml"], { cwd: ROOT, encoding: "utf8" });
  const files = listed.split("\0").filter(Boolean).map(path => join(ROOT, path));
  return files.filter(file => {
    if (basename(file).startsWith("action.")) return true;
    const [document] = parseAllDocuments(readFileSync(file, "utf8"));
    return isMap(document?.contents) && document.has("on") && document.has("jobs");
  });
}

const named = process.argv.slice(2).map(path => resolve(path));
const files = named.length === 0 ? filesOfRepository() : named;
for (const file of files) {
  const name = relative(process.cwd(), file);
  // The parser logs a defect of its own and goes on, without a finding.
  registerLogger({ log() {}, info() {}, warn() {}, error: message => report(name, message) });
  const text = asPublished(readFileSync(file, "utf8"));
  const document = TextDocument.create(pathToFileURL(file).href, "yaml", 0, text);
  for (const { range, message } of await validate(document, config)) {
    report(`${name}:${range.start.line + 1}:${range.start.character + 1}`, message);
  }
}
console.log(`${files.length} files checked, ${findings} findings`);
process.exitCode = findings === 0 ? 0 : 1;
