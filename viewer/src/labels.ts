/** What a person says of answers, and the file that `calibrate` takes. */

import type { Index } from "./columns";
import type { Head } from "./data";
import type { PairLabel, PairLabels, Preference } from "./pairs";
import { pairKey } from "./pairs";

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
  store(storageKey(head), [...labels]);
}

const pairsKey = (head: Head): string => `${storageKey(head)} pairs`;

/** What was said of two answers on an earlier visit. */
export function storedPairs(head: Head): PairLabels {
  try {
    return new Map(JSON.parse(localStorage.getItem(pairsKey(head)) ?? "[]") as [string, PairLabel][]);
  } catch {
    return new Map();
  }
}

export function storePairs(head: Head, pairs: PairLabels): void {
  store(pairsKey(head), [...pairs]);
}

function store(key: string, values: unknown[]): void {
  try {
    if (values.length) localStorage.setItem(key, JSON.stringify(values));
    else localStorage.removeItem(key);
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

const COLUMNS = [
  "suite", "case", "turn", "trial", "metric", "input", "response", "other_response", "ground_truth", "label", "annotator", "comment",
] as const;
type Row = Partial<Record<(typeof COLUMNS)[number], string>>;
const OF_ONE = ["case", "turn", "trial", "metric"];
const OF_PAIR = ["input", "response", "other_response"];

/** The labels as CSV, in the order of the record, those of two answers last; other columns are there if they say something. */
export function sheet(labels: Labels, pairs: PairLabels, reader: string, head: Head, index: Index): string {
  const order = rowsByCase(head, index);
  const by = (annotator: string | null): string => (annotator ?? reader).trim();
  const single = Array.from(labels, ([key, said]) => {
    const [suite, id, turn, trial, metric] = JSON.parse(key) as [string, string, number, number, string];
    const row: Row = {
      suite, case: id, turn: String(turn), trial: String(trial), metric, label: said.label ?? "", annotator: by(said.annotator),
      comment: said.comment.trim(),
    };
    return { row, turn, trial, at: order.get(JSON.stringify([suite, id])) ?? Infinity };
  }).sort((one, other) => one.at - other.at || one.trial - other.trial || one.turn - other.turn);
  const rows = [...single.map(({ row }) => row), ...Array.from(pairs.values(), (said): Row => ({
    suite: said.suite, input: said.input, response: said.response, other_response: said.other, ground_truth: said.truth,
    label: said.label ?? "", annotator: by(said.annotator), comment: said.comment.trim(),
  }))];
  const always = ["label", ...(single.length ? OF_ONE : []), ...(pairs.size ? OF_PAIR : [])];
  const written = COLUMNS.filter((name) =>
    name === "suite" ? head.suites.length > 1 : always.includes(name) || rows.some((row) => row[name]));
  return [written, ...rows.map((row) => written.map((name) => field(row[name] ?? "")))].map((line) => `${line.join(",")}\r\n`).join("");
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
export function opened(
  labels: Labels, pairs: PairLabels, text: string, head: Head, index: Index,
): { labels: Labels; pairs: PairLabels; sentence: string } {
  const [names, ...lines] = records(text.replace(/^\ufeff/, "")) ?? [];
  const compares = OF_PAIR.every((name) => names?.includes(name));
  const kept = COLUMNS.filter((name) => compares || !(name === "ground_truth" || OF_PAIR.includes(name)));
  const unknown = names?.find((name) => !(kept as readonly string[]).includes(name));
  if (!(names?.includes("case") || compares) || !names?.includes("label") || unknown !== undefined) {
    const why = unknown !== undefined ? `this page does not keep its column ${unknown.slice(0, 40)}` : "it has no columns case and label";
    return { labels, pairs, sentence: `This file is not opened: ${why}` };
  }
  const known = rowsByCase(head, index);
  const changed = new Map(labels);
  const changedPairs = new Map(pairs);
  let taken = 0;
  for (const line of lines) {
    const [suite, id, turn, trial, metric, input, response, other, truth, word, annotator, comment] = COLUMNS.map((name) =>
      unguarded(line[names.indexOf(name)] ?? ""));
    const about = suite || (head.suites[0]?.name ?? "");
    const rest = { comment: comment!, annotator: annotator! };
    if (compares && !id) {
      const label = (["win", "tie", "loss"] as Preference[]).find((one) => one === word) ?? null;
      if (!input || response === other || (word ? label === null : !comment)) continue;
      const said = { suite: about, input, response: response!, other: other!, truth: truth!, label, ...rest };
      changedPairs.set(pairKey(about, input, said.response, said.other), said);
      taken++;
      continue;
    }
    const place = { suite: about, case: id!, turn: Number(turn), trial: Number(trial), metric: metric! };
    const label = word === "pass" || word === "fail" ? word : null;
    const indexed = [turn, trial].every((number) => /^\d{1,6}$/.test(number ?? ""));
    if (!indexed || !known.has(JSON.stringify([place.suite, id])) || (word ? label === null : !comment)) continue;
    changed.set(keyOf(place), { label, ...rest });
    taken++;
  }
  const rest = taken < lines.length ? "; the others are about no answer of this page, or have no label that it knows" : "";
  return { labels: changed, pairs: changedPairs, sentence: `${taken} of ${lines.length} rows opened${rest}` };
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
