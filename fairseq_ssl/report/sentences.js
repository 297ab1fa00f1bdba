"use strict";
// Shows the sentences that match the filter form, one page at a time.
(() => {
  const form = document.getElementById("filter");
  if (!form) return;

  const PER_PAGE = 25;
  const MAX_DRAW_MS = 40; // milliseconds of drawing without a pause
  const data = JSON.parse(document.getElementById("data").textContent);
  const { sides, errors } = data;
  const systems = sides.filter((side) => side.system !== undefined);
  const lines = sides[0].lines.map((_, line) => line);
  const texts = lines.map((line) => sides.map((side) => side.lines[line]).join("\n").toLowerCase());
  const byId = (id) => document.getElementById(id);
  const [list, status, pageField] = ["list", "status", "page"].map(byId);
  let chosen = lines;
  let page = 0;
  let drawing = 0;

  function value(name) {
    const field = form.elements[name];
    return field ? (field.type === "checkbox" ? field.checked : field.value) : "";
  }

  const sideNamed = (name) => sides.find((side) => side.name === name);
  const boxes = () => [...form.querySelectorAll('[name="show"]')];

  function shownSystems() {
    const hidden = new Set(boxes().filter((box) => !box.checked).map((box) => Number(box.value)));
    return systems.filter((side) => !hidden.has(side.system));
  }

  // ---- selection and order of sentences

  function pattern() {
    const text = value("text").toLowerCase().replace(/[\\^$.*+?()[\]{}|/]/g, "\\$&");
    if (!text) return null;
    const word = "[\\p{L}\\p{M}\\p{N}]";
    return new RegExp(value("whole") ? `(?<!${word})${text}(?!${word})` : text, "giu");
  }

  // Returns the conditions that a sentence must meet, with fast conditions first.
  function conditions() {
    const [text, query, type] = [value("text").toLowerCase(), pattern(), value("type")];
    const [outcome, system] = value("outcome").split(" ");
    const shown = shownSystems();
    const tests = [];
    if (query) tests.push((line) => texts[line].includes(text));
    if (type || outcome) {
      tests.push((line) => errors[line].some((error) =>
        (!type || error.type === type || mainType(error) === type) &&
        (!outcome || error.by.includes(Number(system)) === (outcome === "corrected"))));
    }
    if (value("differ")) {
      tests.push((line) => shown.some((side) => side.lines[line] !== shown[0].lines[line]));
    }
    if (query && (value("whole") || value("in"))) {
      const searched = value("in") ? [sideNamed(value("in"))] : sides;
      tests.push((line) => searched.some((side) => side.lines[line].search(query) >= 0));
    }
    if (value("changed")) tests.push(changedBy(shown, query));
    return tests;
  }

  // Returns a condition: a shown system changed the line, or the number of matches if there is a search.
  function changedBy(shown, query) {
    const basis = sideNamed(value("against")) || sides[0];
    const count = (side, line) => (side.lines[line].match(query) || []).length;
    return (line) => shown.some((side) => query
      ? count(side, line) !== count(basis, line)
      : side.lines[line] !== basis.lines[line]);
  }

  const mainType = (error) => error.type.replace(/^.:/, "");

  // Returns the function by which sentences are sorted in descending order, or null.
  function sortKey() {
    const [a, b] = ["first", "second"].map((name) => systems[Number(value(name))]);
    switch (value("sort")) {
      case "gained": return (line) => a.scores[line] - b.scores[line];
      case "lost": return (line) => b.scores[line] - a.scores[line];
      case "apart": return (line) => Math.abs(a.scores[line] - b.scores[line]);
      case "low": return (line) => -a.scores[line];
      case "unlike": return (line) => cachedDistance(a, b, line);
      default: return null;
    }
  }

  const distances = new Map(); // word distances of each line by pair of systems; -1: not computed
  function cachedDistance(a, b, line) {
    const pair = `${a.system} ${b.system}`;
    if (!distances.has(pair)) distances.set(pair, new Int32Array(lines.length).fill(-1));
    const counts = distances.get(pair);
    if (counts[line] < 0) counts[line] = wordDistance(a.lines[line], b.lines[line]);
    return counts[line];
  }

  // Returns the number of words that only one of two texts has. Texts without spaces use characters.
  function wordDistance(one, other) {
    const counts = new Map();
    const count = (text, by) => {
      for (const word of text.includes(" ") ? text.split(" ") : text) {
        counts.set(word, (counts.get(word) || 0) + by);
      }
    };
    if (one !== other) [[one, 1], [other, -1]].forEach((side) => count(...side));
    let sum = 0;
    for (const difference of counts.values()) sum += Math.abs(difference);
    return sum;
  }

  function choose() {
    const tests = conditions();
    chosen = lines.filter((line) => tests.every((test) => test(line)));
    const key = sortKey();
    if (key) {
      const keys = new Map(chosen.map((line) => [line, key(line)]));
      chosen.sort((a, b) => keys.get(b) - keys.get(a) || a - b);
    }
    show();
  }

  // ---- rendering

  function show() {
    const pages = Math.max(1, Math.ceil(chosen.length / PER_PAGE));
    page = Math.max(0, Math.min(page, pages - 1));
    const settings = { shown: shownSystems(), basis: sideNamed(value("against")), query: pattern() };
    list.replaceChildren();
    draw(chosen.slice(page * PER_PAGE, (page + 1) * PER_PAGE), settings);
    status.textContent = `${chosen.length} of ${lines.length} sentences`;
    pageField.value = page + 1;
    pageField.max = pages;
    byId("of").textContent = `of ${pages}`;
    document.querySelector(".place").textContent = `Page ${page + 1} of ${pages}`;
    for (const button of document.querySelectorAll("[data-turn]")) {
      const next = page + Number(button.dataset.turn);
      button.setAttribute("aria-disabled", next < 0 || next >= pages); // unlike disabled, keeps the focus
    }
    updateAddress();
  }

  // Draws sentences for MAX_DRAW_MS at a time, so that the page stays responsive with long texts.
  function draw(waiting, settings) {
    clearTimeout(drawing);
    const end = performance.now() + MAX_DRAW_MS;
    let drawn = 0;
    while (drawn < waiting.length && (!drawn || performance.now() < end)) {
      list.append(item(waiting[drawn++], settings));
    }
    const rest = waiting.slice(drawn);
    list.setAttribute("aria-busy", rest.length > 0);
    if (rest.length) drawing = setTimeout(draw, 0, rest, settings);
  }

  function item(line, { shown, basis, query }) {
    const listItem = element("li");
    const types = errors ? [...new Set(errors[line].map(mainType))].sort().join(", ") : "";
    listItem.append(element("h3", `Sentence ${line + 1}${types && `: ${types}`}`));
    const descriptions = element("dl");
    for (const side of sides) {
      if (side.system !== undefined && !shown.includes(side)) continue;
      const term = element("dt", side.name);
      if (side.scores) term.append(" ", element("span", side.scores[line].toFixed(1), "score"));
      const text = element("dd");
      text.dir = "auto";
      text.lang = side.lang;
      const isMarked = basis && side !== basis && side.name !== "source";
      const content = side.lines[line];
      text.append(
        ...(isMarked ? markChanges(basis.lines[line], content, query) : highlight(content, query)));
      descriptions.append(term, text);
    }
    listItem.append(descriptions);
    if (errors && errors[line].length) listItem.append(outcomes(errors[line], shown));
    return listItem;
  }

  function element(name, text = "", className = "") {
    const node = document.createElement(name);
    node.textContent = text;
    if (className) node.className = className;
    return node;
  }

  function markChanges(before, after, query) {
    return changes(before, after).flatMap(({ kind, text, spaced }, index) => {
      const space = spaced && index ? " " : "";
      if (!kind) return [space, ...highlight(text, query)];
      const node = element(kind);
      if (kind === "del") node.dir = "auto"; // keeps deleted text from setting the line's direction
      node.append(...highlight(text, query));
      return [space, node];
    });
  }

  // Returns a text with all matches of the search highlighted.
  function highlight(text, query) {
    if (!query) return [text];
    const parts = [];
    let end = 0;
    for (const match of text.matchAll(query)) {
      parts.push(text.slice(end, match.index), element("mark", match[0]));
      end = match.index + match[0].length;
    }
    return [...parts, text.slice(end)];
  }

  // Returns the list of the errors of a sentence and the systems that corrected or missed them.
  function outcomes(sentenceErrors, shown) {
    const errorList = element("ul", "", "errors");
    errorList.setAttribute("aria-label", "Errors");
    for (const error of sentenceErrors) {
      const listNames = (names, verb) => (names.length ? `${verb} by ${names.join(", ")}` : "");
      const [correctedBy, missedBy] = [true, false].map((isBy) =>
        shown.filter((side) => error.by.includes(side.system) === isBy).map((side) => side.name));
      const row = element("li");
      const edit = `${error.words || "nothing"} → ${error.correction || "nothing"}`;
      row.append(element("b", error.type), ` ${edit}: `,
        [listNames(correctedBy, "corrected"), listNames(missedBy, "missed")].filter(Boolean).join("; "));
      errorList.append(row);
    }
    return errorList;
  }

  // ---- the filter is stored in the address, so that a view can be shared

  const fields = () => [...form.elements].filter((field) => field.name && field.name !== "show");
  const defaultOption =
    (field) => [...field.options].find((option) => option.defaultSelected) || field.options[0];

  function isDefault(field) {
    if (field.type === "checkbox") return !field.checked;
    return field.value === (field.tagName === "SELECT" ? defaultOption(field).value : "");
  }

  function updateAddress() {
    const params = new URLSearchParams();
    for (const field of fields()) {
      if (!isDefault(field)) params.set(field.name, field.type === "checkbox" ? 1 : field.value);
    }
    const hidden = boxes().filter((box) => !box.checked).map((box) => box.value);
    if (hidden.length) params.set("hide", hidden.join(","));
    if (page) params.set("page", page + 1);
    const address = location.href.split("#")[0];
    if (String(params) || location.hash.includes("=")) {
      history.replaceState(null, "", String(params) ? `${address}#${params}` : address);
    }
  }

  // Sets the filter from the address. Returns false if the address has no filter.
  function readAddress() {
    if (!location.hash.includes("=")) return false;
    const params = new URLSearchParams(location.hash.slice(1));
    for (const field of fields()) {
      const setting = params.get(field.name);
      if (field.type === "checkbox") field.checked = setting === "1";
      else if (field.tagName !== "SELECT") field.value = setting || "";
      else {
        const option = [...field.options].find((option) => option.value === setting);
        (option || defaultOption(field)).selected = true;
      }
    }
    const hidden = (params.get("hide") || "").split(",");
    for (const box of boxes()) box.checked = !hidden.includes(box.value);
    page = (Number(params.get("page")) || 1) - 1;
    return true;
  }

  // ---- event handlers

  let waiting = 0;
  function chooseLater(event) {
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
    byId("status").scrollIntoView();
    top.focus({ preventScroll: true });
  }

  form.addEventListener("input", chooseLater);
  form.addEventListener("change", (event) => { // some browsers send no "input" event for SELECT
    if (event.target.tagName === "SELECT") chooseLater(event);
  });
  form.addEventListener("reset", (event) => setTimeout(chooseLater, 0, event));
  form.addEventListener("submit", (event) => event.preventDefault());
  for (const button of document.querySelectorAll("[data-turn]")) button.addEventListener("click", turn);
  pageField.addEventListener("change", () => {
    page = (Number(pageField.value) || 1) - 1;
    show();
  });
  addEventListener("hashchange", () => readAddress() && choose());
  const isShared = readAddress();
  choose();
  // Wait for the figures, since they move the sentences down.
  if (isShared) addEventListener("load", () => byId("sentences").scrollIntoView());
})();
