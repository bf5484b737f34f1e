// Requests over time: zoom, scroll, the step and the request that are selected, and the legend.
const ganttRoom = () => $("gantt-scroll");

function ganttIndex() { return run.indexOf(stepOf(frame)); }

/** Brings the selected step into view, and somebody who has rows in it. */
function followStep() {
  const s = ganttIndex();
  if (s < 0) return;
  const at = gantt.stepBegin(s), size = gantt.last - gantt.first;
  if (at < gantt.first || at > gantt.last) gantt.show(at - size / 2, at + size / 2);
  const time = run.begin[s], from = Math.floor(gantt.top / ROW_HEIGHT), shown = Math.floor((gantt.height - RULER_HEIGHT) / ROW_HEIGHT);
  const there = track => track.begin <= time && track.end >= time;
  const first = gantt.rows.slice(from, from + shown).some(there) ? undefined : gantt.rows.find(there);
  if (first) scrollToRow(first.row - 2);
}

/** As many rows as there are can be scrolled. */
function fitRows() { $("gantt-rows").style.height = Math.max(gantt.height, gantt.contentHeight()) + "px"; }
function scrollToRow(row) {
  fitRows();
  ganttRoom().scrollTop = Math.max(0, row) * ROW_HEIGHT;
  gantt.top = ganttRoom().scrollTop;
}

function showStepFacts() {
  const s = ganttIndex();
  if (s < 0) return $("step-facts").replaceChildren();
  const facts = [plural(run.rows[s], "row"), plural(run.seqs[s], "sequence"), duration(run.end[s] - run.begin[s])];
  if (run.aborted[s]) facts.push("aborted");
  if (run.demoted[s] > 0) facts.push(plural(run.demoted[s], "block") + " demoted");
  if (run.promoted[s] > 0) facts.push(plural(run.promoted[s], "block") + " promoted");
  $("step-facts").replaceChildren(element("b", "", "Step " + count(run.id[s])), " · " + facts.join(" · "));
}

function answerFacts(track, span) {
  const facts = [];
  if (span) {
    facts.push(["State", description.states[span.state] + ", " + duration(span.end - span.begin)]);
    const steps = span.steps === 1 ? "step " + count(run.id[span.step]) : span.steps > 1
      ? "steps " + count(run.id[span.step]) + " to " + count(run.id[span.step + span.steps - 1]) : "";
    if (steps) facts.push(["Rows", plural(span.rows, "row") + " from position " + count(span.position) + ", " + steps]);
  }
  const cached = track.cached > 0 ? ", " + count(track.cached) + " cached" : "";
  if (track.prompt > 0) facts.push(["Prompt", plural(track.prompt, "token") + cached]);
  const preempted = track.preemptions.map((n, i) => n > 0 ? n + " " + ["kept", "demoted", "recomputed"][i] : "").filter(Boolean);
  if (preempted.length > 0) facts.push(["Preempted", preempted.join(", ")]);
  if (track.promoted > 0) facts.push(["From the host tier", plural(track.promoted, "block")]);
  facts.push(["End", track.finished < 0 ? "not in the trace" : track.reason + " after " + duration(track.finished - track.begin)]);
  if (track.finished >= 0) facts.push(["Answer", plural(track.output, "token")]);
  return facts;
}

/** The map shows the blocks of the sequence of this request that has most of them. */
function focusTrack(track) {
  gantt.marked = gantt.marked === track ? null : track;
  mapView.focusedOwner = 0;
  if (gantt.marked === null) return schedule();
  history_.seek(cursor, frame);
  const sizes = new Map(track.sequences.map(generation => [generation, 0]));
  for (const owner of cursor.pool.owner) if (sizes.has(owner)) sizes.set(owner, sizes.get(owner) + 1);
  const [generation, size] = [...sizes].reduce((a, b) => b[1] > a[1] ? b : a, [0, 0]);
  if (size > 0) mapView.focusedOwner = generation;
  schedule();
}

