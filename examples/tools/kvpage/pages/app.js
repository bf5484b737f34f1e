// Controls: the slider, playing, the tooltip, and the figures beside the map.
const $ = id => document.getElementById(id);
const description = JSON.parse($("description").textContent);
const history_ = new History(description, $("frames").textContent);
const colours = new Colours();
const mapView = new BlockMapView($("map"), history_, colours, description.steps_per_frame);
const timeline = new Timeline($("timeline"), history_, colours);
const run = new RunLog(description.answers, $("run").textContent);
const gantt = new Gantt($("gantt"), run, colours);
const cursor = {pool: new Pool(history_.numBlocks), frame: -1, lastOwner: 0};
const lastFrame = history_.numFrames - 1;
const CATEGORY_NAMES = ["clean", "cached", "one sequence", "pending", "shared"];
const STATE_NAMES = ["clean", "cached", "used", "pending"];
let frame = description.fullest_frame, view = "owner", playing = 0, scheduled = false;

const count = n => n.toLocaleString("en");
const plural = (n, word) => count(n) + " " + word + (n === 1 ? "" : "s");
const stepOf = f => Math.min(f * description.steps_per_frame, description.last_step);
const element = (tag, className, text = "") => Object.assign(document.createElement(tag), {className, textContent: text});
const requestOf = owner => run.trackOfSequence.has(owner) ? run.trackOfSequence.get(owner).name + " · " : "";
const nameOf = owner => owner === 0 ? "no sequence" : requestOf(owner) + "sequence " + owner;

function schedule() {
  if (scheduled) return;
  scheduled = true;
  requestAnimationFrame(() => { scheduled = false; render(); });
}
function goTo(f) {
  frame = Math.min(lastFrame, Math.max(0, f));
  followStep();
  schedule();
}

function render() {
  history_.seek(cursor, frame);
  mapView.draw(cursor.pool, frame, view);
  timeline.draw(frame);
  fitRows();
  gantt.draw(ganttIndex());
  $("slider").value = frame;
  $("slider").setAttribute("aria-valuetext", "step " + stepOf(frame));
  $("step").textContent = count(stepOf(frame));
  showCounts();
  showSequences();
  showDetail(mapView.hovered);
  showStepFacts();
}

function showCounts() {
  const counts = history_.counts.subarray(frame * NUM_CATEGORIES, (frame + 1) * NUM_CATEGORIES);
  const list = $("counts"), bar = $("shares");
  list.replaceChildren(), bar.replaceChildren();
  for (const category of [USED, SHARED, PENDING, CACHED, CLEAN]) {
    const colour = category === USED ? "var(--used-area)" : colours.state[category];
    const name = element("dt", "", ""), swatch = element("span", category === CLEAN ? "swatch hollow" : "swatch");
    swatch.style[category === CLEAN ? "borderColor" : "background"] = colour;
    name.append(swatch, CATEGORY_NAMES[category]);
    const share = 100 * counts[category] / history_.numBlocks;
    list.append(name, element("dd", "", count(counts[category])), element("dd", "", share.toFixed(1) + " %"));
    const part = element("div", "");
    part.style.cssText = "flex: " + counts[category] + " 0 0; background: " + colour;
    if (counts[category] > 0) bar.append(part);
  }
  const totals = history_.totals.subarray(frame * 4, frame * 4 + 4);
  $("totals").replaceChildren();
  [["Sequences", totals[3]], ["Evictions so far", totals[0]], ["Copies so far", totals[1]], ["Cached tokens so far", totals[2]]].forEach(
    ([name, n]) => $("totals").append(element("dt", "", name), element("dd", "", count(n))));
}

function showSequences() {
  const sizes = new Map(), {state, owner} = cursor.pool;
  for (let b = 0; b < history_.numBlocks; ++b) {
    if (state[b] === USED && owner[b] !== 0) sizes.set(owner[b], (sizes.get(owner[b]) || 0) + 1);
  }
  const largest = [...sizes].sort((a, b) => b[1] - a[1] || a[0] - b[0]).slice(0, 8);
  $("sequences").replaceChildren(...largest.map(([generation, size]) => {
    const button = element("button", ""), swatch = element("span", "swatch");
    button.type = "button";
    button.setAttribute("aria-pressed", mapView.focusedOwner === generation);
    swatch.style.background = colours.ofSequence(generation);
    button.append(swatch, element("span", "name", nameOf(generation)), element("span", "size", plural(size, "block")));
    button.onclick = () => focusOwner(generation);
    const item = element("li", "");
    item.append(button);
    return item;
  }));
  if (largest.length === 0) $("sequences").append(element("li", "none", "No sequence holds a block at this step."));
}

