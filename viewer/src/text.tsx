/** Texts of a record: shown as they are, never as markup. */

import type { ComponentChildren, JSX } from "preact";
import { useState } from "preact/hooks";
import { count, visible } from "./format";

/** Characters that are drawn before a reader asks for the rest. */
const FIRST = 8_000;

/** A text of any length in a box; null and empty ones are said to be so. */
export function Text(props: { text: string | null; none?: string; label: string; class?: string; whole?: boolean }): JSX.Element {
  const [all, showAll] = useState(props.whole ?? false);
  const { text } = props;
  if (text === null || text === "") return <p class="none">{text === null ? (props.none ?? "(none)") : "(empty)"}</p>;
  const long = text.length > FIRST && !all;
  return (
    <div class={`text ${props.class ?? ""}`}>
      <pre dir="auto" tabIndex={0} role="group" aria-label={props.label}>{visible(long ? start(text) : text)}</pre>
      {long && (
        <button type="button" class="more" onClick={() => showAll(true)}>
          Show {count(text.length - FIRST)} more characters
        </button>
      )}
    </div>
  );
}

/** The first characters of a text, without half of a pair. */
function start(text: string): string {
  const code = text.charCodeAt(FIRST - 1);
  return text.slice(0, code >= 0xd800 && code < 0xdc00 ? FIRST - 1 : FIRST);
}

export function Section(props: { title: string; extra?: ComponentChildren; children: ComponentChildren }): JSX.Element {
  return (
    <section class="part">
      <h4>{props.title}{props.extra}</h4>
      {props.children}
    </section>
  );
}

/** A fold with the beginning of what is in it. */
export function Fold(props: {
  name: ComponentChildren; why: string; mark?: ComponentChildren; score?: string; children: ComponentChildren;
}): JSX.Element {
  return (
    <details class="item">
      <summary>
        {props.mark}
        <span class="name">{props.name}</span>
        <span class="why">{visible(props.why.replace(/\s+/g, " ").slice(0, 200))}</span>
        {props.score && <span class="score">{props.score}</span>}
      </summary>
      {props.children}
    </details>
  );
}

/** Buttons of which one is chosen: the content of each, whether it is chosen, and what chooses it. */
export function Switch(props: { label: string; of: [ComponentChildren, boolean, () => void][] }): JSX.Element {
  return (
    <span class="switch" role="group" aria-label={props.label}>
      {props.of.map(([content, chosen, choose]) => (
        <button type="button" aria-pressed={chosen} onClick={choose}>{content}</button>
      ))}
    </span>
  );
}

export function Problems(props: { said: string[] }): JSX.Element | null {
  return props.said.length ? <ul class="problems">{props.said.map((problem) => <li dir="auto">{visible(problem)}</li>)}</ul> : null;
}
