/** Search, filters and order of the list. */

import type { JSX, RefObject } from "preact";
import { useMemo } from "preact/hooks";
import type { Filters, Sort } from "./choosing";
import { filtered } from "./choosing";
import type { Index } from "./columns";
import type { Outcome } from "./data";
import { CHANGES, OUTCOMES, count, letterWord, number, outcomeWord, percent, visible } from "./format";
import { Icon, IconButton, Mark } from "./icons";
import type { Layout } from "./state";
import { useShared } from "./state";

/** How often each value stands in a column, most frequent first. */
function tally<T>(column: Iterable<T>): [T, number][] {
  const counts = new Map<T, number>();
  for (const value of column) counts.set(value, (counts.get(value) ?? 0) + 1);
  return [...counts].sort((one, other) => other[1] - one[1]);
}

export function FilterBar(props: { filters: Filters; sort: Sort; layout: Layout; searched: number; search: RefObject<HTMLInputElement | null> }): JSX.Element {
  const { page, dispatch } = useShared();
  const { filters } = props;
  const filter = (change: Partial<Filters>): void => dispatch({ do: "filter", filters: change });
  return (
    <div class="filters" role="search">
      <label class="search">
        <Icon name="search" />
        <input
          ref={props.search}
          type="search"
          placeholder="Search cases, answers, reasons"
          aria-label="Search"
          spellcheck={false}
          value={filters.query}
          onInput={(event) => filter({ query: event.currentTarget.value })}
        />
        <kbd aria-hidden="true">/</kbd>
      </label>
      {props.searched < 1 && filters.query.trim() !== "" && (
        <p class="soft" role="status">Reading answers: {percent(props.searched)}</p>
      )}
      <OutcomeChips chosen={filters.outcomes} index={page.index} onChoose={(outcomes) => filter({ outcomes })} />
      <div class="selects">
        <MetricSelect filters={filters} onChoose={(metric) => filter({ metric })} />
        <ColumnSelects filters={filters} filter={filter} />
        <SortSelect sort={props.sort} />
        <IconButton name="table" label="Table, or list (g)" pressed={props.layout === "table"}
          onClick={() => dispatch({ do: "set", change: { layout: props.layout === "table" ? "list" : "table" } })} />
        {filtered(filters) && <IconButton name="close" label="Clear all filters" onClick={() => dispatch({ do: "clear" })} />}
      </div>
      {filters.range && (
        <button type="button" class="chip on" onClick={() => filter({ range: null })} aria-label="Remove the range">
          {visible(filters.range.name)} {number(filters.range.low)} to {number(filters.range.high)} ✕
        </button>
      )}
    </div>
  );
}

function OutcomeChips(props: { chosen: readonly Outcome[]; index: Index; onChoose: (outcomes: Outcome[]) => void }): JSX.Element {
  const counts = useMemo(() => new Map(tally(props.index.outcome)), [props.index]);
  return (
    <div class="chips" role="group" aria-label="Outcomes">
      {OUTCOMES.filter((outcome) => counts.has(outcome)).map((outcome) => {
        const on = props.chosen.includes(outcome);
        return (
          <button
            type="button"
            class={on ? "chip on" : "chip"}
            aria-pressed={on}
            data-outcome={outcome}
            onClick={() => props.onChoose(on ? props.chosen.filter((one) => one !== outcome) : [...props.chosen, outcome])}
          >
            <Mark outcome={outcome} /> {outcomeWord(outcome)} <b>{count(counts.get(outcome)!)}</b>
          </button>
        );
      })}
    </div>
  );
}

