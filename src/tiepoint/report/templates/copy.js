// Copy the visible text of a block by its button, in the report and in the pages of a server.
"use strict";
(function () {
  function select(pre) {
    var range = document.createRange(), selection = getSelection();
    range.selectNodeContents(pre);
    selection.removeAllRanges();
    selection.addRange(range);
  }
  document.querySelectorAll("button[data-copy]").forEach(function (button) {
    var text = button.textContent;
    button.hidden = false;
    button.addEventListener("click", function () {
      var pre = Array.from(button.closest(".paper").querySelectorAll("pre")).find(function (p) { return p.offsetParent; });
      function done(copied) {
        button.textContent = copied ? "copied" : "selected: press Ctrl-C";
        setTimeout(function () { button.textContent = text; }, 2000);
      }
      // Browsers offer the clipboard on secure pages only; elsewhere the text is selected and copied.
      if (navigator.clipboard) navigator.clipboard.writeText(pre.textContent).then(function () { done(true); }, function () { select(pre); done(false); });
      else { select(pre); done(document.execCommand("copy")); }
    });
  });
})();
