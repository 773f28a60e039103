/** Small drawings; their meaning always stands beside them, or in their label. */

import type { JSX } from "preact";
import { outcomeWord, tone } from "./format";

const MARKS: Record<string, string> = {
  passed: "M4.5 8.3l2.4 2.4 4.6-5",
  failed: "M5.2 5.2l5.6 5.6M10.8 5.2l-5.6 5.6",
  error: "M8 4.2v4.6M8 11.3v.4",
  skipped: "M4.8 8h6.4",
  informational: "M8 7.3v4M8 4.6v.4",
  quarantined: "M6.4 5v6M9.6 5v6",
  pending: "M8 4.6V8l2.3 1.6",
};

export function Mark(props: { outcome: string; label?: boolean }): JSX.Element {
  const said = props.label ? { role: "img" as const, "aria-label": outcomeWord(props.outcome) } : { "aria-hidden": true as const };
  return (
    <svg class={`mark ${tone(props.outcome)}`} viewBox="0 0 16 16" width="16" height="16" {...said}>
      <circle cx="8" cy="8" r="7.2" />
      <path d={MARKS[props.outcome] ?? MARKS["error"]} />
    </svg>
  );
}

export function Badge(props: { outcome: string }): JSX.Element {
  return (
    <span class={`badge ${tone(props.outcome)}`}>
      <Mark outcome={props.outcome} />
      {outcomeWord(props.outcome)}
    </span>
  );
}

const ICONS = {
  search: "M7 12.2A5.2 5.2 0 1 0 7 1.8a5.2 5.2 0 0 0 0 10.4zM10.8 10.8L14.5 14.5",
  auto: "M8 1.5a6.5 6.5 0 1 0 0 13zM8 1.5a6.5 6.5 0 0 1 0 13",
  light: "M8 11.2a3.2 3.2 0 1 0 0-6.4 3.2 3.2 0 0 0 0 6.4zM8 1v1.6M8 13.4V15M1 8h1.6M13.4 8H15M3 3l1.2 1.2M11.8 11.8L13 13M3 13l1.2-1.2M11.8 4.2L13 3",
  dark: "M13.8 9.6A6.2 6.2 0 0 1 6.4 2.2a6.2 6.2 0 1 0 7.4 7.4z",
  label: "M2 8.2V2h6.2l5.8 5.8-6.2 6.2zM5 5v.1",
  help: "M6 6a2 2 0 1 1 2.6 1.9c-.4.2-.6.5-.6 1v.5M8 11.7v.1",
  print: "M4 6V1.8h8V6M4 11.5H2V6h12v5.5h-2M4 9.5h8v4.7H4z",
  copy: "M5.5 5.5V2h8.5v8.5h-3.5M2 5.5h8.5V14H2z",
  link: "M6.8 9.2a2.6 2.6 0 0 0 3.7 0l2.7-2.7a2.6 2.6 0 1 0-3.7-3.7l-.9.9M9.2 6.8a2.6 2.6 0 0 0-3.7 0L2.8 9.5a2.6 2.6 0 1 0 3.7 3.7l.9-.9",
  back: "M9.8 3L4.8 8l5 5",
  up: "M3 10l5-5 5 5",
  down: "M3 6l5 5 5-5",
  close: "M3.5 3.5l9 9M12.5 3.5l-9 9",
  table: "M1.8 2.5h12.4v11H1.8zM1.8 6.2h12.4M1.8 9.9h12.4M6 2.5v11",
  open: "M1.8 13V3h4.4l1.6 2h6.4v8z",
  save: "M8 1.8v8M4.6 6.6L8 10l3.4-3.4M2 12v2h12v-2",
} as const;

export type IconName = keyof typeof ICONS;

export function Icon(props: { name: IconName }): JSX.Element {
  return (
    <svg class="icon" viewBox="0 0 16 16" width="16" height="16" aria-hidden="true">
      <path d={ICONS[props.name]} />
    </svg>
  );
}

export function IconButton(props: {
  name: IconName; label: string; onClick: () => void; pressed?: boolean; text?: string | undefined; class?: string;
}): JSX.Element {
  return (
    <button
      type="button"
      class={`tool ${props.class ?? ""}`}
      title={props.label}
      aria-label={props.text ? undefined : props.label}
      aria-pressed={props.pressed}
      onClick={props.onClick}
    >
      <Icon name={props.name} />
      {props.text && <span>{props.text}</span>}
    </button>
  );
}
