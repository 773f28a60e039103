/** The cases as a table with a row each; only the rows in sight are drawn. */

import type { ComponentChildren, JSX } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { ChangeTag } from "./case";
import type { Column, Sort } from "./choosing";
import { values } from "./choosing";
import type { Excerpt } from "./excerpts";
import { excerptOf } from "./excerpts";
import { count, duration, letterWord, percent, usd, visible } from "./format";
import { Mark } from "./icons";
import type { Page } from "./page";
import { useShared } from "./state";

/** Pixels of a row, and of one with full texts; the style sheet has the same heights. */
const ROW = 44;
const TALL = 176;
const NARROW = 64;
const BEYOND = 8;
/** Metrics with a column before a reader chooses. */
const METRICS = 3;

/**
 * A column: `sort` is the order in which a click on its head brings the rows, `least` its width in pixels, and `share`
 * its part of the width that is left.
 */
interface TableColumn { name: string; head: string; sort: Sort | null; class: string; least: number; share: number; cell: (row: number, excerpt: Excerpt | undefined) => ComponentChildren }

const OF_LETTER: Record<string, string> = { p: "passed", f: "failed", e: "error", s: "skipped", i: "informational" };

function columnsOf(page: Page): TableColumn[] {
  const { head, index } = page;
  const known = (column: Column): boolean => values(index, column).some((value) => value !== null);
  const text = (name: Exclude<keyof Excerpt, "others">, title: string): TableColumn => ({
    name, head: title, sort: null, class: "words", least: 130, share: 2,
    cell: (_, excerpt) => (excerpt === undefined ? "…" : excerpt[name] === null ? "–" : visible(excerpt[name]) || "(empty)"),
  });
  const amount = (name: "latency_ms" | "tokens" | "cost_usd", title: string, shown: (value: number | null) => string): TableColumn[] =>
    known(name) ? [{ name, head: title, sort: name, class: "n", least: 76, share: 0, cell: (row) => shown(index[name][row]!) }] : [];
  const differs: TableColumn = {
    name: "differs", head: "Differs", sort: "differences", class: "words", least: 130, share: 0.5,
    cell: (row) => differences(page, row) || (index.difference[row] ?? "–"),
  };
  return [
    {
      name: "title", head: "Case", sort: "title", class: "title", least: 170, share: 1,
      cell: (row) => (
        <>
          {!head.runs.length && <Mark outcome={index.outcome[row]!} label />}
          <span dir="auto">{visible(index.title[row]!.slice(0, 300))}</span>
          {index.change[row] && index.change[row] !== "same" && <ChangeTag change={index.change[row]!} />}
        </>
      ),
    },
    text("input", "Input"),
    text("expected", "Expected"),
    ...(head.base ? [text("base", `Answer on ${visible(head.base.name)}`)] : []),
    ...(head.runs.length ? [differs, ...head.runs.map((_, run) => runColumn(page, run))] : [text("answer", "Answer")]),
    {
      name: "reason", head: "Why not passed", sort: null, class: "words", least: 150, share: 3,
      cell: (row) => (index.outcome[row] === "passed" ? "" : visible(index.reason[row]!)),
    },
    ...head.metrics.map((metric, at): TableColumn => ({
      name: `metric ${at}`,
      head: visible(head.suites.length > 1 ? `${head.suites[metric.suite]?.name}: ${metric.name}` : metric.name),
      sort: `${at}`, class: "n score", least: 92, share: 0,
      cell: (row) => {
        const letter = index.metric_outcomes[row]![at] ?? "-";
        const score = index.scores[at]![row] ?? null;
        if (letter === "-") return "–";
        return <><Mark outcome={OF_LETTER[letter] ?? "error"} label /> {score === null ? letterWord(letter) : score.toFixed(3)}</>;
      },
    })),
    ...amount("tokens", "Tokens", count),
    ...amount("latency_ms", "Time", duration),
    ...amount("cost_usd", "Cost", usd),
  ];
}

/** In words, the other runs in which a case passes and the page's own does not, or the other way round. */
function differences({ head, index }: Page, row: number): string {
  const [own, ...others] = index.runs[row] ?? [];
  if (own == null || others.includes(null)) return "not in every run";
  const passes = own === "passed";
  const names = others.flatMap((outcome, at) => (
    (outcome === "passed") === passes ? [] : [visible(head.runs[at + 1]!.name)]
  ));
  return names.length ? `${passes ? "better" : "worse"} than ${names.join(", ")}` : "";
}

