/** What the keys do; KEYS in help.tsx says it to the reader. */

import type { RefObject } from "preact";
import type { Head } from "./data";
import { viewsOf } from "./top";
import type { Action, State } from "./state";

export interface Keyboard {
  state: State;
  head: Head;
  dispatch: (action: Action) => void;
  step: (by: number) => void;
  copyCommand: () => void;
  search: RefObject<HTMLInputElement | null>;
}

/** Answers a key; says whether it did. */
export function onKey(event: KeyboardEvent, keyboard: Keyboard): boolean {
  const { state, dispatch, step, search } = keyboard;
  if (event.ctrlKey || event.metaKey || event.altKey || state.help) return false;
  const target = event.target as HTMLElement;
  if (target.matches("input, select, textarea")) {
    if (event.key !== "Escape") return false;
    target.blur();
    return true;
  }
  if (state.view === "pairs" && "atbsjk".includes(event.key)) {
    document.querySelector<HTMLButtonElement>(`.blind button[data-key="${event.key}"]`)?.click();
    return true;
  }
  const inList = target.matches(".list");
  switch (event.key) {
    case "ArrowDown": if (!inList) return false; step(1); return true;
    case "ArrowUp": if (!inList) return false; step(-1); return true;
    case "Home": if (!inList) return false; step(-Infinity); return true;
    case "End": if (!inList) return false; step(Infinity); return true;
    case "Enter":
      if (!inList) return false;
      if (state.row === null) step(1);
      document.querySelector<HTMLElement>(".right")?.focus();
      return true;
    case "j": step(1); return true;
    case "k": step(-1); return true;
    case "/": search.current?.focus(); search.current?.select(); return true;
    case "Escape": dispatch({ do: "open", row: null }); return true;
    case "f":
      dispatch({ do: "filter", filters: { outcomes: state.filters.outcomes.length ? [] : ["failed"] } });
      return true;
    case "g": dispatch({ do: "set", change: { layout: state.layout === "table" ? "list" : "table" } }); return true;
    case "d": dispatch({ do: "set", change: { mode: state.mode === "sides" ? "inline" : "sides" } }); return true;
    case "b": next("Runs"); return true;
    case "t": next("Trial"); return true;
    case "c": keyboard.copyCommand(); return true;
    case "l": dispatch({ do: "set", change: { labelling: !state.labelling } }); return true;
    case "r": label("pass"); return true;
    case "w": label("fail"); return true;
    case "?": dispatch({ do: "set", change: { help: true } }); return true;
  }
  const view = viewsOf(keyboard.head)[Number(event.key) - 1];
  if (!view) return false;
  dispatch({ do: "view", view: view[0] });
  return true;
}

/** Chooses what follows in a group of the open case, in turn. */
function next(group: string): void {
  const buttons = [...document.querySelectorAll<HTMLButtonElement>(`.case [aria-label="${group}"] button`)];
  const at = buttons.findIndex((button) => button.ariaPressed === "true");
  buttons[(at + 1) % buttons.length]?.click();
}

/** Labels the turn that has the focus, else the first one without a label. */
function label(value: "pass" | "fail"): void {
  const turns = [...document.querySelectorAll<HTMLElement>(".turn")].filter((turn) => turn.querySelector(".ask"));
  const turn =
    turns.find((one) => one.contains(document.activeElement)) ??
    turns.find((one) => !one.querySelector('.ask [aria-pressed="true"]')) ??
    turns[0];
  turn?.querySelector<HTMLButtonElement>(`.ask button.${value}`)?.click();
}
