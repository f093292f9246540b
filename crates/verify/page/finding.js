// The result of a failed check: the kind of problem (the codes of `crealeph ledger verify`), the entry, and what is wrong.

export class Finding extends Error {
  constructor(kind, what, seq = null) {
    super(what);
    this.kind = kind;
    this.seq = seq;
  }

  /** The same about a part that is named first. */
  about(name) {
    return new Finding(this.kind, `${name}: ${this.message}`, this.seq);
  }

  /** The same about an entry that is named. */
  ofEntry(seq, id) {
    return new Finding(this.kind, `entry ${seq} (\`${id}\`) ${this.message}; no ledger would have accepted it`, seq);
  }
}

export function changed(what, seq = null) {
  return new Finding('changed', what, seq);
}

export function unreadable(what, seq = null) {
  return new Finding('unreadable', what, seq);
}

export function invalid(what) {
  return new Finding('invalid', what);
}

export function forged(what, seq = null) {
  return new Finding('forged', what, seq);
}