function focusOwner(generation) {
  mapView.focusedOwner = mapView.focusedOwner === generation ? 0 : generation;
  gantt.marked = run.trackOfSequence.get(mapView.focusedOwner) || null;
  if (gantt.marked !== null && gantt.rows[gantt.marked.row] === gantt.marked) scrollToRow(gantt.marked.row - 4);
  schedule();
}

function factsOf(b) {
  const {pool} = cursor, refs = pool.refs[b];
  const steps = f => plural(stepOf(frame) - stepOf(f), "step");
  const facts = [["State", STATE_NAMES[pool.state[b]] + (refs > 1 ? ", shared" : "")]];
  if (refs > 0) facts.push(["Owner", nameOf(pool.owner[b]) + (refs > 1 ? " and " + count(refs - 1) + " more" : "")]);
  facts.push(["References", count(refs)]);
  if (pool.state[b] !== CLEAN) facts.push(["Age", steps(pool.taken[b])]);
  facts.push(["Last change", steps(pool.changed[b]) + " ago"]);
  if (pool.key[b] !== 0 && pool.state[b] !== CLEAN) facts.push(["Content key", history_.keyText(pool.key[b])]);
  return facts;
}

function showDetail(b) {
  const box = $("detail");
  box.replaceChildren(element("h2", "", b < 0 ? "Block" : "Block " + count(b)));
  if (b < 0) {
    box.append(element("p", "none", "Point at a block or tap it. A click also shows the other blocks of its sequence."));
    return;
  }
  const list = element("dl", "");
  for (const [name, value] of factsOf(b)) {
    const text = element("dd", "", name === "Content key" ? "" : value);
    if (name === "Content key") text.append(element("code", "", value));
    list.append(element("dt", "", name), text);
  }
  box.append(list);
}

function showTooltip(b, x, y) { showFacts(b < 0 ? null : "Block " + count(b), b < 0 ? [] : factsOf(b), x, y); }

/** A tooltip beside a point of the window; without a title it is hidden. */
function showFacts(title, facts, x, y) {
  const box = $("tooltip");
  box.hidden = title === null;
  if (title === null) return;
  box.replaceChildren(element("b", "", title));
  for (const [name, value] of facts) box.append(element("br", ""), element("span", "", name + " "), value);
  const left = x + 16 + box.offsetWidth > innerWidth ? x - 16 - box.offsetWidth : x + 16;
  box.style.left = Math.max(8, left) + "px";
  box.style.top = Math.max(8, Math.min(y + 16, innerHeight - box.offsetHeight - 8)) + "px";
}

function setView(name) {
  view = name;
  document.querySelector("input[value=" + name + "]").checked = true;
  $("legend").replaceChildren(...colours.legend(name).map(([colour, text, shape]) => {
    const item = element("li", ""), swatch = element("span", "swatch " + (shape || ""));
    if (colour === "owners") {
      swatch.classList.add("owners");
      for (let i = 0; i < 3; ++i) swatch.append(element("i", ""));
      [...swatch.children].forEach((part, i) => { part.style.background = colours.ofSequence(i + 1); });
    } else if (shape === "hollow") {
      swatch.style.borderColor = colour;
    } else {
      swatch.style.background = colour;
    }
    item.append(swatch, text);
    return item;
  }));
  schedule();
}

function layout() {
  colours.refresh();
  const room = $("map-room").clientWidth, hasRequests = run.tracks.length > 0;
  $("requests").hidden = !hasRequests;
  if (hasRequests) layoutGantt();
  const others = hasRequests ? 700 : 375;
  mapView.fit(room, innerWidth > 900 ? Math.max(320, innerHeight - others) : 540);
  timeline.fit($("time-room").clientWidth, innerWidth > 900 ? 72 : 56);
  setView(view);
}
