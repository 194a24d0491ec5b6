"use strict";
(function () {
  var root = document.documentElement;
  document.getElementById("theme").addEventListener("click", function () {
    var dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
  });

  document.getElementById("filter").addEventListener("input", function (event) {
    var wanted = event.target.value.trim().toLowerCase().split(/\s+/).filter(Boolean);
    document.querySelectorAll("[data-method]").forEach(function (row) {
      var name = row.dataset.method.toLowerCase();
      var shown = !wanted.length || wanted.some(function (w) { return name.indexOf(w) >= 0; });
      row.classList.toggle("hidden", !shown);
    });
  });

  function value(cell) {
    var raw = cell.dataset.value !== undefined ? cell.dataset.value : cell.textContent.trim();
    var number = parseFloat(raw);
    return isNaN(number) ? raw : number;
  }

  document.querySelectorAll("table.sortable").forEach(function (table) {
    table.querySelectorAll("thead th").forEach(function (head, column) {
      head.tabIndex = 0;
      function sort() {
        var down = head.getAttribute("aria-sort") !== "descending";
        table.querySelectorAll("thead th").forEach(function (h) { h.removeAttribute("aria-sort"); });
        head.setAttribute("aria-sort", down ? "descending" : "ascending");
        var body = table.tBodies[0];
        Array.from(body.rows).map(function (row, i) { return { row: row, i: i, v: value(row.cells[column]) }; })
          .sort(function (a, b) {
            var missing = (a.v === "") - (b.v === "");
            if (missing) return missing;
            var order = typeof a.v === "number" && typeof b.v === "number" ? a.v - b.v : String(a.v).localeCompare(String(b.v));
            return (down ? -order : order) || a.i - b.i;
          })
          .forEach(function (item) { body.appendChild(item.row); });
      }
      head.addEventListener("click", sort);
      head.addEventListener("keydown", function (e) { if (e.key === "Enter") sort(); });
    });
  });

  document.querySelectorAll("button[data-get]").forEach(function (button) {
    button.addEventListener("click", function () {
      var figure = button.closest("figure");
      var kind = button.dataset.get;
      var text = kind === "csv" ? button.dataset.csv : new XMLSerializer().serializeToString(figure.querySelector("svg"));
      var link = document.createElement("a");
      link.href = URL.createObjectURL(new Blob([text], { type: kind === "csv" ? "text/csv" : "image/svg+xml" }));
      link.download = button.dataset.name + "." + kind;
      link.click();
      setTimeout(function () { URL.revokeObjectURL(link.href); }, 1000);
    });
  });

  function openTarget() {
    var target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (target && target.tagName === "DETAILS") target.open = true;
  }
  addEventListener("hashchange", openTarget);
  openTarget();
})();
