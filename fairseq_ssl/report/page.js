"use strict";
// Shows the sentences of the page: those that the form lets through, a few at a time.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const form = document.getElementById("filter");
  if (!form) return;

  const PER_PAGE = 25;
  const LONGEST = 400; // words on both sides between which changes are looked for
  const systems = data.systems;
  const lines = data.outputs[0].map((_, line) => line);
  const list = document.getElementById("list");
  const told = document.getElementById("told");
  const [before, after] = ["before", "after"].map((id) => document.getElementById(id));
  const place = document.getElementById("place");
  let chosen = lines;
  let page = 0;

  // The text of each sentence on all sides, to look for words in.
  const texts = lines.map((line) => sides().map(([, side]) => side[line]).join("\n").toLowerCase());

  function sides() {
    const given = data.source ? [["source", data.source]] : [];
    const wanted = data.references.map((one, at) => [referenceName(at), one]);
    return [...given, ...wanted, ...systems.map((name, at) => [name, data.outputs[at]])];
  }

  function referenceName(at) {
    return data.references.length > 1 ? `reference ${at + 1}` : "reference";
  }

  function value(name) {
    const field = form.elements[name];
    return field ? (field.type === "checkbox" ? field.checked : field.value) : "";
  }

  function choose() {
    const words = value("text").toLowerCase();
    const type = value("type");
    const onlyDifferent = value("differ");
    chosen = lines.filter((line) =>
      texts[line].includes(words) &&
      (!type || data.types[line].includes(type)) &&
      (!onlyDifferent || data.outputs.some((one) => one[line] !== data.outputs[0][line])));
    const key = sortKey();
    if (key) {
      const keys = new Map(chosen.map((line) => [line, key(line)]));
      chosen.sort((a, b) => keys.get(b) - keys.get(a) || a - b);
    }
    page = 0;
    show();
  }

  // What a larger value of puts a sentence before others.
  function sortKey() {
    const first = Number(value("first"));
    const second = Number(value("second"));
    switch (value("sort")) {
      case "gained": return (line) => data.scores[first][line] - data.scores[second][line];
      case "lost": return (line) => data.scores[second][line] - data.scores[first][line];
      case "apart": return (line) => Math.abs(data.scores[first][line] - data.scores[second][line]);
      case "low": return (line) => -data.scores[first][line];
      default: return null;
    }
  }

  function show() {
    const last = Math.max(0, Math.ceil(chosen.length / PER_PAGE) - 1);
    page = Math.min(page, last);
    const shown = chosen.slice(page * PER_PAGE, (page + 1) * PER_PAGE);
    list.replaceChildren(...shown.map(item));
    told.textContent = `${chosen.length} of ${lines.length} sentences`;
    place.textContent = `Page ${page + 1} of ${last + 1}`;
    before.disabled = page === 0;
    after.disabled = page === last;
  }

  function item(line) {
    const found = element("li");
    const types = data.types && data.types[line].length ? `: ${data.types[line].join(", ")}` : "";
    found.append(element("h3", `Sentence ${line + 1}${types}`));
    const against = value("against");
    const rows = sides();
    const basis = rows.find(([name]) => name === against);
    const described = element("dl");
    for (const [at, [name, side]] of rows.entries()) {
      const term = element("dt", name);
      const system = at - (rows.length - systems.length);
      if (data.scores && system >= 0) {
        const score = element("span", data.scores[system][line].toFixed(1));
        score.className = "score";
        term.append(score);
      }
      const text = element("dd");
      const isMarked = basis && name !== against && name !== "source";
      text.append(...(isMarked ? marked(basis[1][line], side[line]) : [side[line]]));
      described.append(term, text);
    }
    found.append(described);
    return found;
  }

  function element(name, text = "") {
    const made = document.createElement(name);
    made.textContent = text;
    return made;
  }

  // The second text, with what it has more than the first and what it lacks, word by word.
  function marked(first, second) {
    const parts = [];
    for (const [kind, words] of changes(first.split(/\s+/).filter(Boolean), second.split(/\s+/).filter(Boolean))) {
      const text = words.join(" ");
      parts.push(kind ? element(kind, text) : text, " ");
    }
    return parts.slice(0, -1);
  }

  function changes(first, second) {
    let start = 0;
    while (start < Math.min(first.length, second.length) && first[start] === second[start]) start++;
    let end = 0;
    while (end < Math.min(first.length, second.length) - start &&
      first[first.length - 1 - end] === second[second.length - 1 - end]) end++;
    const one = first.slice(start, first.length - end);
    const other = second.slice(start, second.length - end);
    const middle = Math.max(one.length, other.length) > LONGEST
      ? [...one.map((word) => ["del", word]), ...other.map((word) => ["ins", word])]
      : aligned(one, other);
    const same = (words) => words.map((word) => ["", word]);
    return joined([...same(second.slice(0, start)), ...middle, ...same(second.slice(second.length - end))]);
  }

  // The longest words in common stay; table[i][j] is how many one has from i and other from j on.
  function aligned(one, other) {
    const table = Array.from({ length: one.length + 1 }, () => new Uint16Array(other.length + 1));
    for (let i = one.length - 1; i >= 0; i--) {
      for (let j = other.length - 1; j >= 0; j--) {
        table[i][j] = one[i] === other[j]
          ? table[i + 1][j + 1] + 1
          : Math.max(table[i + 1][j], table[i][j + 1]);
      }
    }
    const found = [];
    let [i, j] = [0, 0];
    while (i < one.length || j < other.length) {
      if (i < one.length && j < other.length && one[i] === other[j]) {
        found.push(["", other[j++]]);
        i++;
      } else if (j === other.length || (i < one.length && table[i + 1][j] >= table[i][j + 1])) {
        found.push(["del", one[i++]]);
      } else {
        found.push(["ins", other[j++]]);
      }
    }
    return found;
  }

  // Neighbours of one kind in one; what goes before what comes, where both do.
  function joined(words) {
    const groups = [];
    for (const [kind, word] of words) {
      const last = groups[groups.length - 1];
      if (last && last[0] === kind) last[1].push(word);
      else groups.push([kind, [word]]);
    }
    return groups;
  }

  function turn(by) {
    page += by;
    show();
    document.getElementById("sentences").scrollIntoView();
  }

  let waiting = 0;
  function later(event) {
    clearTimeout(waiting);
    waiting = setTimeout(choose, event.target.name === "text" ? 150 : 0);
  }
  form.addEventListener("input", later);
  form.addEventListener("change", (event) => { // not every browser has "input" of these
    if (event.target.tagName === "SELECT") later(event);
  });
  form.addEventListener("submit", (event) => event.preventDefault());
  before.addEventListener("click", () => turn(-1));
  after.addEventListener("click", () => turn(1));
  choose();
})();
