// Answers questions with the second verifier, the one in JavaScript: one line of JSON in, one out.

import { createInterface } from 'node:readline';

import { ApprovalLog } from '../../page/approvals.js';
import { blake3 } from '../../page/blake3.js';
import { fromBase64, hex, textOf, utf8 } from '../../page/bytes.js';
import { ReceiptChain } from '../../page/chain.js';
import { ExportVerifier } from '../../page/export.js';
import { Finding } from '../../page/finding.js';
import { canonical, JsonFault, parseJson } from '../../page/json.js';
import { parseKey } from '../../page/note.js';
import { verifyProof } from '../../page/proof.js';
import { verifyReceipt } from '../../page/receipt.js';
import { sha256 } from '../../page/sha256.js';
import { isWeakEd25519 } from '../../page/signature.js';
import { parsePersonKey, verifySshSignature } from '../../page/ssh.js';
import { Tree, verifyConsistency, verifyInclusion } from '../../page/tree.js';

const bytesOf = (digits) => Uint8Array.from(digits.match(/../g) ?? [], (pair) => Number.parseInt(pair, 16));
const keysOf = (texts) => texts.map(parseKey);

const ANSWERS = {
  async export({ lines, keys, kept, lenient }) {
    const known = keysOf(keys);
    const verifier = new ExportVerifier(known, lenient ? { isLenient: true } : {});
    for (const note of kept) await verifier.keep(note);
    for (const line of lines) await verifier.line(line);
    const found = verifier.finish();
    return (
      `ok, ${found.entries} entries of ${found.tenant} in ${found.origin}; ${found.signedEntries} signed by ${found.checkpoints} checkpoints, ` +
      `${found.unknownCheckpoints} unknown, ${found.legacyEntries} legacy; root ${hex(found.root)}`
    );
  },

  async proof({ file, keys }) {
    const proven = await verifyProof(file, keysOf(keys));
    return `ok, ${proven.id} is entry ${proven.seq} of ${proven.checkpoint.size}`;
  },

  async receipt({ receipt, envelope, keys, unproven }) {
    const verified = await verifyReceipt(utf8(receipt), utf8(envelope), keysOf(keys), unproven);
    return `ok, signed ${verified.knownSigners.join(' ')}, others ${verified.otherSigners.join(' ')}`;
  },

  async chain({ workspace, receipts, keys, own, kept }) {
    const chain = new ReceiptChain(workspace, keysOf(keys));
    for (const { path, folder, receipt, envelope } of receipts) await chain.add(path, folder, utf8(receipt), utf8(envelope));
    const ordered = chain.ordered([own, ...kept]);
    return `receipt ${ordered.indexOf(own) + 1} of ${ordered.length}`;
  },

  /** One answer for each entry; one that is refused leaves no trace. */
  async approvals({ origin, tenant, entries }) {
    const log = new ApprovalLog(origin, tenant);
    const answers = [];
    for (const entry of entries) {
      answers.push(await judged(() => log.add(parseJson(entry).value)));
    }
    return answers;
  },

  async ssh({ key, namespace, message, signature }) {
    const parsed = parsePersonKey(key);
    const { counter } = await verifySshSignature(parsed, namespace, utf8(message), signature);
    return `ok, ${parsed.fingerprint}, count ${counter}`;
  },

  json({ base64 }) {
    try {
      return canonical(parseJson(textOf(fromBase64(base64))).value);
    } catch (error) {
      if (error instanceof JsonFault || error instanceof TypeError) return null;
      throw error;
    }
  },

  /** The message of the published test vectors: 0 to 250, over and over. */
  hashes({ length }) {
    const message = Uint8Array.from({ length }, (_, at) => at % 251);
    return [hex(blake3(message)), hex(sha256(message))];
  },

  weak({ key }) {
    return isWeakEd25519(bytesOf(key));
  },

  root({ leaves }) {
    const tree = new Tree();
    for (const leaf of leaves) tree.add(bytesOf(leaf));
    return hex(tree.root());
  },

  inclusion({ leaf, index, size, path, root }) {
    return verifyInclusion(bytesOf(leaf), index, size, path.map(bytesOf), bytesOf(root));
  },

  consistency({ older, newer, path, olderRoot, newerRoot }) {
    return verifyConsistency(older, newer, path.map(bytesOf), bytesOf(olderRoot), bytesOf(newerRoot));
  },
};

async function judged(ask) {
  try {
    const answer = await ask();
    return answer === undefined ? 'ok' : answer;
  } catch (error) {
    if (error instanceof Finding) return `${error.kind} at ${error.seq}: ${error.message}`;
    return `error: ${error.message}`;
  }
}

for await (const line of createInterface({ input: process.stdin })) {
  const question = JSON.parse(line);
  console.log(JSON.stringify(await judged(() => ANSWERS[question.ask](question))));
}
