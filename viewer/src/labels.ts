/** What a person says of answers, and the file that `calibrate` takes. */

import type { Index } from "./columns";
import type { Head } from "./data";

export type Label = "pass" | "fail";

/** An answer; `metric` is empty for the answer as a whole, `suite` and `case` are names. */
export interface Place { suite: string; case: string; turn: number; trial: number; metric: string }

export type Labels = ReadonlyMap<string, Label>;

export const keyOf = (place: Place): string =>
  JSON.stringify([place.suite, place.case, place.turn, place.trial, place.metric]);

/** Labels with one set; the same label again takes it away. */
export function marked(labels: Labels, place: Place, label: Label): Labels {
  const changed = new Map(labels);
  const key = keyOf(place);
  if (changed.get(key) === label) changed.delete(key);
  else changed.set(key, label);
  return changed;
}

function storageKey(head: Head): string {
  return `holodeck-action labels ${head.title} ${head.run.started ?? ""}`;
}

/** Labels of an earlier visit; a page from a file may have no storage. */
export function storedLabels(head: Head): Labels {
  try {
    const stored: unknown = JSON.parse(localStorage.getItem(storageKey(head)) ?? "[]");
    return new Map(stored as [string, Label][]);
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

/** The labels as CSV, in the order of the record. */
export function sheet(labels: Labels, head: Head, index: Index): string {
  const order = new Map(index.id.map((id, row) => [JSON.stringify([head.suites[index.suite[row]!]?.name, id]), row]));
  const rows = Array.from(labels, ([key, label]) => {
    const [suite, id, turn, trial, metric] = JSON.parse(key) as [string, string, number, number, string];
    return { suite, id, turn, trial, metric, label, at: order.get(JSON.stringify([suite, id])) ?? Infinity };
  }).sort((one, other) => one.at - other.at || one.trial - other.trial || one.turn - other.turn);
  const several = head.suites.length > 1;
  const lines = rows.map((row) =>
    [...(several ? [row.suite] : []), row.id, String(row.turn), String(row.trial), row.metric, row.label].map(field),
  );
  const names = [...(several ? ["suite"] : []), "case", "turn", "trial", "metric", "label"];
  return [names, ...lines].map((line) => `${line.join(",")}\r\n`).join("");
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
