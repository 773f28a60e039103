/** Reads the data out of the page's inert script elements. */

import type { Index, Metric } from "./columns";
import { joined, metricsOf } from "./columns";
import type { Block, Detail, Head } from "./data";

/** Chunks that stay unpacked, so that walking through cases does not unpack each of them again. */
const KEPT_CHUNKS = 12;

interface Chunk { first: number; count: number; content: string }

async function unpack<T>(content: string): Promise<T> {
  const binary = atob(content.trim());
  const bytes = new Uint8Array(binary.length);
  for (let at = 0; at < binary.length; at++) bytes[at] = binary.charCodeAt(at);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return (await new Response(stream).json()) as T;
}

export class Page {
  private readonly unpacked = new Map<Chunk, Promise<Detail[]>>();

  private constructor(
    readonly head: Head,
    readonly metrics: Metric[],
    readonly index: Index,
    readonly chunks: readonly Chunk[],
  ) {}

  /** Reads HEAD and INDEX; the details of cases are unpacked when they are asked for. */
  static async open(from: Document): Promise<Page> {
    const text = (id: string): string => {
      const element = from.getElementById(id);
      if (!element) throw new Error(`the page holds no element ${id}`);
      return element.textContent ?? "";
    };
    const head = JSON.parse(text("head")) as Head;
    const index = joined(await unpack<Block[]>(text("index")), head.metrics.length);
    const chunks = Array.from(from.querySelectorAll<HTMLElement>("script.chunk"), (element) => ({
      first: Number(element.dataset["first"]),
      count: Number(element.dataset["count"]),
      content: element.textContent ?? "",
    }));
    return new Page(head, metricsOf(head, index), index, chunks);
  }

  get size(): number {
    return this.index.id.length;
  }

  /** The details of a case; null when the page leaves them out. */
  async detail(row: number): Promise<Detail | null> {
    let low = 0;
    let high = this.chunks.length - 1;
    while (low <= high) {
      const middle = (low + high) >> 1;
      const chunk = this.chunks[middle]!;
      if (row < chunk.first) high = middle - 1;
      else if (row >= chunk.first + chunk.count) low = middle + 1;
      else return (await this.details(chunk))[row - chunk.first] ?? null;
    }
    return null;
  }

  private details(chunk: Chunk): Promise<Detail[]> {
    const found = this.unpacked.get(chunk) ?? unpack<Detail[]>(chunk.content);
    this.unpacked.delete(chunk);
    this.unpacked.set(chunk, found);
    for (const oldest of this.unpacked.keys()) {
      if (this.unpacked.size <= KEPT_CHUNKS) break;
      this.unpacked.delete(oldest);
    }
    return found;
  }

  /** All details in order, chunk by chunk, without keeping them. */
  async *all(): AsyncGenerator<{ first: number; details: Detail[] }> {
    for (const chunk of this.chunks) {
      yield { first: chunk.first, details: await (this.unpacked.get(chunk) ?? unpack<Detail[]>(chunk.content)) };
    }
  }

  /** The row of a case by its id, and by its suite when several have the id; null when there is none. */
  rowOf(id: string, suite: number | null): number | null {
    for (let row = 0; row < this.size; row++) {
      if (this.index.id[row] === id && (suite === null || this.index.suite[row] === suite)) return row;
    }
    return null;
  }
}
