/** Words and numbers as a person reads them. */

import type { Change, Outcome } from "./data";

/** In the order in which they need attention. */
export const OUTCOMES: readonly Outcome[] = [
  "failed", "error", "quarantined", "pending", "skipped", "informational", "passed",
];
export const CHANGES: readonly Change[] = ["regressed", "flaky", "undecided", "improved", "new", "gone", "changed", "same"];

const WORDS: Record<string, string> = { error: "in error", skipped: "not run" };
const OF_LETTER: Record<string, string> = {
  p: "passed", f: "failed", e: "in error", s: "skipped", i: "informational",
};

export const outcomeWord = (outcome: string): string => WORDS[outcome] ?? outcome;
export const letterWord = (letter: string): string => OF_LETTER[letter] ?? letter;

/** The colour that an outcome, a gate's state or a change has. */
export function tone(outcome: string): "good" | "bad" | "warn" | "calm" {
  if (outcome === "passed" || outcome === "improved") return "good";
  if (outcome === "failed" || outcome === "regressed") return "bad";
  if (["skipped", "informational", "same", "new", "gone"].includes(outcome)) return "calm";
  return "warn";
}

/** Up to four significant digits: 0.8333, 12.5, 3. */
export function number(value: number | null, none = "–"): string {
  if (value === null || !Number.isFinite(value)) return none;
  return String(Number(value.toPrecision(4))).replace("-", "−");
}

export function percent(share: number | null): string {
  if (share === null) return "–";
  const shown = Math.round(share * 1000) / 10;
  // 999 of 1,000 are not all of them.
  if (shown === 100 && share < 1) return "> 99.9 %";
  return `${shown} %`;
}

export function count(value: number | null): string {
  return value === null ? "–" : value.toLocaleString("en");
}

/** As `duration_text` and `usd_text` of reports/phrases.py: a number has one form on every surface. */
export function duration(ms: number | null | undefined): string {
  if (ms == null) return "–";
  if (ms < 1) return `${Number(ms.toPrecision(2))} ms`;
  return ms < 999.5 ? `${Math.round(ms)} ms` : `${(ms / 1000).toFixed(1)} s`;
}

export function usd(value: number | null): string {
  return value === null ? "–" : `$${value.toFixed(4)}`;
}

export function plural(amount: number, one: string, many = `${one}s`): string {
  return `${count(amount)} ${amount === 1 ? one : many}`;
}

/** 2026-01-31 14:05, in the reader's time zone. */
export function moment(text: string | null): string {
  if (text === null) return "–";
  const date = new Date(text);
  if (Number.isNaN(date.getTime())) return text;
  const two = (value: number): string => String(value).padStart(2, "0");
  const day = `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}`;
  return `${day} ${two(date.getHours())}:${two(date.getMinutes())}`;
}

// What neither moves the text around it nor hides in it: controls, marks that turn the direction of writing, tags.
const INVISIBLE =
  /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u00ad\u200b\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]|[\u{e0000}-\u{e007f}]/gu;

/** A text whose invisible characters are seen: ␀, ␛, ⟨U+202E⟩. */
export function visible(text: string): string {
  return text.replace(/\r\n?/g, "\n").replace(INVISIBLE, (found) => {
    const code = found.codePointAt(0)!;
    if (code < 0x20) return String.fromCharCode(0x2400 + code);
    return `⟨U+${code.toString(16).toUpperCase().padStart(4, "0")}⟩`;
  });
}

/** A link to the web, or null: a record may name any address. */
export function webLink(url: string | null): string | null {
  return url !== null && url.startsWith("https://") ? url : null;
}