function MetricSelect(props: { filters: Filters; onChoose: (metric: Filters["metric"]) => void }): JSX.Element | null {
  const { page } = useShared();
  const { metrics, suites } = page.head;
  const groups = useMemo(
    () => metrics.map((one, column) => ({
      name: visible(suites.length > 1 ? `${suites[one.suite]?.name}: ${one.name}` : one.name),
      letters: tally(page.index.metric_outcomes.map((text) => text[column] ?? "-")).filter(([letter]) => letter !== "-"),
    })),
    [page],
  );
  if (!metrics.length) return null;
  const { metric } = props.filters;
  return (
    <select
      aria-label="Metric"
      class={metric ? "on" : ""}
      value={metric ? `${metric.column} ${metric.letter}` : ""}
      onChange={(event) => {
        const [column, letter] = event.currentTarget.value.split(" ");
        props.onChoose(letter ? { column: Number(column), letter } : null);
      }}
    >
      <option value="">Any metric</option>
      {groups.map(({ name, letters }, column) => (
        <optgroup label={name}>
          {letters.map(([letter, amount]) => (
            <option value={`${column} ${letter}`}>{`${name} ${letterWord(letter)} (${count(amount)})`}</option>
          ))}
        </optgroup>
      ))}
    </select>
  );
}

function ColumnSelects(props: { filters: Filters; filter: (change: Partial<Filters>) => void }): JSX.Element {
  const { page } = useShared();
  const { index, head } = page;
  const { filters, filter } = props;
  const { tags, changes, flaky } = useMemo(
    () => ({ tags: tally(index.tags.flat()), changes: new Map(tally(index.change)), flaky: index.flaky.filter(Boolean).length }),
    [index],
  );
  return (
    <>
      {changes.size > (changes.has(null) ? 1 : 0) && (
        <select aria-label="Change" class={filters.change ? "on" : ""} value={filters.change ?? ""}
          onChange={(event) => filter({ change: (event.currentTarget.value || null) as Filters["change"] })}>
          <option value="">Any change</option>
          {CHANGES.filter((change) => changes.has(change)).map((change) => (
            <option value={change}>{`${change} (${count(changes.get(change)!)})`}</option>
          ))}
        </select>
      )}
      {tags.length > 0 && (
        <select aria-label="Tag" class={filters.tag !== null ? "on" : ""} value={filters.tag === null ? "" : `=${filters.tag}`}
          onChange={(event) => filter({ tag: event.currentTarget.value ? event.currentTarget.value.slice(1) : null })}>
          <option value="">Any tag</option>
          {tags.map(([tag, amount]) => <option value={`=${tag}`}>{`${visible(tag)} (${count(amount)})`}</option>)}
        </select>
      )}
      {head.suites.length > 1 && (
        <select aria-label="Suite" class={filters.suite !== null ? "on" : ""} value={filters.suite === null ? "" : String(filters.suite)}
          onChange={(event) => filter({ suite: event.currentTarget.value === "" ? null : Number(event.currentTarget.value) })}>
          <option value="">All suites</option>
          {head.suites.map((suite, at) => <option value={String(at)}>{visible(suite.name)}</option>)}
        </select>
      )}
      {flaky > 0 && (
        <button type="button" class={filters.flaky ? "chip on" : "chip"} aria-pressed={filters.flaky}
          onClick={() => filter({ flaky: !filters.flaky })}>flaky <b>{count(flaky)}</b></button>
      )}
    </>
  );
}

function SortSelect(props: { sort: Sort }): JSX.Element {
  const { page, dispatch } = useShared();
  const { head, index } = page;
  const known = (column: (number | null)[]): boolean => column.some((value) => value !== null);
  return (
    <select aria-label="Order" value={props.sort} onChange={(event) => dispatch({ do: "sort", sort: event.currentTarget.value as Sort })}>
      <option value="problems">Problems first</option>
      {head.base && <option value="changes">Changes first</option>}
      {head.runs.length > 0 && <option value="differences">Differences first</option>}
      {head.runs.map((run, at) => <option value={`run ${at}`}>{`Problems of ${visible(run.name)} first`}</option>)}
      <option value="record">As in the suite</option>
      <option value="title">By name</option>
      {known(index.latency_ms) && <option value="latency_ms">Slowest first</option>}
      {known(index.cost_usd) && <option value="cost_usd">Most expensive first</option>}
      {known(index.tokens) && <option value="tokens">Most tokens first</option>}
      {head.metrics.map((metric, column) => <option value={String(column)}>{`Worst ${visible(metric.name)} first`}</option>)}
    </select>
  );
}
