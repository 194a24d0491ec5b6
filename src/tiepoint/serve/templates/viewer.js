"use strict";
// Zoom and pan all images of a page together, move their matches, hide matches by a slider, flicker.
(function () {
  var panes = Array.from(document.querySelectorAll("svg.pane")), view = { x: 0.5, y: 0.5, k: 1 };
  if (!panes.length) return;
  document.querySelectorAll(".tools.zoom, .tools.cut, .flick").forEach(function (e) { e.hidden = false; });

  function box(pane) {
    var w = Number(pane.dataset.w), h = Number(pane.dataset.h);
    return { x: (view.x - 0.5 / view.k) * w, y: (view.y - 0.5 / view.k) * h, w: w / view.k, h: h / view.k };
  }
  function draw() {
    var half = 0.5 / view.k;
    view.x = Math.min(1 - half, Math.max(half, view.x));
    view.y = Math.min(1 - half, Math.max(half, view.y));
    panes.forEach(function (pane) {
      var b = box(pane);
      pane.setAttribute("viewBox", [b.x, b.y, b.w, b.h].join(" "));
    });
    document.querySelectorAll("svg.matches").forEach(function (figure) {
      var two = figure.querySelectorAll("svg.pane"), boxes = Array.from(two).map(box);
      figure.querySelectorAll(".link").forEach(function (link) {
        var ends = [link.dataset.a, link.dataset.b].map(function (text, i) {
          var p = text.split(" ").map(Number), b = boxes[i];
          var u = (p[0] - b.x) / b.w, v = (p[1] - b.y) / b.h;
          return {
            x: Number(two[i].getAttribute("x")) + u * Number(two[i].getAttribute("width")),
            y: v * Number(two[i].getAttribute("height")), seen: u >= 0 && u <= 1 && v >= 0 && v <= 1,
          };
        });
        var line = link.querySelector("line"), dots = link.querySelectorAll("circle");
        line.setAttribute("x1", ends[0].x); line.setAttribute("y1", ends[0].y);
        line.setAttribute("x2", ends[1].x); line.setAttribute("y2", ends[1].y);
        line.classList.toggle("out", !(ends[0].seen && ends[1].seen));
        dots.forEach(function (dot, i) {
          dot.setAttribute("cx", ends[i].x); dot.setAttribute("cy", ends[i].y);
          dot.classList.toggle("out", !ends[i].seen);
        });
      });
    });
  }
  function zoom(by, at) {
    var k = Math.min(40, Math.max(1, view.k * by));
    if (at) {
      view.x = at.x + (view.x - at.x) * view.k / k;
      view.y = at.y + (view.y - at.y) * view.k / k;
    }
    view.k = k;
    draw();
  }
  // Position of a pointer, as fractions of the image below it.
  function spot(pane, event) {
    var area = pane.getBoundingClientRect(), b = box(pane);
    return {
      x: (b.x + b.w * (event.clientX - area.left) / area.width) / Number(pane.dataset.w),
      y: (b.y + b.h * (event.clientY - area.top) / area.height) / Number(pane.dataset.h),
    };
  }
  function pane_at(event) {
    return panes.find(function (pane) {
      var a = pane.getBoundingClientRect();
      return event.clientX >= a.left && event.clientX <= a.right && event.clientY >= a.top && event.clientY <= a.bottom;
    });
  }
  document.querySelectorAll("svg.matches, svg.view").forEach(function (figure) {
    var held = null, fingers = new Map(), apart = 0;
    figure.addEventListener("wheel", function (event) {
      var pane = pane_at(event);
      if (!pane || (view.k === 1 && event.deltaY > 0)) return;
      event.preventDefault();
      zoom(event.deltaY < 0 ? 1.25 : 0.8, spot(pane, event));
    }, { passive: false });
    figure.addEventListener("pointerdown", function (event) {
      fingers.set(event.pointerId, event);
      held = pane_at(event);
      if (held && view.k > 1) figure.setPointerCapture(event.pointerId);
    });
    figure.addEventListener("pointermove", function (event) {
      var last = fingers.get(event.pointerId);
      if (!last || !held) return;
      fingers.set(event.pointerId, event);
      if (fingers.size === 2) {
        var two = Array.from(fingers.values()), now = Math.hypot(two[0].clientX - two[1].clientX, two[0].clientY - two[1].clientY);
        if (apart) zoom(now / apart, spot(held, event));
        apart = now;
      } else if (view.k > 1) {
        var area = held.getBoundingClientRect();
        view.x -= (event.clientX - last.clientX) / area.width / view.k;
        view.y -= (event.clientY - last.clientY) / area.height / view.k;
        draw();
      }
    });
    ["pointerup", "pointercancel", "pointerleave"].forEach(function (name) {
      figure.addEventListener(name, function (event) { fingers.delete(event.pointerId); apart = 0; if (!fingers.size) held = null; });
    });
    figure.addEventListener("dblclick", function (event) { var pane = pane_at(event); if (pane) zoom(2, spot(pane, event)); });
  });
  document.querySelectorAll("button[data-zoom]").forEach(function (button) {
    button.addEventListener("click", function () {
      if (button.dataset.zoom === "all") { view.k = 1; draw(); } else zoom(button.dataset.zoom === "in" ? 1.5 : 1 / 1.5);
    });
  });

  document.querySelectorAll("input[data-cut]").forEach(function (slider) {
    var links = Array.from(slider.closest("section").querySelectorAll(".link")), said = slider.closest("p").querySelector("output");
    var known = links.map(function (l) { return l.dataset.by === "" ? NaN : Number(l.dataset.by); });
    var sorted = known.filter(function (v) { return !isNaN(v); }).sort(function (a, b) { return a - b; });
    var least = slider.dataset.cut === "confidence";
    if (!sorted.length) { slider.closest("p").hidden = true; return; }
    slider.addEventListener("input", function () {
      var at = sorted[Math.round((sorted.length - 1) * slider.value / 100)], end = Number(slider.value) === (least ? 0 : 100), shown = 0;
      links.forEach(function (link, i) {
        var on = end || (least ? known[i] >= at : known[i] <= at);
        link.classList.toggle("cut", !on);
        shown += on;
      });
      said.textContent = end ? "" : (least ? "at least " : "at most ") + Number(at.toPrecision(3)) + (least ? "" : " px") + ": " + shown + " of " + links.length;
    });
  });

  var timer = null;
  function flicker() {
    if (timer) { clearInterval(timer); timer = null; document.querySelectorAll(".flicker").forEach(function (e) { e.classList.remove("off"); }); return; }
    timer = setInterval(function () { document.querySelectorAll(".flicker").forEach(function (e) { e.classList.toggle("off"); }); }, 450);
  }
  document.querySelectorAll(".flick").forEach(function (b) { b.addEventListener("click", flicker); });
  document.addEventListener("keydown", function (event) {
    if (event.altKey || event.ctrlKey || event.metaKey || /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)) return;
    if (event.key === "f" && document.querySelector(".flicker")) flicker();
    else if (event.key === "+") zoom(1.5);
    else if (event.key === "-") zoom(1 / 1.5);
    else if (event.key === "0") { view.k = 1; draw(); }
  });
})();
