/** The list of cases; only the rows in sight are drawn. */

import type { JSX } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { ChangeTag } from "./case";
import type { Chosen } from "./choosing";
import type { Index } from "./columns";
import { count, visible } from "./format";
import { Mark } from "./icons";
import { useShared } from "./state";
import type { Field } from "./texts";

/** Pixels; the style sheet has the same height. */
const ROW = 54;
const BEYOND = 6;
/** Characters of a line: more have no room. */
const LONGEST = 300;
/** The fields of a search, for a tag. */
const FIELD: Record<Field, string> = {
  title: "title", id: "id", tag: "tag", reason: "reason", texts: "question or answer", place: "file and line", several: "several fields",
};

export function CaseList(props: { rows: readonly number[]; found: Chosen["found"]; row: number | null; marked: ReadonlyMap<number, string>; onClear: () => void }): JSX.Element {
  const { page, dispatch } = useShared();
  const box = useRef<HTMLDivElement>(null);
  const [scroll, setScroll] = useState({ top: 0, height: 900 });
  const at = props.row === null ? -1 : props.rows.indexOf(props.row);

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
  // The open case stays in sight, whatever opened it.
  useLayoutEffect(() => {
    const element = box.current!;
    if (at < 0) return;
    if (at * ROW < element.scrollTop) element.scrollTop = at * ROW;
    else if ((at + 1) * ROW > element.scrollTop + element.clientHeight) element.scrollTop = (at + 1) * ROW - element.clientHeight;
  }, [at, props.rows]);

  const first = Math.max(0, Math.floor(scroll.top / ROW) - BEYOND);
  const end = Math.min(props.rows.length, Math.ceil((scroll.top + scroll.height) / ROW) + BEYOND);
  const drawn: number[] = [];
  for (let position = first; position < end; position++) drawn.push(position);
  return (
    <>
      <div
        class="list"
        ref={box}
        role="listbox"
        aria-label="Cases"
        tabIndex={0}
        aria-activedescendant={at >= first && at < end ? `option-${props.row}` : undefined}
      >
        <div class="space" role="presentation" style={{ height: `${props.rows.length * ROW}px` }}>
          {drawn.map((position) => {
            const row = props.rows[position]!;
            return (
              <Option
                key={row}
                index={page.index}
                row={row}
                position={position}
                size={props.rows.length}
                open={row === props.row}
                marked={props.marked.get(row)}
                field={props.found.get(row)}
                onOpen={() => dispatch({ do: "open", row })}
              />
            );
          })}
        </div>
        {!props.rows.length && <div class="none empty" role="option" aria-selected={false}>No case fits.</div>}
      </div>
      <p class="under soft" role="status" data-shown={props.rows.length}>
        {count(props.rows.length)} of {count(page.size)}{page.size === 1 ? " case" : " cases"}
        {props.rows.length < page.size && <button type="button" class="plain" onClick={props.onClear}>Show all</button>}
      </p>
    </>
  );
}

function Option(props: {
  index: Index; row: number; position: number; size: number; open: boolean; marked: string | undefined; field: Field | undefined; onOpen: () => void;
}): JSX.Element {
  const { index, row } = props;
  const change = index.change[row];
  return (
    <div
      class="option"
      id={`option-${row}`}
      role="option"
      aria-selected={props.open}
      aria-posinset={props.position + 1}
      aria-setsize={props.size}
      style={{ transform: `translateY(${props.position * ROW}px)` }}
      onClick={props.onOpen}
    >
      <Mark outcome={index.outcome[row]!} label />
      <span class="title" dir="auto">{visible(index.title[row]!.slice(0, LONGEST))}</span>
      <span class="side">
        {props.field && props.field !== "title" && <span class="tag found">in {FIELD[props.field]}</span>}
        {props.marked && <span class="tag">{props.marked}</span>}
        {index.flaky[row] && <span class="tag">flaky</span>}
        {change && change !== "same" && <ChangeTag change={change} />}
      </span>
      <span class="soft second" dir="auto">{visible((index.reason[row] || index.place[row]!).slice(0, LONGEST))}</span>
    </div>
  );
}
