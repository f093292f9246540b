// Entries about access: API keys, webhooks and signers of receipts. Each is readable, has the client key of what it
// names, and ends only what began before it.

import { hex, utf8 } from './bytes.js';
import { blake3 } from './blake3.js';
import { canonical } from './json.js';
import { invalid } from './finding.js';
import { parseKey } from './note.js';
import { checkReportedFiles, verifyReceipt } from './receipt.js';
import { boolean, digest, identifier, list, object, openObject, optional, string, text, timestamp, word } from './shape.js';

const ACCESS = 'crealeph-access';
const MAX_BYTES = 64 << 10;

const KINDS = [
  {
    what: 'API key',
    id: 'keyId',
    begin: {
      prefix: 'crealeph:api-key:',
      type: 'key_grant',
      shape: object({
        keyId: identifier,
        role: word('reader', 'writer', 'operator', 'auditor', 'admin'),
        robotId: optional(identifier),
        label: optional(text),
        expires: optional(timestamp),
        tokenDigest: digest,
      }),
    },
    end: { prefix: 'crealeph:api-key-revoked:', type: 'key_revocation', shape: object({ keyId: identifier, reason: optional(text) }) },
  },
  {
    what: 'webhook',
    id: 'webhookId',
    begin: {
      prefix: 'crealeph:webhook:',
      type: 'webhook_creation',
      shape: object({
        webhookId: identifier,
        url: text,
        events: optional(list(identifier)),
        robotId: optional(identifier),
        payloads: optional(boolean),
        label: optional(text),
      }),
    },
    end: { prefix: 'crealeph:webhook-deleted:', type: 'webhook_deletion', shape: object({ webhookId: identifier, reason: optional(text) }) },
    enable: {
      prefix: 'crealeph:webhook-enabled:',
      type: 'webhook_enablement',
      shape: object({ webhookId: identifier, disabledAt: timestamp, reason: optional(text) }),
      rest: (payload) => `:${payload.get('disabledAt')}`,
    },
  },
];

const signerEnrolment = object({ signerId: digest, key: text, label: optional(text) });
const signerRevocation = object({ signerId: digest, reason: optional(text) });
const report = object({
  receipt: openObject,
  envelope: openObject,
  files: list(object({ name: text, content: string })),
});

const SIGNER = 'crealeph:signer:';
const REVOKED_SIGNER = 'crealeph:signer-revoked:';
const REPORTED = 'crealeph:reported-receipt:';

export class GrantLog {
  constructor() {
    this.begun = new Set();
    /** Signers by id: their key, or null if it was revoked. */
    this.signers = new Map();
  }

  /** Judges the next entry; throws a Finding. */
  async add(entry) {
    const key = entry.get('key');
    if (key === undefined) return;
    for (const kind of KINDS) {
      for (const step of stepsOf(kind)) if (key.startsWith(step.prefix)) this.addStep(entry, kind, key);
    }
    if (key.startsWith(SIGNER) || key.startsWith(REVOKED_SIGNER)) this.addSigner(entry, key);
    if (key.startsWith(REPORTED)) await this.addReport(entry, key);
  }

  addStep(entry, kind, key) {
    const { what, id, begin } = kind;
    if (entry.get('module') !== ACCESS) throw invalid(`has the key of a grant of an ${what} under another module`);
    const payload = entry.get('payload');
    const step = stepsOf(kind).find(({ type }) => type === entry.get('type'));
    const problem = step ? sized(step.shape, payload) : 'it is of another type';
    if (problem) throw invalid(`is about an ${what} and cannot be read: ${problem}`);
    const named = payload.get(id);
    if (key !== `${step.prefix}${named}${step.rest?.(payload) ?? ''}`) throw invalid(`is about the ${what} \`${named}\` under the key of another`);
    const known = JSON.stringify([what, named]);
    if (step === begin) this.begun.add(known);
    else if (!this.begun.has(known)) throw invalid(`changes the ${what} \`${named}\`, which did not begin before`);
  }

  addSigner(entry, key) {
    if (entry.get('module') !== ACCESS) throw invalid('has the key of a signer under another module');
    const payload = entry.get('payload');
    const id = payload.get('signerId');
    const isEnrolment =
      sized(signerEnrolment, payload) === null && hex(blake3(utf8(payload.get('key')))) === id && key === `${SIGNER}${id}`;
    if (isEnrolment) {
      try {
        this.signers.set(id, parseKey(payload.get('key')));
      } catch (error) {
        throw invalid(`enrols no signer's key: ${error.message}`);
      }
      return;
    }
    if (sized(signerRevocation, payload) !== null || key !== `${REVOKED_SIGNER}${id}`) throw invalid('is about a signer and cannot be read');
    if (!this.signers.has(id)) throw invalid('revokes a signer that was not enrolled before');
    this.signers.set(id, null);
  }

  async addReport(entry, key) {
    const payload = entry.get('payload');
    if (report(payload) !== null) throw invalid('is a reported receipt and cannot be read');
    const keys = [...this.signers.values()].filter((signer) => signer !== null);
    const [receipt, envelope] = [payload.get('receipt'), payload.get('envelope')].map((part) => utf8(canonical(part)));
    const verified = await verifyReceipt(receipt, envelope, keys);
    await checkReportedFiles(verified, payload.get('files'));
    if (key !== `${REPORTED}${verified.receipt.get('id')}`) throw invalid('holds the receipt of another run than its key names');
  }
}

function stepsOf({ begin, end, enable }) {
  return enable ? [begin, end, enable] : [begin, end];
}

function sized(shape, payload) {
  return utf8(canonical(payload)).length > MAX_BYTES ? 'it is too long' : shape(payload);
}
