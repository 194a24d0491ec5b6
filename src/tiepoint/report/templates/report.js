"use strict";
(function () {
  var root = document.documentElement;
  document.getElementById("theme").addEventListener("click", function () {
    var dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
  });

  document.getElementById("checks").addEventListener("change", function (event) {
    root.classList.toggle("no-canaries", !event.target.checked);
  });

  document.getElementById("filter").addEventListener("input", function (event) {
    var wanted = event.target.value.trim().toLowerCase().split(/\s+/).filter(Boolean);
    document.querySelectorAll("[data-method]").forEach(function (row) {
      var name = row.dataset.method.toLowerCase();
      var shown = !wanted.length || wanted.some(function (w) { return name.indexOf(w) >= 0; });
      row.classList.toggle("hidden", !shown);
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

  function rows(csv) {
    return csv.trim().split("\n").map(function (line) {
      return (line.match(/("([^"]|"")*"|[^,]*)(,|$)/g) || []).map(function (cell) {
        return cell.replace(/,$/, "").replace(/^"|"$/g, "").replace(/""/g, '"');
      });
    });
  }

  // Show the heat-map cell under the pointer. The data are those of the CSV button.
  document.querySelectorAll("figure[data-heat]").forEach(function (figure) {
    var picture = figure.querySelector("svg"), said = figure.querySelector("output");
    var box = figure.dataset.heat.split(" ").map(Number), factor = Number(figure.dataset.factor), table;
    picture.addEventListener("mousemove", function (event) {
      table = table || rows(figure.querySelector("button[data-csv]").dataset.csv);
      var area = picture.getBoundingClientRect();
      var x = ((event.clientX - area.left) / area.width - box[0]) / (box[2] - box[0]);
      var y = ((event.clientY - area.top) / area.height - box[1]) / (box[3] - box[1]);
      var wide = table[0].length - 1, high = table.length - 1;
      var row = table[1 + Math.floor(y * high)], column = 1 + Math.floor(x * wide);
      var inside = x >= 0 && x < 1 && y >= 0 && y < 1 && row && row[column] !== undefined;
      said.textContent = inside ? row[0] + " · " + table[0][column] + " · " + (factor * Number(row[column])).toFixed(2) : "";
    });
  });

  function openTarget() {
    var target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    for (var e = target; e; e = e.parentElement) if (e.tagName === "DETAILS") e.open = true;
    var own = target && target.querySelector(":scope > details");
    if (own && target.classList.contains("card")) own.open = true;
    if (target) target.scrollIntoView();
  }
  addEventListener("hashchange", openTarget);
  openTarget();
  addEventListener("beforeprint", function () {
    document.querySelectorAll(".more, .conventions, .two, #cite .fold").forEach(function (fold) { fold.open = true; });
  });
})();
