// What keys, pointers and buttons do, and the check that the page drew what was recorded.
function play(on) {
  cancelAnimationFrame(playing);
  playing = 0;
  $("play").setAttribute("aria-label", on ? "Pause" : "Play");
  $("play-shape").setAttribute("d", on ? "M4 2.5h3v11H4zM9 2.5h3v11H9z" : "M4 2.5v11l9.5-5.5z");
  if (!on) return;
  if (frame === lastFrame) frame = 0;
  const started = performance.now(), first = frame;
  const tick = now => {
    goTo(first + Math.floor((now - started) / 1000 * Number($("speed").value)));
    if (frame === lastFrame) play(false); else playing = requestAnimationFrame(tick);
  };
  playing = requestAnimationFrame(tick);
}

function moveBy(frames) {
  play(false);
  goTo(frame + frames);
}

function connectKeys() {
  const moves = {ArrowLeft: -1, ArrowRight: 1, PageUp: -100, PageDown: 100};
  addEventListener("keydown", event => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.tagName === "SELECT") return;
    const inMap = event.target === $("map"), inViews = event.target.type === "radio";
    if (event.key === " " && event.target.tagName !== "BUTTON") play(playing === 0);
    else if (event.key === "Escape") mapView.focusedOwner = 0, gantt.marked = null, schedule();
    else if (event.key >= "1" && event.key <= "3") setView(VIEWS[event.key - 1]);
    else if (event.key === "Home") moveBy(-lastFrame);
    else if (event.key === "End") moveBy(lastFrame);
    else if (event.key in moves && !inMap && !inViews) moveBy(moves[event.key] * (event.shiftKey ? 10 : 1));
    else return;
    event.preventDefault();
  });
  const steps = () => ({ArrowLeft: -1, ArrowRight: 1, ArrowUp: -mapView.columns, ArrowDown: mapView.columns});
  $("map").addEventListener("keydown", event => {
    if (event.key === "Enter") focusOwner(cursor.pool.owner[mapView.hovered]);
    if (!(event.key in steps())) return;
    mapView.hovered = Math.min(history_.numBlocks - 1, Math.max(0, mapView.hovered + steps()[event.key]));
    const [x, y] = mapView.middle(mapView.hovered), box = $("map").getBoundingClientRect();
    showTooltip(mapView.hovered, box.left + x, box.top + y);
    schedule();
    event.preventDefault();
  });
  $("map").addEventListener("blur", () => hover(-1, 0, 0));
}

function hover(b, x, y) {
  showTooltip(b, x, y);
  if (b === mapView.hovered) return;
  mapView.hovered = b;
  schedule();
}

function connectPointers() {
  const blockUnder = event => mapView.blockAt(event.offsetX, event.offsetY);
  $("map").addEventListener("pointermove", event => {
    if (event.pointerType === "mouse") hover(blockUnder(event), event.clientX, event.clientY);
  });
  $("map").addEventListener("pointerleave", event => { if (event.pointerType === "mouse") hover(-1, 0, 0); });
  $("map").addEventListener("click", event => {
    const b = blockUnder(event);
    hover(b, event.clientX, event.clientY);
    if (b >= 0) focusOwner(cursor.pool.owner[b]);
  });
  const scrub = event => {
    if (!(event.buttons & 1)) return;
    play(false);
    goTo(timeline.frameAt(event.offsetX));
  };
  $("timeline").addEventListener("pointerdown", event => { $("timeline").setPointerCapture(event.pointerId); scrub(event); });
  $("timeline").addEventListener("pointermove", scrub);
  $("slider").addEventListener("input", () => { play(false); goTo(Number($("slider").value)); });
  $("back").onclick = () => moveBy(-1);
  $("forward").onclick = () => moveBy(1);
  $("play").onclick = () => play(playing === 0);
  document.querySelectorAll("input[name=view]").forEach(input => input.addEventListener("change", () => setView(input.value)));
}

/** Milliseconds of the fastest of five calls. */
function fastest(call) {
  const times = [];
  for (let i = 0; i < 5; ++i) {
    const before = performance.now();
    call();
    times.push(performance.now() - before);
  }
  return Math.min(...times);
}

/** Recounts the last frame block by block and compares it with what the allocator recorded. Scripts read it from the root element. */
function selfCheck() {
  const end = {pool: new Pool(history_.numBlocks), frame: -1, lastOwner: 0};
  history_.seek(end, lastFrame);
  const recount = {clean: 0, cached: 0, used: 0, pending: 0};
  for (const state of end.pool.state) ++recount[STATE_NAMES[state]];
  const told = description.capacity;
  const agrees = told !== null && Object.keys(recount).every(name => recount[name] === told[name]);
  const drawMs = fastest(() => mapView.draw(cursor.pool, frame, view)), ganttMs = fastest(() => gantt.draw(ganttIndex()));
  const sum = (n, value) => Array.from({length: n}, (_, i) => value(i)).reduce((a, b) => a + b, 0);
  const requests = {
    steps: run.numSteps, answers: run.tracks.length, spans: run.spans.length, drawn: gantt.drawn, draw_ms: ganttMs,
    planned_rows: sum(run.numSteps, s => run.aborted[s] ? 0 : run.rows[s]), shown_rows: sum(run.spans.length, i => run.spans[i].rows),
  };
  document.documentElement.dataset.selfCheck = JSON.stringify({
    blocks_drawn: mapView.drawn, frames: history_.numFrames, last_step: description.last_step, recount, capacity: told, agrees,
    fits: document.documentElement.scrollWidth <= innerWidth, draw_ms: drawMs, requests,
  });
  $("check").textContent = told === null ? "The recording ends without the allocator's own count."
    : agrees ? "At the end of the recording all " + count(history_.numBlocks) + " blocks are in the states that the allocator counted."
    : "The allocator counted other states at the end of the recording: " + JSON.stringify(told) + ", here " + JSON.stringify(recount) + ".";
  $("check").classList.toggle("bad", told !== null && !agrees);
}

function start() {
  const size = plural(description.num_blocks, "block") + " of " + plural(description.block_size, "token");
  const facts = [size, description.policy, description.title];
  $("subtitle").textContent = facts.filter(Boolean).join(" · ") + (description.cut_short ? " · cut short" : "");
  $("of").textContent = "of " + count(description.last_step);
  $("slider").max = lastFrame;
  document.title = description.title + " · kvpage";
  const wishes = new URLSearchParams(location.hash.slice(1));
  for (const [name, value] of wishes) {
    if (name === "step") frame = Math.min(lastFrame, Math.max(0, Math.ceil(Number(value) / description.steps_per_frame) || 0));
    if (name === "view" && VIEWS.includes(value)) view = value;
    if (name === "block") mapView.hovered = Math.min(history_.numBlocks - 1, Number(value) || 0);
  }
  connectKeys();
  connectPointers();
  connectGantt();
  addEventListener("resize", layout);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", layout);
  layout();
  if (wishes.get("axis") === "steps") setAxis("steps");
  if (Number(wishes.get("zoom")) > 1) zoomGantt(1 / Number(wishes.get("zoom")));
  followStep();
  render();
  selfCheck();
}
start();
