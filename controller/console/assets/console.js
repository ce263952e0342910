// Keeps the page up to date while somebody looks at it. Without this script every page works, as it was when it was loaded.
"use strict";

const main = document.getElementById("main");
let source = null;

// Changes what differs and leaves the rest: what somebody has focused, selected, scrolled or typed stays so.
function update(html) {
  Idiomorph.morph(main, html, {
    morphStyle: "innerHTML",
    callbacks: {
      beforeNodeMorphed: (node) => !(node.matches?.("input, textarea") && node.value !== node.defaultValue),
      beforeAttributeUpdated: (name, node) => !(name === "open" && node.matches("details")),
    },
  });
}

function listen() {
  if (source || document.hidden || !main?.dataset.live) return;
  source = new EventSource("/console/live?page=" + encodeURIComponent(main.dataset.live));
  source.addEventListener("main", (event) => update(event.data));
}

// A browser has few connections to one server: a page that nobody sees needs none.
document.addEventListener("visibilitychange", () => {
  if (!document.hidden) return listen();
  source?.close();
  source = null;
});
listen();
