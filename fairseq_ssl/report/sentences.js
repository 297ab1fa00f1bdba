"use strict";
// Shows the sentences of the page: those that the form lets through, a few at a time.
(() => {
  const form = document.getElementById("filter");
  if (!form) return;

  const PER_PAGE = 25;
  const MOMENT = 40; // milliseconds
  const data = JSON.parse(document.getElementById("data").textContent);
  const { sides, errors } = data;
  const systems = sides.filter((side) => side.system !== undefined);
  const lines = sides[0].lines.map((_, line) => line);
  const texts = lines.map((line) => sides.map((side) => side.lines[line]).join("\n").toLowerCase());
  const byId = (id) => document.getElementById(id);
  const [list, told, pageField] = ["list", "told", "page"].map(byId);
  let chosen = lines;
  let page = 0;
  let drawing = 0;

  function value(name) {
    const field = form.elements[name];
    return field ? (field.type === "checkbox" ? field.checked : field.value) : "";
  }

  const named = (name) => sides.find((side) => side.name === name);
  const boxes = () => [...form.querySelectorAll('[name="show"]')];

  function shownSystems() {
    const hidden = new Set(boxes().filter((box) => !box.checked).map((box) => Number(box.value)));
    return systems.filter((side) => !hidden.has(side.system));
  }

  // ---- which sentences, in which order

  function pattern() {
    const text = value("text").toLowerCase().replace(/[\\^$.*+?()[\]{}|/]/g, "\\$&");
    if (!text) return null;
    const word = "[\\p{L}\\p{M}\\p{N}]";
    return new RegExp(value("whole") ? `(?<!${word})${text}(?!${word})` : text, "giu");
  }

  // Conditions that a sentence must meet, the quick ones first.
  function conditions() {
    const [text, sought, type] = [value("text").toLowerCase(), pattern(), value("type")];
    const [outcome, who] = value("outcome").split(" ");
    const shown = shownSystems();
    const found = [];
    if (sought) found.push((line) => texts[line].includes(text));
    if (type || outcome) {
      found.push((line) => errors[line].some((error) =>
        (!type || error.type === type || mainType(error) === type) &&
        (!outcome || error.by.includes(Number(who)) === (outcome === "corrected"))));
    }
    if (value("differ")) {
      found.push((line) => shown.some((side) => side.lines[line] !== shown[0].lines[line]));
    }
    if (sought && (value("whole") || value("in"))) {
      const among = value("in") ? [named(value("in"))] : sides;
      found.push((line) => among.some((side) => side.lines[line].search(sought) >= 0));
    }
    if (value("changed")) found.push(changedBy(shown, sought));
    return found;
  }

  // Whether a system has the text more or less often than what changes are marked against has it.
  function changedBy(shown, sought) {
    const basis = named(value("against")) || sides[0];
    const count = (side, line) => (side.lines[line].match(sought) || []).length;
    return (line) => shown.some((side) => sought
      ? count(side, line) !== count(basis, line)
      : side.lines[line] !== basis.lines[line]);
  }

  const mainType = (error) => error.type.replace(/^.:/, "");

  // What a larger value of puts a sentence before others.
  function sortKey() {
    const [a, b] = ["first", "second"].map((name) => systems[Number(value(name))]);
    switch (value("sort")) {
      case "gained": return (line) => a.scores[line] - b.scores[line];
      case "lost": return (line) => b.scores[line] - a.scores[line];
      case "apart": return (line) => Math.abs(a.scores[line] - b.scores[line]);
      case "low": return (line) => -a.scores[line];
      case "unlike": return (line) => remembered(a, b, line);
      default: return null;
    }
  }

  const unlikes = new Map(); // by two systems, how unlike their lines are; -1: not looked yet
  function remembered(a, b, line) {
    const pair = `${a.system} ${b.system}`;
    if (!unlikes.has(pair)) unlikes.set(pair, new Int32Array(lines.length).fill(-1));
    const counts = unlikes.get(pair);
    if (counts[line] < 0) counts[line] = unlike(a.lines[line], b.lines[line]);
    return counts[line];
  }

  // How many words only one of two texts has; of texts without spaces, characters.
  function unlike(one, other) {
    const counts = new Map();
    const count = (text, by) => {
      for (const word of text.includes(" ") ? text.split(" ") : text) {
        counts.set(word, (counts.get(word) || 0) + by);
      }
    };
    if (one !== other) [[one, 1], [other, -1]].forEach((side) => count(...side));
    let sum = 0;
    for (const found of counts.values()) sum += Math.abs(found);
    return sum;
  }

  function choose() {
    const wanted = conditions();
    chosen = lines.filter((line) => wanted.every((meets) => meets(line)));
    const key = sortKey();
    if (key) {
      const keys = new Map(chosen.map((line) => [line, key(line)]));
      chosen.sort((a, b) => keys.get(b) - keys.get(a) || a - b);
    }
    show();
  }

  // ---- what they look like

  function show() {
    const pages = Math.max(1, Math.ceil(chosen.length / PER_PAGE));
    page = Math.max(0, Math.min(page, pages - 1));
    const asked = { shown: shownSystems(), basis: named(value("against")), sought: pattern() };
    list.replaceChildren();
    draw(chosen.slice(page * PER_PAGE, (page + 1) * PER_PAGE), asked);
    told.textContent = `${chosen.length} of ${lines.length} sentences`;
    pageField.value = page + 1;
    pageField.max = pages;
    byId("of").textContent = `of ${pages}`;
    document.querySelector(".place").textContent = `Page ${page + 1} of ${pages}`;
    for (const button of document.querySelectorAll("[data-turn]")) {
      const next = page + Number(button.dataset.turn);
      button.setAttribute("aria-disabled", next < 0 || next >= pages); // which keeps its focus
    }
    remember();
  }

  // Draws for a moment at a time, so that long texts keep nobody waiting.
  function draw(waiting, asked) {
    clearTimeout(drawing);
    const end = performance.now() + MOMENT;
    let drawn = 0;
    while (drawn < waiting.length && (!drawn || performance.now() < end)) {
      list.append(item(waiting[drawn++], asked));
    }
    const rest = waiting.slice(drawn);
    list.setAttribute("aria-busy", rest.length > 0);
    if (rest.length) drawing = setTimeout(draw, 0, rest, asked);
  }

  function item(line, { shown, basis, sought }) {
    const found = element("li");
    const types = errors ? [...new Set(errors[line].map(mainType))].sort().join(", ") : "";
    found.append(element("h3", `Sentence ${line + 1}${types && `: ${types}`}`));
    const described = element("dl");
    for (const side of sides) {
      if (side.system !== undefined && !shown.includes(side)) continue;
      const term = element("dt", side.name);
      if (side.scores) term.append(" ", element("span", side.scores[line].toFixed(1), "score"));
      const text = element("dd");
      text.dir = "auto";
      text.lang = side.lang;
      const isMarked = basis && side !== basis && side.name !== "source";
      const whole = side.lines[line];
      text.append(...(isMarked ? marked(basis.lines[line], whole, sought) : lit(whole, sought)));
      described.append(term, text);
    }
    found.append(described);
    if (errors && errors[line].length) found.append(outcomes(errors[line], shown));
    return found;
  }

  function element(name, text = "", className = "") {
    const made = document.createElement(name);
    made.textContent = text;
    if (className) made.className = className;
    return made;
  }

  function marked(before, after, sought) {
    return changes(before, after).flatMap(({ kind, text, spaced }, at) => {
      const space = spaced && at ? " " : "";
      if (!kind) return [space, ...lit(text, sought)];
      const made = element(kind);
      if (kind === "del") made.dir = "auto"; // which so does not decide the direction of the whole
      made.append(...lit(text, sought));
      return [space, made];
    });
  }

  // A text, with what is looked for in it made to stand out.
  function lit(text, sought) {
    if (!sought) return [text];
    const parts = [];
    let end = 0;
    for (const match of text.matchAll(sought)) {
      parts.push(text.slice(end, match.index), element("mark", match[0]));
      end = match.index + match[0].length;
    }
    return [...parts, text.slice(end)];
  }

  // The errors of a sentence, and who corrected them.
  function outcomes(found, shown) {
    const made = element("ul", "", "errors");
    made.setAttribute("aria-label", "Errors");
    for (const error of found) {
      const whose = (names, did) => (names.length ? `${did} by ${names.join(", ")}` : "");
      const [did, missed] = [true, false].map((isBy) =>
        shown.filter((side) => error.by.includes(side.system) === isBy).map((side) => side.name));
      const row = element("li");
      const edit = `${error.words || "nothing"} → ${error.correction || "nothing"}`;
      row.append(element("b", error.type), ` ${edit}: `,
        [whose(did, "corrected"), whose(missed, "missed")].filter(Boolean).join("; "));
      made.append(row);
    }
    return made;
  }

  // ---- the address tells what is asked for, so that it can be shared

  const fields = () => [...form.elements].filter((field) => field.name && field.name !== "show");
  const given = (field) => [...field.options].find((option) => option.defaultSelected) || field.options[0];

  function isAsGiven(field) {
    if (field.type === "checkbox") return !field.checked;
    return field.value === (field.tagName === "SELECT" ? given(field).value : "");
  }

  function remember() {
    const told = new URLSearchParams();
    for (const field of fields()) {
      if (!isAsGiven(field)) told.set(field.name, field.type === "checkbox" ? 1 : field.value);
    }
    const hidden = boxes().filter((box) => !box.checked).map((box) => box.value);
    if (hidden.length) told.set("hide", hidden.join(","));
    if (page) told.set("page", page + 1);
    const address = location.href.split("#")[0];
    if (String(told) || location.hash.includes("=")) {
      history.replaceState(null, "", String(told) ? `${address}#${told}` : address);
    }
  }

  // Returns whether the address asks for anything.
  function recall() {
    if (!location.hash.includes("=")) return false;
    const asked = new URLSearchParams(location.hash.slice(1));
    for (const field of fields()) {
      const wanted = asked.get(field.name);
      if (field.type === "checkbox") field.checked = wanted === "1";
      else if (field.tagName !== "SELECT") field.value = wanted || "";
      else ([...field.options].find((option) => option.value === wanted) || given(field)).selected = true;
    }
    const hidden = (asked.get("hide") || "").split(",");
    for (const box of boxes()) box.checked = !hidden.includes(box.value);
    page = (Number(asked.get("page")) || 1) - 1;
    return true;
  }

  // ---- what is done when something is pressed

  let waiting = 0;
  function later(event) {
    clearTimeout(waiting);
    page = 0;
    waiting = setTimeout(choose, event.target.name === "text" ? 150 : 0);
  }

  function turn(event) {
    const button = event.currentTarget;
    if (button.getAttribute("aria-disabled") === "true") return;
    page += Number(button.dataset.turn);
    show();
    const top = document.querySelector(`[data-turn="${button.dataset.turn}"]`);
    if (button === top) return;
    byId("told").scrollIntoView();
    top.focus({ preventScroll: true });
  }

  form.addEventListener("input", later);
  form.addEventListener("change", (event) => { // not every browser has "input" of these
    if (event.target.tagName === "SELECT") later(event);
  });
  form.addEventListener("reset", (event) => setTimeout(later, 0, event));
  form.addEventListener("submit", (event) => event.preventDefault());
  for (const button of document.querySelectorAll("[data-turn]")) button.addEventListener("click", turn);
  pageField.addEventListener("change", () => {
    page = (Number(pageField.value) || 1) - 1;
    show();
  });
  addEventListener("hashchange", () => recall() && choose());
  const isShared = recall();
  choose();
  if (isShared) addEventListener("load", () => byId("sentences").scrollIntoView()); // below figures
})();
