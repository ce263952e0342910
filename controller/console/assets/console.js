// Keeps the page up to date while somebody looks at it. Without this script every page works, as it was when it was loaded.
"use strict";

const main = document.getElementById("main");
const pause = document.getElementById("pause");
let source = null;
let isPaused = false;

// Changes what differs and leaves the rest: what somebody has focused, selected, scrolled, opened or typed stays so.
function update(html) {
  Idiomorph.morph(main, html, {
    morphStyle: "innerHTML",
    callbacks: {
      beforeNodeMorphed: (node) => !(node.matches?.("input, textarea") && node.value !== node.defaultValue),
      beforeAttributeUpdated: (name, node) => !(name === "open" && node.matches("details")),
    },
  });
}

function stop() {
  source?.close();
  source = null;
}

// The controller has no more to say: the session has ended, or what the page showed is gone.
function ended() {
  stop();
  isPaused = true;
  pause.hidden = true;
  document.getElementById("stale").hidden = false;
}

function listen() {
  if (source || isPaused || document.hidden) return;
  const { live, mark } = main.dataset;
  source = new EventSource(`/console/live?page=${encodeURIComponent(live)}&mark=${mark}`);
  source.addEventListener("main", (event) => update(event.data));
  source.addEventListener("ended", ended);
  source.addEventListener("error", () => source?.readyState === EventSource.CLOSED && ended());
}

if (main?.dataset.live) {
  pause.hidden = false;
  pause.addEventListener("click", () => {
    isPaused = !isPaused;
    pause.setAttribute("aria-pressed", String(isPaused));
    isPaused ? stop() : listen();
  });
  // A browser has few connections to one server: a page that nobody sees needs none.
  document.addEventListener("visibilitychange", () => (document.hidden ? stop() : listen()));
  listen();
}
