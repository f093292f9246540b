// Strict JSON (I-JSON, RFC 7493) and its canonical text (RFC 8785).
//
// Objects become Maps, so that no key has a meaning of its own. Refused, because two readers could read them differently: a key
// that appears twice, half of a surrogate pair, an integer whose digits a double would change, a number beyond the doubles, a
// byte order mark, anything after the value.

/** How deep arrays and objects nest at most in documents that CreAleph writes. */
export const MAX_DEPTH = 192;

export class JsonFault extends Error {}

const PLAIN = /[^"\\\u0000-\u001f]*/y;
const NUMBER = /-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?/y;
const SPACE = /[ \t\n\r]*/y;
const ESCAPES = { '"': '"', '\\': '\\', '/': '/', b: '\b', f: '\f', n: '\n', r: '\r', t: '\t' };
/** A double has this many digits for certain. */
const SAFE_DIGITS = 15;

class Parser {
  constructor(text) {
    this.text = text;
    this.at = 0;
    this.spans = new Map();
  }

  fail(what) {
    throw new JsonFault(`${what} (character ${this.at + 1})`);
  }

  match(pattern) {
    pattern.lastIndex = this.at;
    const found = pattern.exec(this.text);
    if (found) this.at = pattern.lastIndex;
    return found;
  }

  next() {
    this.match(SPACE);
    return this.text[this.at];
  }

  value(depth) {
    const first = this.next();
    if (first === '{') return this.object(depth + 1);
    if (first === '[') return this.array(depth + 1);
    if (first === '"') return this.string();
    if (first === '-' || (first >= '0' && first <= '9')) return this.number();
    for (const [word, value] of [['true', true], ['false', false], ['null', null]]) {
      if (this.text.startsWith(word, this.at)) {
        this.at += word.length;
        return value;
      }
    }
    return this.fail('expected a JSON value');
  }

  enter(depth) {
    if (depth > MAX_DEPTH) this.fail(`arrays and objects nest more than ${MAX_DEPTH} deep`);
    this.at += 1;
  }

  object(depth) {
    this.enter(depth);
    const members = new Map();
    if (this.next() === '}') {
      this.at += 1;
      return members;
    }
    for (;;) {
      if (this.next() !== '"') this.fail('expected a key in double quotes');
      const key = this.string();
      if (members.has(key)) this.fail(`the key ${JSON.stringify(key)} appears twice in this object`);
      if (this.next() !== ':') this.fail('expected `:` after a key');
      this.at += 1;
      this.next();
      const start = this.at;
      members.set(key, this.value(depth));
      if (depth === 1) this.spans.set(key, [start, this.at]);
      const after = this.next();
      this.at += 1;
      if (after === '}') return members;
      if (after !== ',') this.fail('expected `,` or `}` after a member');
    }
  }

  array(depth) {
    this.enter(depth);
    const elements = [];
    if (this.next() === ']') {
      this.at += 1;
      return elements;
    }
    for (;;) {
      elements.push(this.value(depth));
      const after = this.next();
      this.at += 1;
      if (after === ']') return elements;
      if (after !== ',') this.fail('expected `,` or `]` after an element');
    }
  }

  string() {
    this.at += 1;
    let value = '';
    for (;;) {
      value += this.match(PLAIN)[0];
      const next = this.text[this.at];
      if (next === '"') {
        this.at += 1;
        return value;
      }
      if (next !== '\\') this.fail('a string is cut off, or holds a control character');
      value += this.escape();
    }
  }

  escape() {
    const letter = this.text[this.at + 1];
    if (letter !== 'u') {
      const character = Object.hasOwn(ESCAPES, letter ?? '') ? ESCAPES[letter] : this.fail('a backslash stands before nothing that it escapes');
      this.at += 2;
      return character;
    }
    const unit = this.unit();
    if (unit < 0xd800 || unit > 0xdfff) return String.fromCharCode(unit);
    const other = unit < 0xdc00 && this.text.startsWith('\\u', this.at) ? this.unit() : 0;
    if (other < 0xdc00 || other > 0xdfff) this.fail('an escape names half of a surrogate pair');
    return String.fromCharCode(unit, other);
  }

  unit() {
    const digits = this.text.slice(this.at + 2, this.at + 6);
    if (!/^[0-9a-fA-F]{4}$/.test(digits)) this.fail('\\u is followed by four hexadecimal digits');
    this.at += 6;
    return Number.parseInt(digits, 16);
  }

  number() {
    const found = this.match(NUMBER) ?? this.fail('a number is broken');
    const [source, fraction, exponent] = found;
    const value = Number(source);
    if (!Number.isFinite(value)) this.fail(`${source.slice(0, 40)} is beyond the largest double`);
    const isInteger = fraction === undefined && exponent === undefined;
    if (isInteger && source.length > SAFE_DIGITS && BigInt(value).toString() !== source && String(value) !== source) {
      this.fail(`a double would change the digits of ${source.slice(0, 40)}`);
    }
    return value;
  }
}

/**
 * Reads a text. `spans` gives for each member of the outermost object where its value begins and ends in the text.
 * Throws a `JsonFault`.
 */
export function parseJson(text) {
  const parser = new Parser(text);
  const value = parser.value(0);
  if (parser.next() !== undefined) parser.fail('a second value follows the document');
  return { value, spans: parser.spans };
}

/** The canonical text of a value that was parsed. */
export function canonical(value) {
  if (value instanceof Map) {
    const keys = [...value.keys()].sort();
    return `{${keys.map((key) => `${quote(key)}:${canonical(value.get(key))}`).join(',')}}`;
  }
  if (Array.isArray(value)) return `[${value.map(canonical).join(',')}]`;
  if (typeof value === 'string') return quote(value);
  // JavaScript writes numbers as RFC 8785 requires; minus zero is zero.
  return String(value);
}

/** JSON.stringify escapes exactly what RFC 8785 escapes, in strings without half surrogates. */
function quote(text) {
  return JSON.stringify(text);
}
