// The basis of a check, as it is shown to the reader.

export const HASHES = 'hashes that were computed again from the bytes';
export const NO_KEY = 'nothing that you had before: no key was given, so this proves consistency, not origin';

/** `files` are those that keys were read from: a key from the checked files would prove nothing. */
export function ownKey(files) {
  return files.length === 0 ? 'the key that you gave' : `the key that you gave in ${files.map((name) => `\`${name}\``).join(', ')}`;
}

const number = new Intl.NumberFormat('en');

export function count(amount, one, several) {
  return `${number.format(amount)} ${amount === 1 ? one : several}`;
}
