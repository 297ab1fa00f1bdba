"use strict";
// Sorts a table by a column when its heading is pressed: first descending, then ascending.
(() => {
  function key(row, column) {
    const cell = row.cells[column];
    return cell.dataset.value === undefined ? cell.textContent : Number(cell.dataset.value);
  }

  function compare(one, other) {
    const areNumbers = [one, other].map((value) => typeof value === "number");
    if (areNumbers[0] && areNumbers[1]) return one - other;
    if (areNumbers[0] !== areNumbers[1]) return areNumbers[0] ? 1 : -1; // missing values are lowest
    return String(one).localeCompare(String(other));
  }

  function sort(table, heading) {
    const sign = heading.getAttribute("aria-sort") === "descending" ? 1 : -1;
    for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
    heading.setAttribute("aria-sort", sign < 0 ? "descending" : "ascending");
    const column = heading.cellIndex;
    const rows = [...table.tBodies[0].rows];
    rows.sort((a, b) => sign * compare(key(a, column), key(b, column)));
    table.tBodies[0].append(...rows);
  }

  for (const table of document.querySelectorAll("table.sorted")) {
    if (table.tBodies[0].rows.length < 2) continue;
    for (const heading of table.tHead.querySelectorAll("th")) {
      const button = document.createElement("button");
      button.type = "button";
      button.append(...heading.childNodes);
      button.addEventListener("click", () => sort(table, heading));
      heading.append(button);
    }
  }
})();
