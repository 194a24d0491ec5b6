// Sort a table by a click or Enter on a column head, in the report and in the pages of a server.
"use strict";
(function () {
  // Return a number, a text, or null for an empty cell. Empty cells are last in both orders.
  function value(cell) {
    var raw = cell.dataset.value !== undefined ? cell.dataset.value : cell.textContent.trim();
    if (raw === "" || raw === "–") return null;
    var number = Number(raw);
    return isNaN(number) ? raw : number;
  }

  document.querySelectorAll("table.sortable").forEach(function (table) {
    var heads = table.querySelectorAll("thead th");
    heads.forEach(function (head, column) {
      head.tabIndex = 0;
      function sort(event) {
        if (event.target.closest("a")) return;
        var down = head.getAttribute("aria-sort") !== "descending";
        heads.forEach(function (h) { h.removeAttribute("aria-sort"); });
        head.setAttribute("aria-sort", down ? "descending" : "ascending");
        var body = table.tBodies[0];
        Array.from(body.rows).map(function (row, i) { return { row: row, i: i, v: value(row.cells[column]) }; })
          .sort(function (a, b) {
            var missing = (a.v === null) - (b.v === null);
            if (missing || a.v === null) return missing || a.i - b.i;
            var order = typeof a.v === "number" && typeof b.v === "number" ? a.v - b.v : String(a.v).localeCompare(String(b.v));
            return (down ? -order : order) || a.i - b.i;
          })
          .forEach(function (item) { body.appendChild(item.row); });
      }
      head.addEventListener("click", sort);
      head.addEventListener("keydown", function (e) { if (e.key === "Enter") sort(e); });
    });
  });
})();
