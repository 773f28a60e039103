/** What a person says of answers, and the file that `calibrate` takes. */

import type { Index } from "./columns";
import type { Head } from "./data";

export type Label = "pass" | "fail";

/** An answer; `metric` is empty for the answer as a whole, `suite` and `case` are names. */
export interface Place { suite: string; case: string; turn: number; trial: number; metric: string }

/** What a person says of an answer; `annotator` is the name that a file gives, and null for the reader of the page. */
export interface Opinion { label: Label | null; comment: string; annotator: string | null }

export type Labels = ReadonlyMap<string, Opinion>;

export const keyOf = (place: Place): string =>
  JSON.stringify([place.suite, place.case, place.turn, place.trial, place.metric]);

/** Labels with the reader's label or comment of a place; the same label again takes it away. */
export function marked(labels: Labels, place: Place, said: { label: Label } | { comment: string }): Labels {
  const changed = new Map(labels);
  const key = keyOf(place);
  const before = changed.get(key) ?? { label: null, comment: "" };
  const label = !("label" in said) ? before.label : said.label === before.label ? null : said.label;
  const comment = "comment" in said ? said.comment : before.comment;
  if (label === null && !comment.trim()) changed.delete(key);
  else changed.set(key, { label, comment, annotator: null });
  return changed;
}

const ANNOTATOR_KEY = "holodeck-action annotator";

/** The reader's name of an earlier visit. */
export function storedAnnotator(): string {
  try {
    return localStorage.getItem(ANNOTATOR_KEY) ?? "";
  } catch {
    return "";
  }
}

export function storeAnnotator(name: string): void {
  try {
    localStorage.setItem(ANNOTATOR_KEY, name);
  } catch {
    // It stays in memory.
  }
}

function storageKey(head: Head): string {
  return `holodeck-action labels ${head.title} ${head.run.started ?? ""}`;
}

/** Labels of an earlier visit; a page from a file may have no storage. */
export function storedLabels(head: Head): Labels {
  try {
    const stored: unknown = JSON.parse(localStorage.getItem(storageKey(head)) ?? "[]");
    // Pages of earlier versions stored the label alone.
    return new Map((stored as [string, Label | Opinion][]).map(([key, said]) =>
      [key, typeof said === "string" ? { label: said, comment: "", annotator: null } : said]));
  } catch {
    return new Map();
  }
}

export function storeLabels(head: Head, labels: Labels): void {
  try {
    if (labels.size) localStorage.setItem(storageKey(head), JSON.stringify([...labels]));
    else localStorage.removeItem(storageKey(head));
  } catch {
    // They stay in memory.
  }
}

// As in holodeck_action/text/csv_cells.py, whose tests compare them.
const FORMULA = String.raw`=+\-@＝＋－＠﹦﹢﹣﹫⁼⁺⁻₌₊₋−`;
const BLANK = String.raw`\x00-\x20\x7f-\xa0\xad\u034f\u061c\u115f\u1160\u1680\u17b4\u17b5\u180b-\u180f\u2000-\u200f`
  + String.raw`\u2028-\u202f\u205f-\u206f\u2800\u3000\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\u{e0000}-\u{e0fff}`;
/** What gets an apostrophe: formulas, and white space or invisible characters at either end. */
const GUARDED = new RegExp(`^'*[${FORMULA}${BLANK}]|[${BLANK}]$`, "u");

