/** A page that is served while its run goes on fetches itself again when there is more. */

import { useEffect, useState } from "preact/hooks";
import { Page } from "./page";

export interface Progress { version: number | string; done: number; planned: number; running: boolean }

const EVERY_MS = 2000;

/** How far the run is; null when the page is not live. Gives the page anew when its data changed. */
export function useProgress(page: Page, onPage: (page: Page) => void): Progress | null {
  const [progress, setProgress] = useState<Progress | null>(null);
  const address = page.head.live;
  useEffect(() => {
    if (address === null) return undefined;
    let seen: string | null = null;
    let timer = 0;
    let ended = false;
    const ask = async (): Promise<void> => {
      let running = true;
      try {
        const answer = await fetch(address, { cache: "no-store" });
        const told = (await answer.json()) as Progress;
        const version = String(told.version);
        if (ended) return;
        setProgress(told);
        running = told.running;
        // What is not finished may have grown since the page was made.
        const changed = seen === null ? told.running || page.head.outcome === "pending" : version !== seen;
        if (changed) onPage(await fetchPage());
        seen = version;
      } catch {
        // The server may be gone, or return.
      }
      if (running && !ended) timer = window.setTimeout(() => void ask(), EVERY_MS);
    };
    void ask();
    return () => {
      ended = true;
      clearTimeout(timer);
    };
  }, [address]);
  return progress;
}

async function fetchPage(): Promise<Page> {
  const answer = await fetch(location.pathname, { cache: "no-store" });
  // No script of a parsed document runs.
  return Page.open(new DOMParser().parseFromString(await answer.text(), "text/html"));
}
