/** Where a reader is, as the part of the address behind `#`. */

export type View = "cases" | "summary" | "metrics" | "compare" | "trend" | "pairs";
export interface Where { view: View; case: string | null; suite: number | null }

const VIEWS: readonly View[] = ["cases", "summary", "metrics", "compare", "trend", "pairs"];

export function readPlace(hash: string): Where {
  const parts = new URLSearchParams(hash.replace(/^#/, ""));
  const view = VIEWS.find((name) => parts.has(name)) ?? "cases";
  const suite = parts.get("suite");
  return {
    view,
    case: parts.get("case"),
    suite: suite !== null && /^\d+$/.test(suite) ? Number(suite) : null,
  };
}

export function writePlace(where: Where): string {
  const parts: string[] = [];
  if (where.view !== "cases") parts.push(where.view);
  if (where.case !== null) parts.push(`case=${encodeURIComponent(where.case)}`);
  if (where.case !== null && where.suite !== null) parts.push(`suite=${where.suite}`);
  return `#${parts.join("&")}`;
}