function showAnswerTooltip(event) {
  const track = gantt.trackUnder(event.offsetY);
  const span = track && event.offsetX >= gantt.gutter ? run.spanAt(track, gantt.timeOf(gantt.valueAt(event.offsetX))) : null;
  showFacts(track === null ? null : track.name, track === null ? [] : answerFacts(track, span), event.clientX, event.clientY);
}

function selectInGantt(event) {
  const track = gantt.trackUnder(event.offsetY), s = gantt.stepUnder(event.offsetX);
  if (event.offsetX >= gantt.gutter && s >= 0) {
    play(false);
    goTo(Math.ceil(run.id[s] / description.steps_per_frame));
  }
  if (track !== null && track !== gantt.marked) focusTrack(track);
  else if (event.offsetX < gantt.gutter && track !== null) focusTrack(track);
}

/** Around the selected step. */
function zoomGantt(times) {
  const s = Math.max(0, ganttIndex());
  if (run.numSteps > 0) gantt.zoom(times, gantt.xOf(gantt.stepBegin(s)));
  schedule();
}

function setAxis(axis) {
  gantt.setAxis(axis);
  document.querySelector("input[name=axis][value=" + axis + "]").checked = true;
  schedule();
}

function connectGantt() {
  const canvas = $("gantt");
  let drag = null;
  canvas.addEventListener("pointerdown", event => { drag = {x: event.clientX, moved: false}; });
  canvas.addEventListener("pointermove", event => {
    if (drag === null || !(event.buttons & 1)) return event.pointerType === "mouse" ? showAnswerTooltip(event) : undefined;
    if (!drag.moved && Math.abs(event.clientX - drag.x) < 4) return;
    if (!drag.moved) canvas.setPointerCapture(event.pointerId);
    gantt.pan(drag.x - event.clientX);
    drag = {x: event.clientX, moved: true};
    showFacts(null, [], 0, 0);
    schedule();
  });
  canvas.addEventListener("pointerup", event => { if (drag && !drag.moved) selectInGantt(event); });
  canvas.addEventListener("pointerleave", () => showFacts(null, [], 0, 0));
  canvas.addEventListener("wheel", event => {
    const sideways = event.shiftKey ? event.deltaY || event.deltaX : Math.abs(event.deltaX) > Math.abs(event.deltaY) ? event.deltaX : 0;
    if (event.ctrlKey || event.metaKey) gantt.zoom(Math.exp(event.deltaY * 0.004), event.offsetX);
    else if (sideways !== 0) gantt.pan(sideways);
    else return;
    event.preventDefault();
    schedule();
  }, {passive: false});
  ganttRoom().addEventListener("scroll", () => { gantt.top = ganttRoom().scrollTop; schedule(); });
  $("zoom-in").onclick = () => zoomGantt(0.5);
  $("zoom-out").onclick = () => zoomGantt(2);
  $("zoom-all").onclick = () => { gantt.show(0, gantt.length()); schedule(); };
  document.querySelectorAll("input[name=axis]").forEach(input => input.addEventListener("change", () => setAxis(input.value)));
  addEventListener("keydown", event => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "+" || event.key === "=") zoomGantt(0.5);
    if (event.key === "-") zoomGantt(2);
    if (event.key === "0") $("zoom-all").onclick();
  });
}

function layoutGantt() {
  const room = ganttRoom(), all = RULER_HEIGHT + run.tracks.length * ROW_HEIGHT;
  const height = Math.min(all, innerWidth > 900 ? 256 : 220);
  room.style.height = height + "px";
  gantt.fit(room.clientWidth, height);
  fitRows();
  const states = description.states.map((name, state) => [name, state]).filter(([, state]) => run.spans.some(span => span.state === state));
  $("gantt-legend").replaceChildren(...states.map(([name, state]) => {
    const item = element("li", ""), swatch = element("span", "swatch" + (computes(state) ? "" : " thin"));
    swatch.style.background = colours.answer[state];
    item.append(swatch, name);
    return item;
  }));
}