/** A run of a page of several: its verdict on each case, and its answer. */
function runColumn(page: Page, run: number): TableColumn {
  const { name, pass_rate } = page.head.runs[run]!;
  return {
    name: `run ${run}`, head: `${visible(name)} (${percent(pass_rate)} passed)`, sort: `run ${run}`, class: "words run", least: 180, share: 2,
    cell: (row, excerpt) => {
      const outcome = page.index.runs[row]?.[run] ?? null;
      if (outcome === null) return <i class="soft">This run does not have the case.</i>;
      const other = run === 0 ? excerpt && { answer: excerpt.answer, asked: true } : excerpt?.others[run - 1];
      return (
        <>
          <Mark outcome={outcome} label />{" "}
          {other?.asked === false && <span class="tag">other case text</span>}{" "}
          {excerpt === undefined ? "…" : other?.answer == null ? "–" : visible(other.answer) || "(empty)"}
        </>
      );
    },
  };
}

/**
 * The columns before a reader chooses: of the metrics those that fail most often. Of several runs, columns that tell of
 * the page's own run alone are left out.
 */
function firstOf(page: Page, all: readonly TableColumn[]): string[] {
  const metrics = page.head.metrics.map((metric, at) => ({ metric, at }));
  metrics.sort((one, other) => other.metric.failed - one.metric.failed || other.metric.cases - one.metric.cases || one.at - other.at);
  const shown = new Set(metrics.slice(0, METRICS).map(({ at }) => `metric ${at}`));
  const names = all.map(({ name }) => name);
  if (page.head.runs.length) return names.filter((name) => !/^(reason|metric .*|tokens|latency_ms|cost_usd)$/.test(name));
  return names.filter((name) => shown.has(name) || !name.startsWith("metric "));
}

export function CaseTable(props: {
  rows: readonly number[]; excerpts: readonly (Excerpt | undefined)[]; columns: readonly string[] | null;
  widths: Readonly<Record<string, number>>; full: boolean; sort: Sort; reversed: boolean; onClear: () => void;
}): JSX.Element {
  const { page, dispatch } = useShared();
  const box = useRef<HTMLDivElement>(null);
  const [scroll, setScroll] = useState({ top: 0, height: 900 });
  const all = useMemo(() => columnsOf(page), [page]);
  const chosen = useMemo(() => props.columns ?? firstOf(page, all), [page, props.columns]);
  const columns = all.filter((column) => chosen.includes(column.name));
  useEffect(() => {
    const element = box.current!;
    const measure = (): void => setScroll({ top: element.scrollTop, height: element.clientHeight });
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    element.addEventListener("scroll", measure, { passive: true });
    return () => {
      observer.disconnect();
      element.removeEventListener("scroll", measure);
    };
  }, []);
  const { full, widths } = props;
  const height = full ? TALL : ROW;
  const from = Math.max(0, Math.floor(scroll.top / height) - BEYOND);
  const drawn = props.rows.slice(from, Math.ceil((scroll.top + scroll.height) / height) + BEYOND);
  const excerpts = useExcerpts(drawn, props.excerpts, full);
  const known = props.excerpts.filter((one) => one !== undefined);
  // A column without a text gives its room to the others.
  const empty = ({ name }: TableColumn): boolean => (name === "reason" ? page.index.outcome.every((one) => one === "passed")
    : known.length > 0 && (name === "expected" || name === "answer" || name === "base") && known.every((one) => one[name] === null));
  const least = (column: TableColumn): number => widths[column.name] ?? (empty(column) ? NARROW : column.least);
  const grid = {
    gridTemplateColumns: columns.map((column) => (
      column.share && !widths[column.name] && !empty(column) ? `minmax(${column.least}px, ${column.share}fr)` : `${least(column)}px`)).join(" "),
    minWidth: `${columns.reduce((sum, column) => sum + least(column), 0)}px`,
  };
  const widen = ({ name }: TableColumn, handle: HTMLElement, by: number): void => dispatch({ do: "set", change: {
    widths: { ...widths, [name]: Math.max(NARROW, handle.parentElement!.offsetWidth + by) },
  } });
  const name = (column: TableColumn): void => {
    if (column.sort !== null) dispatch({ do: "sort", sort: column.sort, reversed: props.sort === column.sort && !props.reversed });
  };
  return (
    <>
      <div class={full ? "grid full" : "grid"} ref={box} role="table" aria-label="Cases" aria-rowcount={props.rows.length + 1} aria-colcount={columns.length} tabIndex={0}>
        <div class="heads" role="row" aria-rowindex={1} style={grid}>
          {columns.map((column) => {
            const by = column.sort !== null && props.sort === column.sort;
            return (
              <div role="columnheader" class={column.class} title={column.head} aria-sort={by ? (props.reversed ? "descending" : "ascending") : undefined}>
                {column.sort === null ? column.head : (
                  <button type="button" class="plain" onClick={() => name(column)}>
                    {column.head}{by ? (props.reversed ? " ▴" : " ▾") : ""}
                  </button>
                )}
                <span class="width" role="separator" aria-orientation="vertical" aria-label={`Width of ${column.head}`} aria-valuenow={least(column)} tabIndex={0}
                  onPointerDown={(event) => event.currentTarget.setPointerCapture(event.pointerId)}
                  onPointerMove={(event) => event.currentTarget.hasPointerCapture(event.pointerId) && widen(column, event.currentTarget, event.movementX)}
                  onKeyDown={(event) => {
                    const by = { ArrowLeft: -20, ArrowRight: 20 }[event.key];
                    if (by) widen(column, event.currentTarget, by);
                  }} />
              </div>
            );
          })}
        </div>
        <div class="rows" role="rowgroup" style={{ height: `${props.rows.length * height}px`, minWidth: grid.minWidth }}>
          {drawn.map((row, at) => (
            <div class="row" key={row} role="row" aria-rowindex={from + at + 2} data-row={row}
              style={{ ...grid, transform: `translateY(${(from + at) * height}px)` }}>
              {columns.map((column) => (
                <div role="cell" class={column.class} dir={column.class.startsWith("words") ? "auto" : undefined}
                  tabIndex={full && column.class.startsWith("words") ? 0 : undefined}>
                  {column.name === "title"
                    ? <button type="button" class="open" onClick={() => dispatch({ do: "open", row })}>{column.cell(row, undefined)}</button>
                    : <span>{column.cell(row, excerpts[row])}</span>}
                </div>
              ))}
            </div>
          ))}
        </div>
      </div>
      <div class="under soft" data-shown={props.rows.length}>
        <span role="status">{count(props.rows.length)} of {count(page.size)}{page.size === 1 ? " case" : " cases"}</span>
        {props.rows.length < page.size && <button type="button" class="plain" onClick={props.onClear}>Show all</button>}
        <button type="button" class="plain" aria-pressed={full} onClick={() => dispatch({ do: "set", change: { full: !full } })}>Full texts</button>
        <Choice all={all} chosen={columns} />
      </div>
    </>
  );
}

