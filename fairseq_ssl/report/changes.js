"use strict";
// What became of a text: what stayed of it, what is gone and what is new, word by word.
const changes = (() => {
  const LONGEST = 400; // words on both sides between which common ones are looked for
  // Scripts without spaces are compared by character; of the others, words and single signs.
  const UNSPACED = "[\\p{scx=Han}\\p{scx=Hiragana}\\p{scx=Katakana}" +
    "\\p{sc=Thai}\\p{sc=Lao}\\p{sc=Khmer}\\p{sc=Myanmar}]";
  const CHARACTER = new RegExp(`^${UNSPACED}`, "u");
  const WORD = new RegExp(`${UNSPACED}\\p{M}*|(?:(?!${UNSPACED})[\\p{L}\\p{M}\\p{N}])+|\\S`, "gu");

  // Each word, its number in the order of first use, and whether there is space before it, as if there
  // were more before the first.
  function words(text, numbers) {
    const found = [];
    let end = CHARACTER.test(text) ? 0 : -1;
    for (const match of text.matchAll(WORD)) {
      if (!numbers.has(match[0])) numbers.set(match[0], numbers.size);
      found.push({ text: match[0], number: numbers.get(match[0]), spaced: match.index > end });
      end = match.index + match[0].length;
    }
    return found;
  }

  // Returns parts {kind, text, spaced}, of which kind is "", "del" or "ins".
  function changes(before, after) {
    const numbers = new Map();
    const [first, second] = [words(before, numbers), words(after, numbers)];
    const least = Math.min(first.length, second.length);
    let start = 0;
    while (start < least && first[start].text === second[start].text) start++;
    let end = 0;
    const last = (side) => side[side.length - 1 - end].text;
    while (end < least - start && last(first) === last(second)) end++;
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

  // Places of the longest words in common; table[i * width + j] is how many there are from i and j on.
  function common(one, other) {
    if (Math.max(one.length, other.length) > LONGEST) return [];
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
    const places = [];
    let [i, j] = [0, 0];
    while (i < one.length && j < other.length) {
      if (one[i] === other[j]) places.push([i++, j++]);
      else if (table[(i + 1) * width + j] >= table[i * width + j + 1]) i++;
      else j++;
    }
    return places;
  }

  return changes;
})();
