"use strict";
// Draw the cameras and points of a reconstruction on a canvas; drag to turn, wheel to zoom, shift-drag to move.
(function () {
  var canvas = document.querySelector("canvas.cameras");
  if (!canvas) return;
  var scene = JSON.parse(canvas.dataset.scene), label = document.getElementById("camera-name");
  var pen = canvas.getContext("2d"), state, start = null;
  var shown = { truth: true, estimate: true, points: true }, colours = { truth: "#009E73", estimate: "#D55E00" };

  function turned(p) {
    var a = Math.cos(state.yaw), b = Math.sin(state.yaw), c = Math.cos(state.pitch), d = Math.sin(state.pitch);
    var x = p[0] - scene.middle[0], y = p[1] - scene.middle[1], z = p[2] - scene.middle[2];
    var across = a * x + b * y, ahead = -b * x + a * y;
    var scale = (state.zoom * Math.min(canvas.width, canvas.height)) / (2.2 * scene.extent);
    return [canvas.width / 2 + state.x + scale * across, canvas.height / 2 + state.y - scale * (c * z + d * ahead)];
  }
  function fit(yaw, pitch) {  // turn the view, then fill the canvas with all that is not far away
    state = { yaw: yaw, pitch: pitch, zoom: 1, x: 0, y: 0 };
    var all = scene.points.concat(scene.truth.concat(scene.estimate).map(function (c) { return c.centre; }));
    var low = [Infinity, Infinity], high = [-Infinity, -Infinity];
    all.forEach(function (p) {
      var away = Math.hypot(p[0] - scene.middle[0], p[1] - scene.middle[1], p[2] - scene.middle[2]);
      if (away > 2 * scene.extent) return;
      turned(p).forEach(function (v, i) { low[i] = Math.min(low[i], v); high[i] = Math.max(high[i], v); });
    });
    if (!(high[0] > low[0] && high[1] > low[1])) return;
    var zoom = 0.85 * Math.min(canvas.width / (high[0] - low[0]), canvas.height / (high[1] - low[1]));
    state.x = zoom * (canvas.width - low[0] - high[0]) / 2;
    state.y = zoom * (canvas.height - low[1] - high[1]) / 2;
    state.zoom = zoom;
  }
  function line(points, colour, width) {
    pen.strokeStyle = colour; pen.lineWidth = width; pen.beginPath();
    points.forEach(function (p, i) { var q = turned(p); if (i) pen.lineTo(q[0], q[1]); else pen.moveTo(q[0], q[1]); });
    pen.stroke();
  }
  function camera(c, colour, width) {
    for (var k = 0; k < 4; k++) line([c.centre, c.corners[k], c.corners[(k + 1) % 4]], colour, width);
  }
  function draw() {
    pen.clearRect(0, 0, canvas.width, canvas.height);
    if (shown.points) {
      pen.fillStyle = getComputedStyle(canvas).color; pen.globalAlpha = 0.5;
      scene.points.forEach(function (p) { var q = turned(p); pen.fillRect(q[0], q[1], 1.5, 1.5); });
      pen.globalAlpha = 1;
    }
    if (shown.truth) scene.truth.forEach(function (c) { camera(c, colours.truth, 3); });
    if (shown.estimate) scene.estimate.forEach(function (c) { camera(c, colours.estimate, 1.2); });
  }
  function at(event) {
    var box = canvas.getBoundingClientRect();
    return [(event.clientX - box.left) * canvas.width / box.width, (event.clientY - box.top) * canvas.height / box.height];
  }
  canvas.addEventListener("pointerdown", function (e) {
    start = { at: at(e), state: Object.assign({}, state) }; canvas.setPointerCapture(e.pointerId);
  });
  canvas.addEventListener("pointerup", function () { start = null; });
  canvas.addEventListener("pointermove", function (e) {
    var p = at(e);
    if (start) {
      var dx = p[0] - start.at[0], dy = p[1] - start.at[1];
      if (e.shiftKey) { state.x = start.state.x + dx; state.y = start.state.y + dy; }
      else {
        state.yaw = start.state.yaw - dx / 200;
        state.pitch = Math.max(-1.57, Math.min(1.57, start.state.pitch + dy / 200));
      }
      draw();
      return;
    }
    var best = null, near = 12;
    [["truth", "true"], ["estimate", "estimated"]].forEach(function (kind) {
      if (shown[kind[0]]) scene[kind[0]].forEach(function (c) {
        var q = turned(c.centre), away = Math.hypot(q[0] - p[0], q[1] - p[1]);
        if (away < near) { near = away; best = c.name + " (" + kind[1] + ")"; }
      });
    });
    label.textContent = best || "";
  });
  canvas.addEventListener("wheel", function (e) {
    e.preventDefault(); state.zoom *= Math.exp(-e.deltaY / 500); draw();
  }, { passive: false });
  document.querySelectorAll("input[data-layer]").forEach(function (box) {
    box.addEventListener("change", function () { shown[box.dataset.layer] = box.checked; draw(); });
  });
  document.querySelectorAll("button[data-pitch]").forEach(function (button) {
    button.addEventListener("click", function () {
      fit(Number(button.dataset.yaw), Number(button.dataset.pitch)); draw();
    });
  });
  canvas.addEventListener("keydown", function (e) {
    var moves = { ArrowLeft: ["yaw", 0.1], ArrowRight: ["yaw", -0.1], ArrowUp: ["pitch", 0.1], ArrowDown: ["pitch", -0.1] };
    if (!moves[e.key]) return;
    e.preventDefault(); e.stopPropagation(); state[moves[e.key][0]] += moves[e.key][1]; draw();
  });
  fit(0.5, 0.5);
  draw();
})();
