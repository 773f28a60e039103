/** Two texts and where they differ. */

import type { JSX } from "preact";
import { useMemo } from "preact/hooks";
import type { Piece, Row } from "./difference";
import { compareTexts } from "./difference";
import { visible } from "./format";
import type { Mode } from "./state";
import { useShared } from "./state";
import { Switch, Text } from "./text";

/** Longer texts are shown beside each other without marks. */
const LONGEST = 40_000;

export function Compared(props: {
  left: string | null; right: string | null; leftName: string; rightName: string; mode: Mode; code?: boolean;
}): JSX.Element {
  const { left, right, leftName, rightName, mode } = props;
  const rows = useMemo(() => {
    if (left === null || right === null || left.length + right.length > LONGEST) return null;
    return compareTexts(visible(left), visible(right));
  }, [left, right]);
  const font = props.code ? "code" : "said";
  if (left !== null && left === right) {
    return (
      <>
        <p class="none">{leftName} and {rightName.toLowerCase()} are equal.</p>
        <Text text={right} label={rightName} class={font} />
      </>
    );
  }
  if (rows === null) {
    return (
      <div class="pair">
        <div><h5>{leftName}</h5><Text text={left} label={leftName} class={font} /></div>
        <div><h5>{rightName}</h5><Text text={right} label={rightName} class={font} /></div>
      </div>
    );
  }
  return (
    <div class={font}>
      {mode === "inline" ? (
        <>
          <h5><del>{leftName}</del> <ins>{rightName}</ins></h5>
          <pre class="diff" dir="auto" tabIndex={0} role="group" aria-label={`${leftName} and ${rightName}`}>
            {rows.map((row) => <Inline row={row} />)}
          </pre>
        </>
      ) : (
        <div class="sides" tabIndex={0} role="group" aria-label={`${leftName} beside ${rightName}`}>
          <h5>{leftName}</h5>
          <h5>{rightName}</h5>
          {rows.map((row) => <Sides row={row} />)}
        </div>
      )}
    </div>
  );
}

/** Says how differences are shown, and changes it. */
export function ModeSwitch(props: { mode: Mode }): JSX.Element {
  const { dispatch } = useShared();
  const choice = (mode: Mode, name: string): [string, boolean, () => void] =>
    [name, props.mode === mode, () => dispatch({ do: "set", change: { mode } })];
  return <Switch label="How differences are shown" of={[choice("sides", "Side by side"), choice("inline", "Inline")]} />;
}

function Sides(props: { row: Row }): JSX.Element {
  const { row } = props;
  const side = (text: string | null, kind: "gone" | "came"): JSX.Element => (
    <pre dir="auto" class={text === null ? "absent" : row.kind}>
      {row.kind === "words" ? row.pieces.filter((piece) => piece.kind !== (kind === "gone" ? "came" : "gone")).map(mark) : text}
    </pre>
  );
  return <>{side(row.left, "gone")}{side(row.right, "came")}</>;
}

function Inline(props: { row: Row }): JSX.Element {
  const { row } = props;
  if (row.kind === "same") return <>{row.left}</>;
  if (row.kind === "words") return <>{row.pieces.map(mark)}</>;
  return <>{row.left !== null && <del>{ended(row.left)}</del>}{row.right !== null && <ins>{ended(row.right)}</ins>}</>;
}

const ended = (text: string): string => (text.endsWith("\n") ? text : `${text}\n`);

function mark(piece: Piece): JSX.Element {
  if (piece.kind === "gone") return <del>{piece.text}</del>;
  if (piece.kind === "came") return <ins>{piece.text}</ins>;
  return <>{piece.text}</>;
}
