"use strict";
// Word diff of two texts: unchanged, deleted and inserted words.
const changes = (() => {
  const MAX_WORDS = 400; // longer differing parts are shown as deleted and inserted as a whole
  // Scripts without spaces are split into characters, other scripts into words and symbols.
  const UNSPACED = "[\\p{scx=Han}\\p{scx=Hiragana}\\p{scx=Katakana}" +
    "\\p{sc=Thai}\\p{sc=Lao}\\p{sc=Khmer}\\p{sc=Myanmar}]";
  const CHARACTER = new RegExp(`^${UNSPACED}`, "u");
  const WORD = new RegExp(`${UNSPACED}\\p{M}*|(?:(?!${UNSPACED})[\\p{L}\\p{M}\\p{N}])+|\\S`, "gu");

  // Returns the words of a text as {text, number, spaced}. `numbers` assigns a number to each distinct
  // word. `spaced` is true if a space separates the word from the previous one; the first word of a
  // text counts as spaced unless its script has no spaces.
  function words(text, numbers) {
    const result = [];
    let end = CHARACTER.test(text) ? 0 : -1;
    for (const match of text.matchAll(WORD)) {
      if (!numbers.has(match[0])) numbers.set(match[0], numbers.size);
      result.push({ text: match[0], number: numbers.get(match[0]), spaced: match.index > end });
      end = match.index + match[0].length;
    }
    return result;
  }

  // Returns the parts {kind, text, spaced} of the diff. `kind` is "" for unchanged, "del" or "ins".
  function changes(before, after) {
    const numbers = new Map();
    const [first, second] = [words(before, numbers), words(after, numbers)];
    const shorter = Math.min(first.length, second.length);
    let start = 0;
    while (start < shorter && first[start].text === second[start].text) start++;
    let end = 0;
    const last = (side) => side[side.length - 1 - end].text;
    while (end < shorter - start && last(first) === last(second)) end++;
    const parts = [];
    const add = (kind, word) => {
      const last = parts[parts.length - 1];
      if (last && last.kind === kind) last.text += (word.spaced ? " " : "") + word.text;
      else parts.push({ kind, text: word.text, spaced: word.spaced });
    };
    second.slice(0, start).forEach((word) => add("", word));
    const one = first.slice(start, first.length - end);
    const other = second.slice(start, second.length - end);
    let [i, j] = [0, 0];
    const number = (word) => word.number;
    const kept = common(Int32Array.from(one, number), Int32Array.from(other, number));
    for (const [x, y] of [...kept, [one.length, other.length]]) {
      while (i < x) add("del", one[i++]);
      while (j < y) add("ins", other[j++]);
      if (j < other.length) add("", other[j++]);
      i++;
    }
    second.slice(second.length - end).forEach((word) => add("", word));
    return parts;
  }

  // Returns the index pairs of a longest common subsequence. table[i * width + j] is the length of the
  // longest common subsequence of one.slice(i) and other.slice(j).
  function common(one, other) {
    if (Math.max(one.length, other.length) > MAX_WORDS) return [];
    const width = other.length + 1;
    const table = new Uint16Array((one.length + 1) * width);
    for (let i = one.length - 1; i >= 0; i--) {
      for (let j = other.length - 1; j >= 0; j--) {
        const here = i * width + j;
        table[here] = one[i] === other[j]
          ? table[here + width + 1] + 1
          : Math.max(table[here + width], table[here + 1]);
      }
    }
    const pairs = [];
    let [i, j] = [0, 0];
    while (i < one.length && j < other.length) {
      if (one[i] === other[j]) pairs.push([i++, j++]);
      else if (table[(i + 1) * width + j] >= table[i * width + j + 1]) i++;
      else j++;
    }
    return pairs;
  }

  return changes;
})();
