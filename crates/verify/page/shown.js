// Foreign text in a form that people may see: nothing in it acts on the text around it, or hides.

/** Controls, marks that turn the direction of text, and characters without a width. */
const HIDDEN = /[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb]/g;

/** At most so many characters, with invisible ones written as escapes. */
export function shown(text, most) {
  const start = text.length > most ? text.slice(0, most) : text;
  const visible = start.replaceAll(HIDDEN, (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`);
  const left = text.length - start.length;
  return left > 0 ? `${visible}… (${left} more characters)` : visible;
}
