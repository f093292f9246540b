// Files as the reader gives them: the kind of each one, and the lines of large ones, read in slices.

import { concat, textOf } from './bytes.js';
import { unreadable } from './finding.js';

/** The largest file that is read whole, and the longest line of one that is not. */
export const MAX_BYTES = 64 << 20;
const START_BYTES = 64 << 10;
/** How long the page is busy before it may draw and answer, in milliseconds. */
const BUSY_MS = 12;

/** Lets the page draw and answer from time to time. */
export class Pauses {
  constructor() {
    this.since = performance.now();
    this.channel = new MessageChannel();
  }

  async take() {
    if (performance.now() - this.since < BUSY_MS) return false;
    await new Promise((resolve) => {
      this.channel.port1.onmessage = resolve;
      this.channel.port2.postMessage(null);
    });
    this.since = performance.now();
    return true;
  }

  end() {
    this.channel.port1.close();
  }
}

/** The lines of a file without their ends, each with how many bytes were read up to it. */
export async function* linesOf(file) {
  const reader = file.stream().getReader();
  let [parts, length, read] = [[], 0, 0];
  const line = () => {
    const bytes = parts.length === 1 ? parts[0] : concat(...parts);
    [parts, length] = [[], 0];
    try {
      return { text: textOf(bytes), read };
    } catch {
      return { text: null, read };
    }
  };
  for (;;) {
    const { done, value } = await reader.read();
    if (done) break;
    let from = 0;
    for (let end = value.indexOf(10); end >= 0; end = value.indexOf(10, from)) {
      parts.push(value.subarray(from, end));
      read += end + 1 - from;
      from = end + 1;
      yield line();
    }
    const rest = value.subarray(from);
    length += rest.length;
    if (length > MAX_BYTES) throw unreadable(`a line is longer than ${MAX_BYTES} bytes; no export has one`);
    read += rest.length;
    if (rest.length > 0) parts.push(rest);
  }
  if (parts.length > 0) yield line();
}

/** A file's bytes. */
export async function bytesOf(file) {
  if (file.size > MAX_BYTES) throw unreadable(`the file is larger than ${MAX_BYTES} bytes; only exports are read in slices`);
  return new Uint8Array(await file.arrayBuffer());
}

/** Where a file is in the folder that the reader chose; its name, if it was chosen by itself. */
export function pathOf(file) {
  return file.webkitRelativePath || file.name;
}

/** The kind of a file: in a folder with runs by its name, otherwise by its beginning. The checks say whether it is a good one. */
export async function kindOf(file) {
  if (!file.webkitRelativePath) return kindOfContent(file);
  if (/\/(states|objects)\//.test(file.webkitRelativePath)) return 'stored';
  // Any other file with a run may be an agent's: no key in it is the reader's own.
  return { 'RECEIPT.json': 'receipt', 'RECEIPT.dsse.json': 'envelope' }[file.name] ?? 'other';
}

async function kindOfContent(file) {
  const start = new TextDecoder().decode(await file.slice(0, START_BYTES).arrayBuffer());
  const [first] = start.split('\n', 1);
  if (/^\s*\{.*"format"\s*:\s*"crealeph-ledger-export/.test(first)) return 'export';
  if (/^[^\s+]+\+[0-9a-f]{8}\+[A-Za-z0-9+/]+=*\s*$/.test(start)) return 'key';
  if (/^SHA256:[A-Za-z0-9+/]{43}\s*$/.test(start)) return 'root';
  if (!start.startsWith('{') && /\n\n\u2014 /.test(start)) return 'checkpoint';
  if (/^\{"(payload|payloadType|signatures)":/.test(start)) return file.name === 'CLEANED.dsse.json' ? 'other' : 'envelope';
  if (/(^|\/)RECEIPT\.json$/.test(file.name) || /^\{"[a-z_]+":.*"receipt_hash":"/.test(first)) return 'receipt';
  const end = new TextDecoder().decode(await file.slice(-START_BYTES).arrayBuffer());
  if (start.startsWith('{') && /"format"\s*:\s*"crealeph-proof-/.test(start + end)) return 'proof';
  return 'other';
}
