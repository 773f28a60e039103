/** What the reader has chosen, and how an action changes it. */

import { createContext } from "preact";
import { useContext } from "preact/hooks";
import type { Filters, Sort } from "./choosing";
import { NO_FILTERS } from "./choosing";
import type { Label, Labels, Place } from "./labels";
import { marked } from "./labels";
import type { PairLabel, PairLabels } from "./pairs";
import type { Page } from "./page";
import type { View } from "./place";

export type Theme = "auto" | "light" | "dark";
/** How two texts are shown: beside each other, or as one text with what went and what came. */
export type Mode = "sides" | "inline";

/** How the cases are listed: a line for each beside the open case, or a table over the whole width. */
export type Layout = "list" | "table";

export interface State {
  view: View;
  layout: Layout;
  /** The case that is open. */
  row: number | null;
  trial: number;
  filters: Filters;
  /** Null as the view has it. */
  sort: Sort | null;
  /** Whether the order is the other way round. */
  reversed: boolean;
  /** The columns of the table by name; null as the page has them. */
  columns: readonly string[] | null;
  /** Pixels of the columns that the reader has widened. */
  widths: Readonly<Record<string, number>>;
  /** Whether the table has texts in full. */
  full: boolean;
  mode: Mode;
  /** What stands beside the answer: 0 nothing, 1 the base's, from 2 on those of the other runs; null as the view has it. */
  beside: number | null;
  theme: Theme;
  help: boolean;
  labelling: boolean;
  labels: Labels;
  /** What the reader says of two answers, by their content. */
  pairs: PairLabels;
  /** The reader's name, for the labels. */
  annotator: string;
}

export type Action =
  | { do: "open"; row: number | null; view?: View }
  | { do: "view"; view: View }
  | { do: "trial"; trial: number }
  | { do: "filter"; filters: Partial<Filters> }
  | { do: "clear" }
  | { do: "sort"; sort: Sort; reversed?: boolean }
  | { do: "set"; change: Partial<Pick<State, "layout" | "columns" | "widths" | "full" | "mode" | "beside" | "theme" | "help" | "labelling" | "labels" | "pairs" | "annotator">> }
  | { do: "label"; place: Place; said: { label: Label } | { comment: string } }
  | { do: "prefer"; key: string; said: PairLabel };

export function reduce(state: State, action: Action): State {
  switch (action.do) {
    case "open": {
      const view = action.view ?? (state.view === "compare" ? "compare" : "cases");
      return { ...state, view, row: action.row, trial: 0 };
    }
    case "view":
      return { ...state, view: action.view, row: action.view === "cases" ? state.row : null };
    case "trial":
      return { ...state, trial: action.trial };
    case "filter":
      return { ...state, filters: { ...state.filters, ...action.filters } };
    case "clear":
      return { ...state, filters: NO_FILTERS };
    case "sort":
      return { ...state, sort: action.sort, reversed: action.reversed ?? false };
    case "set":
      return { ...state, ...action.change };
    case "prefer": {
      const pairs = new Map(state.pairs);
      if (action.said.label === null && !action.said.comment.trim()) pairs.delete(action.key);
      else pairs.set(action.key, action.said);
      return { ...state, pairs };
    }
    case "label":
      return { ...state, labels: marked(state.labels, action.place, action.said) };
  }
}

/** What every part of the page may need; it stays the same while the reader chooses. */
export interface Shared { page: Page; dispatch: (action: Action) => void; say: (message: string) => void }

export const SharedContext = createContext<Shared | null>(null);

export function useShared(): Shared {
  const shared = useContext(SharedContext);
  if (!shared) throw new Error("there is no page");
  return shared;
}
