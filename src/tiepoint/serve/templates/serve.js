"use strict";
(function () {
  var root = document.documentElement, saved = document.body.dataset.saved;
  try { if (localStorage.theme) root.dataset.theme = localStorage.theme; } catch (e) { /* storage is disabled: the choice is lost */ }
  var theme = document.getElementById("theme");
  if (theme) theme.addEventListener("click", function () {
    var dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
    try { localStorage.theme = root.dataset.theme; } catch (e) { /* storage is disabled: the choice is lost */ }
  });

  // j and k select a link, and Enter opens it. On a page with a previous and a next page, the arrows open them.
  var steps = function () { return Array.from(document.querySelectorAll("a.step")); }, at = -1;
  function go(by) {
    var list = steps();
    if (!list.length) return false;
    at = Math.min(list.length - 1, Math.max(0, at + by));
    document.querySelectorAll(".here").forEach(function (e) { e.classList.remove("here"); });
    (list[at].closest("tr, .tile, .card, .pair-case") || list[at]).classList.add("here");
    list[at].focus({ preventScroll: false });
    return true;
  }
  function follow(rel) {
    var link = document.querySelector('a[rel="' + rel + '"]');
    if (link) link.click();
    return Boolean(link);
  }
  document.addEventListener("keydown", function (event) {
    if (event.altKey || event.ctrlKey || event.metaKey || /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)) return;
    var done = false;
    if (event.key === "j") done = go(1) || follow("next");
    else if (event.key === "k") done = go(-1) || follow("prev");
    else if (event.key === "ArrowRight") done = follow("next");
    else if (event.key === "ArrowLeft") done = follow("prev");
    else if (event.key === "u") done = follow("up");
    if (done) event.preventDefault();
  });

  var now = document.getElementById("now");
  if (now && !saved && window.EventSource) {
    var runs = Number(now.dataset.runs), source = new EventSource((root.dataset.prefix || "") + "/events");
    source.onmessage = function (event) {
      var state = JSON.parse(event.data), box = document.getElementById("working");
      box.textContent = "";
      now.hidden = !state.working.length;
      state.working.forEach(function (w) {
        var div = document.createElement("div"), name = document.createElement("b"), pid = document.createElement("span");
        div.className = "work";
        name.textContent = w.what + " ";
        pid.className = "dim";
        pid.textContent = "process " + w.pid;
        div.append(name, pid);
        w.stages.forEach(function (s) {
          var label = document.createElement("label"), bar = document.createElement("progress");
          bar.max = s.total || 1;
          bar.value = s.done;
          label.append(s.name + " ", bar, " " + s.done + " of " + s.total);
          div.append(label);
        });
        box.append(div);
      });
      if (state.runs !== runs) location.reload();
    };
    addEventListener("pagehide", function () { source.close(); });
  }
})();