/** A field of CSV that no spreadsheet computes. */
function field(text: string): string {
  const inert = GUARDED.test(text) ? `'${text}` : text;
  return /[",\r\n]/.test(inert) ? `"${inert.replaceAll('"', '""')}"` : inert;
}

const unguarded = (cell: string): string => (cell.startsWith("'") && GUARDED.test(cell.slice(1)) ? cell.slice(1) : cell);

/** The rows of the page by suite and case, as JSON. */
export function rowsByCase(head: Head, index: Index): Map<string, number> {
  return new Map(index.id.map((id, row) => [JSON.stringify([head.suites[index.suite[row]!]?.name, id]), row]));
}

const COLUMNS = ["suite", "case", "turn", "trial", "metric", "label", "annotator", "comment"] as const;

/** The labels as CSV, in the order of the record; columns that may be absent are there if they say something. */
export function sheet(labels: Labels, reader: string, head: Head, index: Index): string {
  const order = rowsByCase(head, index);
  const rows = Array.from(labels, ([key, said]) => {
    const [suite, id, turn, trial, metric] = JSON.parse(key) as [string, string, number, number, string];
    const annotator = (said.annotator ?? reader).trim();
    const fields = [suite, id, String(turn), String(trial), metric, said.label ?? "", annotator, said.comment.trim()];
    return { fields, turn, trial, at: order.get(JSON.stringify([suite, id])) ?? Infinity };
  }).sort((one, other) => one.at - other.at || one.trial - other.trial || one.turn - other.turn);
  const written = COLUMNS.map((name, at) =>
    name === "suite" ? head.suites.length > 1 : at < 6 || rows.some((row) => row.fields[at] !== ""));
  return [[...COLUMNS], ...rows.map((row) => row.fields.map(field))]
    .map((line) => `${line.filter((_, at) => written[at]).join(",")}\r\n`).join("");
}

/** The records of a CSV file; null if it is not CSV. */
function records(text: string): string[][] | null {
  const cell = /("(?:[^"]|"")*"|[^",\r\n]*)(,|\r\n|\n|\r|$)/y;
  const found: string[][] = [];
  let line: string[] = [];
  for (let at = 0; at < text.length; at = cell.lastIndex) {
    cell.lastIndex = at;
    const [, written, end] = cell.exec(text) ?? [];
    if (written === undefined) return null;
    line.push(written.startsWith('"') ? written.slice(1, -1).replaceAll('""', '"') : written);
    if (end === ",") continue;
    if (line.some(Boolean)) found.push(line);
    line = [];
  }
  return found;
}

/** Labels with those of a file that such a page saved, and a sentence about it. */
export function opened(labels: Labels, text: string, head: Head, index: Index): { labels: Labels; sentence: string } {
  const [names, ...lines] = records(text.replace(/^\ufeff/, "")) ?? [];
  const unknown = names?.find((name) => !(COLUMNS as readonly string[]).includes(name));
  if (!names?.includes("case") || !names.includes("label") || unknown !== undefined) {
    const why = unknown !== undefined ? `this page does not keep its column ${unknown.slice(0, 40)}` : "it has no columns case and label";
    return { labels, sentence: `This file is not opened: ${why}` };
  }
  const known = rowsByCase(head, index);
  const changed = new Map(labels);
  let taken = 0;
  for (const line of lines) {
    const [suite, id, turn, trial, metric, word, annotator, comment] = COLUMNS.map((name) => unguarded(line[names.indexOf(name)] ?? ""));
    const place = { suite: suite || (head.suites[0]?.name ?? ""), case: id!, turn: Number(turn), trial: Number(trial), metric: metric! };
    const label = word === "pass" || word === "fail" ? word : null;
    const indexed = [turn, trial].every((number) => /^\d{1,6}$/.test(number ?? ""));
    if (!indexed || !known.has(JSON.stringify([place.suite, id])) || (word ? label === null : !comment)) continue;
    changed.set(keyOf(place), { label, comment: comment!, annotator: annotator! });
    taken++;
  }
  const rest = taken < lines.length ? "; the others are about no answer of this page, or have no label pass or fail" : "";
  return { labels: changed, sentence: `${taken} of ${lines.length} rows opened${rest}` };
}

/** Asks for a file of the reader's and passes its text on. */
export function openFile(then: (text: string) => void): void {
  const input = document.createElement("input");
  input.type = "file";
  input.accept = ".csv,text/csv";
  input.onchange = () => void input.files?.[0]?.text().then(then);
  input.click();
}

/** Hands a file to the reader's browser. */
export function save(name: string, text: string): void {
  const url = URL.createObjectURL(new Blob([text], { type: "text/csv;charset=utf-8" }));
  const link = document.createElement("a");
  link.href = url;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}
