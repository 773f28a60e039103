/** Reads all cases while the reader's browser is idle: for the search in answers, and for paper. */

import { useEffect, useRef, useState } from "preact/hooks";
import type { Detail } from "./data";
import type { Excerpt } from "./excerpts";
import { excerptOf } from "./excerpts";
import type { Page } from "./page";
import type { PairPlace } from "./pairs";
import { pairsOf } from "./pairs";
import { baseMeans } from "./paired";
import { Texts } from "./texts";

/** Cases that are printed in full. */
const MOST_PRINTED = 200;

export interface Reading {
  texts: Texts;
  /** By row; those of cases that have been read. */
  excerpts: (Excerpt | undefined)[];
  /** By row: the base's scores by metric. */
  before: (ReadonlyMap<string, number> | null | undefined)[];
  /** Cases that have been read. */
  read: number;
  /** The answers that differ from the base's. */
  pairs: PairPlace[];
  printed: Map<number, Detail>;
  problems: number;
}

const isProblem = (outcome: string): boolean => outcome === "failed" || outcome === "error";

const idle = (): Promise<void> =>
  new Promise((resolve) => {
    if ("requestIdleCallback" in window) requestIdleCallback(() => resolve(), { timeout: 200 });
    else setTimeout(resolve, 0);
  });

export function useReading(page: Page): Reading {
  const kept = useRef<{ page: Page; reading: Reading } | undefined>(undefined);
  if (kept.current?.page !== page) {
    const problems = page.index.outcome.filter(isProblem).length;
    kept.current = { page, reading: { texts: new Texts(page.index), excerpts: [], before: [], read: 0, pairs: [], printed: new Map(), problems } };
  }
  const [, redraw] = useState(0);
  useEffect(() => {
    const { reading } = kept.current!;
    let current = true;
    const readAll = async (): Promise<void> => {
      await idle();
      let drawn = 0;
      for await (const { first, details } of page.all()) {
        if (!current) return;
        details.forEach((detail, at) => {
          const row = first + at;
          reading.texts.add(row, detail);
          reading.excerpts[row] = excerptOf(detail);
          reading.before[row] = baseMeans(detail);
          for (const { trial, key, order } of pairsOf(page.head, page.index, row, detail)) reading.pairs.push({ row, trial, key, order });
          if (isProblem(page.index.outcome[row]!) && reading.printed.size < MOST_PRINTED) reading.printed.set(row, detail);
        });
        reading.read = first + details.length;
        if (reading.read - drawn >= 1000) {
          drawn = reading.read;
          redraw(drawn);
        }
        await idle();
      }
      reading.read = page.size;
      redraw(page.size);
    };
    void readAll();
    return () => { current = false; };
  }, [page]);
  return kept.current.reading;
}
