/** The page as a whole. */

import type { JSX } from "preact";
import { render } from "preact";
import { useCallback, useEffect, useMemo, useReducer, useRef, useState } from "preact/hooks";
import { CaseView } from "./case";
import { byField, choose, NO_FILTERS, sorted } from "./choosing";
import { Comparison } from "./compare";
import { Leaders } from "./leaders";
import { FilterBar } from "./filters";
import { Help } from "./help";
import { onKey } from "./keys";
import { rowsByCase, storeAnnotator, storedAnnotator, storedLabels, storedPairs, storeLabels, storePairs } from "./labels";
import { CaseList } from "./list";
import { useProgress } from "./live";
import { MetricsView } from "./metrics";
import type { Page } from "./page";
import { PairsView } from "./pairing";
import { readPlace, writePlace } from "./place";
import { PrintPage } from "./print";
import { useReading } from "./reading";
import type { Shared, State, Theme } from "./state";
import { reduce, SharedContext } from "./state";
import { Summary } from "./summary";
import { CaseTable } from "./table";
import { TopBar } from "./top";
import { TrendView } from "./trend";

const THEME_KEY = "holodeck-action colours";

function storedTheme(): Theme {
  try {
    const stored = localStorage.getItem(THEME_KEY);
    return stored === "light" || stored === "dark" ? stored : "auto";
  } catch {
    return "auto";
  }
}

function firstState(page: Page): State {
  const where = readPlace(location.hash);
  return {
    view: where.view,
    layout: page.head.runs.length ? "table" : "list",
    row: where.case === null ? null : page.rowOf(where.case, where.suite),
    trial: 0,
    filters: NO_FILTERS,
    sort: null,
    reversed: false,
    columns: null,
    widths: {},
    full: false,
    mode: "sides",
    beside: null,
    theme: storedTheme(),
    help: false,
    labelling: false,
    labels: storedLabels(page.head),
    pairs: storedPairs(page.head),
    annotator: storedAnnotator(),
  };
}

