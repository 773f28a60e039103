/** Two texts, cut into rows that correspond. */

import { diffLines, diffWordsWithSpace } from "diff";

export interface Piece { text: string; kind: "same" | "gone" | "came" }
/** Lines of both texts; pieces when a few words differ, else the texts of both sides, null on the side without one. */
export interface Row { kind: "same" | "words" | "lines"; left: string | null; right: string | null; pieces: Piece[] }

/** Beyond this time a difference is not worth its wait. */
const LONGEST_MS = 250;
/** Share of equal characters from which single words are marked: below it the marks are only noise. */
const ALIKE = 0.35;

/** The rows of two texts; null when they are too long and too different to be compared. */
export function compareTexts(left: string, right: string): Row[] | null {
  const changes = diffLines(left, right, { timeout: LONGEST_MS });
  if (!changes) return null;
  const rows: Row[] = [];
  for (let at = 0; at < changes.length; at++) {
    const change = changes[at]!;
    const next = changes[at + 1];
    if (change.removed && next?.added) {
      rows.push(pair(change.value, next.value));
      at++;
    } else if (change.removed) rows.push({ kind: "lines", left: change.value, right: null, pieces: [] });
    else if (change.added) rows.push({ kind: "lines", left: null, right: change.value, pieces: [] });
    else rows.push({ kind: "same", left: change.value, right: change.value, pieces: [] });
  }
  return rows;
}

function pair(left: string, right: string): Row {
  const words = diffWordsWithSpace(left, right, { timeout: LONGEST_MS }) ?? [];
  const pieces = words.map((word): Piece => ({
    text: word.value,
    kind: word.added ? "came" : word.removed ? "gone" : "same",
  }));
  const equal = pieces.reduce((sum, piece) => sum + (piece.kind === "same" ? piece.text.trim().length : 0), 0);
  const alike = (2 * equal) / Math.max(1, left.trim().length + right.trim().length) >= ALIKE;
  return alike ? { kind: "words", left, right, pieces } : { kind: "lines", left, right, pieces: [] };
}