/** The boxes with which a reader chooses columns. */
function Choice(props: { all: TableColumn[]; chosen: TableColumn[] }): JSX.Element {
  const { dispatch } = useShared();
  const names = props.chosen.map((column) => column.name);
  return (
    <details class="choice">
      <summary>Columns ({props.chosen.length} of {props.all.length})</summary>
      <fieldset>
        <legend class="unseen">Columns of the table</legend>
        {props.all.map((column) => (
          <label>
            <input type="checkbox" checked={names.includes(column.name)} disabled={column.name === "title"}
              onChange={() => dispatch({ do: "set", change: { columns: names.includes(column.name)
                ? names.filter((one) => one !== column.name) : [...names, column.name] } })} />
            {column.head}
          </label>
        ))}
      </fieldset>
    </details>
  );
}

/** The excerpts of rows; those that have not been read yet are unpacked. */
function useExcerpts(rows: readonly number[], all: readonly (Excerpt | undefined)[], full: boolean): (Excerpt | undefined)[] {
  const { page } = useShared();
  const own = useRef<{ page: Page; full: boolean; found: (Excerpt | undefined)[] }>({ page, full, found: [] });
  if (own.current.page !== page || own.current.full !== full) own.current = { page, full, found: [] };
  const read = full ? [] : all;
  const [, redraw] = useState(0);
  const { found } = own.current;
  const missing = rows.filter((row) => read[row] === undefined && found[row] === undefined);
  useEffect(() => {
    let current = true;
    if (missing.length) {
      void Promise.all(missing.map(async (row) => {
        const detail = await page.detail(row).catch(() => null);
        if (detail) found[row] = excerptOf(detail, full);
      })).then(() => current && redraw((times) => times + 1));
    }
    return () => { current = false; };
  }, [page, full, missing.join()]);
  const shown: (Excerpt | undefined)[] = [];
  for (const row of rows) shown[row] = read[row] ?? found[row];
  return shown;
}