export function App(props: { page: Page }): JSX.Element {
  const [page, setPage] = useState(props.page);
  const [state, dispatch] = useReducer(reduce, page, firstState);
  const [message, say] = useMessage();
  const progress = useProgress(page, (next) => {
    const { page: before, state: { row: open, view: shown } } = latest.current;
    setPage(next);
    if (open !== null) dispatch({ do: "open", row: next.rowOf(before.index.id[open]!, before.index.suite[open]!), view: shown });
  });
  const reading = useReading(page);
  const search = useRef<HTMLInputElement>(null);
  const shared = useMemo((): Shared => ({ page, dispatch, say }), [page]);
  const { view, row, filters } = state;
  const sort = state.sort ?? (page.head.runs.length ? "differences" : view === "compare" ? "changes" : "problems");
  const query = filters.query.trim();
  const { rows, found } = useMemo(() => {
    const chosen = choose(page.index, filters, reading.texts);
    const ordered = sorted(chosen.rows, page.head, page.index, sort, state.reversed);
    // An order that the reader chose counts more than where the words are.
    return { rows: state.sort === null ? byField(ordered, chosen.found) : ordered, found: chosen.found };
  }, [page, filters, sort, state.sort, state.reversed, query && reading.read]);

  const step = (by: number): void => {
    if (!rows.length) return;
    const at = row === null ? -1 : rows.indexOf(row);
    const from = at < 0 && by < 0 ? rows.length : at;
    dispatch({ do: "open", row: rows[Math.max(0, Math.min(rows.length - 1, from + by))]! });
  };
  const latest = useRef({ page, state, step });
  latest.current = { page, state, step };

  useEffect(() => {
    const press = (event: KeyboardEvent): void => {
      const copyCommand = (): void => document.querySelector<HTMLButtonElement>(".case button.command")?.click();
      if (onKey(event, { ...latest.current, head: page.head, dispatch, search, copyCommand })) event.preventDefault();
    };
    window.addEventListener("keydown", press);
    return () => window.removeEventListener("keydown", press);
  }, [page]);
  useAddress(page, state, dispatch);
  useEffect(() => {
    document.documentElement.dataset["theme"] = state.theme;
    try {
      localStorage.setItem(THEME_KEY, state.theme);
    } catch {
      // It lasts as long as the page.
    }
  }, [state.theme]);
  useEffect(() => storeLabels(page.head, state.labels), [state.labels]);
  useEffect(() => storePairs(page.head, state.pairs), [state.pairs]);
  useEffect(() => storeAnnotator(state.annotator), [state.annotator]);
  useEffect(() => {
    const paper = document.createElement("div");
    paper.id = "paper";
    document.body.append(paper);
    const before = (): void =>
      render(
        <SharedContext.Provider value={shared}>
          <PrintPage details={reading.printed} problems={reading.problems} />
        </SharedContext.Provider>,
        paper,
      );
    const after = (): void => render(null, paper);
    window.addEventListener("beforeprint", before);
    window.addEventListener("afterprint", after);
    return () => {
      window.removeEventListener("beforeprint", before);
      window.removeEventListener("afterprint", after);
      paper.remove();
    };
  }, [page]);

  const labelled = useMemo(() => labelledRows(page, state.labels), [page, state.labels]);
  const onStep = useCallback((by: number) => latest.current.step(by), []);
  const onClose = useCallback(() => dispatch({ do: "open", row: null }), []);
  const labels = state.labelling ? state.labels : null;
  const beside = state.beside ?? (view === "compare" ? 1 : 0);
  // Both are made anew only when they change: typing does not draw the case again, and stepping not the filters.
  const right = useMemo(() => {
    if (row !== null) {
      return <CaseView key={row} row={row} trial={state.trial} mode={state.mode} beside={beside} labels={labels} onStep={onStep} onClose={onClose} />;
    }
    if (view === "compare" && page.head.runs.length) return <Leaders />;
    return view === "compare" && page.head.base ? <Comparison base={page.head.base} reading={reading} /> : <Summary />;
  }, [page, view, row, state.trial, state.mode, beside, labels, view === "compare" ? reading.read : 0]);
  const searched = page.size ? reading.read / page.size : 1;
  const bar = useMemo(() => <FilterBar filters={filters} sort={sort} layout={state.layout} search={search} searched={searched} />, [page, filters, sort, state.layout, searched]);
  const table = state.layout === "table" && row === null && view === "cases";
  const pane = view === "metrics" || view === "trend" || view === "pairs" || table ? "wide" : row !== null || view === "summary" ? "right" : "left";
  return (
    <SharedContext.Provider value={shared}>
      <div class="app" data-pane={pane} data-view={view}>
        <TopBar state={state} progress={progress} />
        {table ? (
          <main>
            <section class="tabular" aria-label="Table of cases">
              {bar}
              <CaseTable rows={rows} excerpts={reading.excerpts} columns={state.columns} widths={state.widths} full={state.full} sort={sort} reversed={state.reversed}
                onClear={() => dispatch({ do: "clear" })} />
            </section>
          </main>
        ) : pane === "wide" ? (
          <main class="whole" tabIndex={-1}>
            {view === "metrics" ? <MetricsView /> : view === "trend" ? <TrendView />
              : <PairsView places={reading.pairs} complete={reading.read === page.size} labels={state.pairs} />}
          </main>
        ) : (
          <main>
            <section class="left" aria-label="List of cases">
              {bar}
              <CaseList rows={rows} found={found} row={row} marked={labelled} onClear={() => dispatch({ do: "clear" })} />
            </section>
            <section class="right" aria-label={row === null ? "Summary" : "Case"} tabIndex={0} key={row ?? view}>{right}</section>
          </main>
        )}
        <div class="toast" role="status">{message}</div>
        {state.help && <Help onClose={() => dispatch({ do: "set", change: { help: false } })} />}
      </div>
    </SharedContext.Provider>
  );
}

/** A message that goes by itself. */
function useMessage(): [string, (message: string) => void] {
  const [message, setMessage] = useState("");
  const timer = useRef(0);
  return [message, useCallback((text: string) => {
    clearTimeout(timer.current);
    setMessage(text);
    timer.current = window.setTimeout(() => setMessage(""), 4000);
  }, [])];
}

/** Keeps the address and what is open equal. */
function useAddress(page: Page, state: State, dispatch: Shared["dispatch"]): void {
  const { index } = page;
  useEffect(() => {
    const id = state.row === null ? null : index.id[state.row]!;
    const several = id !== null && index.id.indexOf(id) !== index.id.lastIndexOf(id);
    const hash = writePlace({ view: state.view, case: id, suite: several ? index.suite[state.row!]! : null });
    if (hash === (location.hash || "#")) return;
    try {
      history.replaceState(null, "", hash === "#" ? location.pathname + location.search : hash);
    } catch {
      // Browsers refuse many changes in a short time; a later one tells the address again.
    }
  }, [page, state.view, state.row]);
  useEffect(() => {
    const follow = (): void => {
      const where = readPlace(location.hash);
      dispatch({ do: "open", row: where.case === null ? null : page.rowOf(where.case, where.suite), view: where.view });
    };
    window.addEventListener("hashchange", follow);
    return () => window.removeEventListener("hashchange", follow);
  }, [page]);
}

/** The tags of rows with labels or notes. */
function labelledRows(page: Page, labels: State["labels"]): ReadonlyMap<number, string> {
  const rows = new Map<number, string>();
  if (!labels.size) return rows;
  const at = rowsByCase(page.head, page.index);
  for (const [key, said] of labels) {
    const row = at.get(JSON.stringify((JSON.parse(key) as string[]).slice(0, 2)));
    if (row !== undefined && rows.get(row) !== "labelled") rows.set(row, said.label ? "labelled" : "note");
  }
  return rows;
}
