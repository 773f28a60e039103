/** Which cases the list shows, and in which order. */

import type { Index } from "./columns";
import { minimized } from "./columns";
import type { Change, Head, Outcome } from "./data";
import { CHANGES, OUTCOMES } from "./format";
import type { Field, Texts } from "./texts";
import { FIELDS } from "./texts";

/** A column of numbers: score k is "0", "1" and so on. */
export type Column = "latency_ms" | "tokens" | "cost_usd" | `${number}`;

export interface Range { column: Column; name: string; low: number; high: number; last: boolean }

export interface Filters {
  query: string;
  /** Empty for all. */
  outcomes: readonly Outcome[];
  metric: { column: number; letter: string } | null;
  range: Range | null;
  tag: string | null;
  suite: number | null;
  change: Change | null;
  flaky: boolean;
}

export const NO_FILTERS: Filters = {
  query: "", outcomes: [], metric: null, range: null, tag: null, suite: null, change: null, flaky: false,
};

export function filtered(filters: Filters): boolean {
  return JSON.stringify({ ...filters, query: filters.query.trim() }) !== JSON.stringify(NO_FILTERS);
}

export type Sort = "problems" | "record" | "changes" | "differences" | `run ${number}` | "title" | "latency_ms" | "cost_usd" | "tokens" | `${number}`;

/** The numbers of a column, one a case. */
export function values(index: Index, column: Column): (number | null)[] {
  if (column === "latency_ms" || column === "tokens" || column === "cost_usd") return index[column];
  return index.scores[Number(column)] ?? [];
}

export function inRange(value: number | null | undefined, range: Range): boolean {
  if (value === null || value === undefined || value < range.low) return false;
  return range.last ? value <= range.high : value < range.high;
}

/** The words of a query, in lower case; "some words" in quotes stay together. */
export function terms(query: string): string[] {
  return Array.from(query.toLowerCase().matchAll(/"([^"]+)"?|(\S+)/g), (found) => found[1] ?? found[2] ?? "")
    .filter((term) => term !== "" && term !== '"');
}

/** The rows that fit, and the field in which the search finds each. */
export interface Chosen { rows: number[]; found: ReadonlyMap<number, Field> }

export function choose(index: Index, filters: Filters, texts: Texts): Chosen {
  const wanted = new Set(filters.outcomes);
  const words = terms(filters.query);
  const ranged = filters.range && values(index, filters.range.column);
  const rows: number[] = [];
  const found = new Map<number, Field>();
  for (let row = 0; row < index.id.length; row++) {
    if (wanted.size && !wanted.has(index.outcome[row]!)) continue;
    if (filters.flaky && !index.flaky[row]) continue;
    if (filters.suite !== null && index.suite[row] !== filters.suite) continue;
    if (filters.change !== null && index.change[row] !== filters.change) continue;
    if (filters.tag !== null && !index.tags[row]!.includes(filters.tag)) continue;
    if (filters.metric && index.metric_outcomes[row]![filters.metric.column] !== filters.metric.letter) continue;
    if (ranged && !inRange(ranged[row], filters.range!)) continue;
    if (words.length) {
      const field = texts.find(row, words);
      if (field === null) continue;
      found.set(row, field);
    }
    rows.push(row);
  }
  return { rows, found };
}

/** Rows by the field in which a search finds them, titles first; in a field the order stays as it is. */
export function byField(rows: readonly number[], found: Chosen["found"]): number[] {
  const place = (row: number): number => FIELDS.indexOf(found.get(row) ?? "several");
  return [...rows].sort((one, other) => place(one) - place(other));
}

/** Sorts rows; equal ones stay in the order of the page, worst first, and cases without a number come last. */
export function sorted(rows: readonly number[], head: Head, index: Index, sort: Sort, reversed = false): number[] {
  const key = keyOf(head, index, sort);
  if (key === null) return reversed ? [...rows].reverse() : [...rows];
  const keys = new Map(rows.map((row) => [row, key(row)]));
  const sign = reversed ? -1 : 1;
  return [...rows].sort((one, other) => {
    const left = keys.get(one)!;
    const right = keys.get(other)!;
    if (left === right) return one - other;
    if (left === Infinity || right === Infinity) return left === Infinity ? 1 : -1;
    return left < right ? -sign : sign;
  });
}

function keyOf(head: Head, index: Index, sort: Sort): ((row: number) => number | string) | null {
  if (sort === "problems") return null;
  if (sort === "record") return (row) => index.suite[row]! * 1e9 + index.position[row]!;
  if (sort === "title") return (row) => index.title[row]!.toLowerCase();
  if (sort === "changes") {
    return (row) => {
      const change = index.change[row];
      return change ? CHANGES.indexOf(change) : CHANGES.length;
    };
  }
  if (sort === "differences") return (row) => ["verdict", "answer"].indexOf(index.difference[row] ?? "") >>> 0;
  if (sort.startsWith("run ")) {
    const run = Number(sort.slice(4));
    return (row) => {
      const outcome = index.runs[row]?.[run] ?? null;
      return outcome === null ? Infinity : OUTCOMES.indexOf(outcome);
    };
  }
  const column = values(index, sort as Column);
  // Bad scores first: low ones, or high ones where low is good. Slow and costly cases first.
  const sign = /^\d+$/.test(sort) && !minimized(head.metrics[Number(sort)]) ? 1 : -1;
  return (row) => {
    const value = column[row];
    return value === null || value === undefined ? Infinity : sign * value;
  };
}
