// Answers over time: a row each. Wide bars compute, thin ones wait.
const ROW_HEIGHT = 18, RULER_HEIGHT = 22, CLOSEST_STEPS = 4;

class Gantt {
  constructor(canvas, run, colours) {
    this.canvas = canvas;
    this.run = run;
    this.colours = colours;
    this.axis = "time";  // or "steps"
    this.first = 0;      // what is shown, in units of the axis
    this.last = this.length();
    this.top = 0;        // rows scrolled out, in pixels
    this.marked = null;  // the track whose blocks the map shows
    this.drawn = 0;
    this.listRows();
  }

  length() { return this.axis === "time" ? this.run.duration : Math.max(1, this.run.numSteps); }
  setAxis(axis) {
    const [a, b] = [this.first, this.last].map(x => this.timeOf(x));
    this.axis = axis;
    this.show(this.onAxis(a), this.onAxis(b));
  }
  onAxis(time) { return this.axis === "time" ? time : this.run.stepsUntil(time); }
  timeOf(x) {
    if (this.axis === "time") return x;
    const s = Math.min(this.run.numSteps - 1, Math.max(0, Math.floor(x)));
    return this.run.numSteps === 0 ? 0 : this.run.begin[s] + (x - s) * (this.run.end[s] - this.run.begin[s]);
  }
  stepBegin(s) { return this.axis === "time" ? this.run.begin[s] : s; }
  stepEnd(s) { return this.axis === "time" ? this.run.end[s] : s + 1; }

  fit(width, height) {
    const dpr = window.devicePixelRatio || 1;
    this.gutter = width > 600 ? 132 : 92;
    [this.width, this.height, this.scale] = [width, height, dpr];
    this.canvas.width = Math.round(width * dpr), this.canvas.height = Math.round(height * dpr);
    this.canvas.style.width = width + "px", this.canvas.style.height = height + "px";
  }

  /** Shows this part of the axis, moved and widened until it lies on it and is wide enough. */
  show(first, last) {
    const closest = this.length() * Math.min(1, CLOSEST_STEPS / Math.max(1, this.run.numSteps));
    const size = Math.min(this.length(), Math.max(closest, last - first));
    this.first = Math.min(this.length() - size, Math.max(0, (first + last - size) / 2));
    this.last = this.first + size;
    this.listRows();
  }
  /** Only answers that live in the part that is shown have rows. */
  listRows() {
    const low = this.timeOf(this.first), high = this.timeOf(this.last), whole = this.last - this.first >= this.length();
    this.rows = this.run.tracks.filter(track => whole || (track.begin <= high && track.end >= low));
    this.rows.forEach((track, i) => { track.row = i; });
  }
  /** Makes what is shown `times` as long, around a place of the canvas. */
  zoom(times, x = (this.gutter + this.width) / 2) {
    const at = this.valueAt(x);
    this.show(at - (at - this.first) * times, at + (this.last - at) * times);
  }
  pan(pixels) {
    const by = pixels * (this.last - this.first) / (this.width - this.gutter);
    this.show(this.first + by, this.last + by);
  }
  xOf(value) { return this.gutter + (value - this.first) / (this.last - this.first) * (this.width - this.gutter); }
  valueAt(x) { return this.first + (x - this.gutter) / (this.width - this.gutter) * (this.last - this.first); }
  stepUnder(x) {
    return this.axis === "time" ? this.run.stepAt(this.valueAt(x)) : Math.min(this.run.numSteps - 1, Math.floor(this.valueAt(x)));
  }
  trackUnder(y) { return y < RULER_HEIGHT ? null : this.rows[Math.floor((y - RULER_HEIGHT + this.top) / ROW_HEIGHT)] || null; }
  contentHeight() { return RULER_HEIGHT + this.rows.length * ROW_HEIGHT; }

  draw(step) {
    const context = this.canvas.getContext("2d");
    context.setTransform(this.scale, 0, 0, this.scale, 0, 0);
    context.clearRect(0, 0, this.width, this.height);
    context.save();
    context.beginPath();
    context.rect(this.gutter, 0, this.width - this.gutter, this.height);
    context.clip();
    this.drawSteps(context);
    this.drawn = 0;
    const from = Math.floor(this.top / ROW_HEIGHT), rows = this.rows.slice(from, from + Math.ceil(this.height / ROW_HEIGHT) + 1);
    for (const track of rows) this.drawTrack(context, track);
    this.drawCursor(context, step);
    this.drawRuler(context);
    context.restore();
    for (const track of rows) this.drawLabel(context, track);
  }
  rowY(i) { return RULER_HEIGHT + i * ROW_HEIGHT - this.top; }

  /** Lines where steps begin, once there is room for them; bands for aborted steps. */
  drawSteps(context) {
    const {run} = this, from = Math.max(0, this.stepUnder(this.gutter)), to = Math.max(from, this.stepUnder(this.width));
    const lines = (this.width - this.gutter) / (to - from + 1) >= 7;
    for (let s = from; s <= to && s < run.numSteps; ++s) {
      const x = this.xOf(this.stepBegin(s));
      if (run.aborted[s]) {
        context.fillStyle = this.colours.aborted;
        context.fillRect(x, RULER_HEIGHT, Math.max(1, this.xOf(this.stepEnd(s)) - x), this.height);
      }
      if (!lines) continue;
      context.fillStyle = this.colours.line;
      context.fillRect(Math.round(x), RULER_HEIGHT, 1, this.height);
    }
  }

  /** Bars that fall into a pixel that is painted already are left out; preemptions never are. */
  drawTrack(context, track) {
    const {run} = this, y = this.rowY(track.row), low = this.timeOf(this.first), high = this.timeOf(this.last);
    if (track === this.marked) {
      context.fillStyle = this.colours.well;
      context.fillRect(0, y, this.width, ROW_HEIGHT);
    }
    let from = track.from, to = track.to;
    while (from < to) {
      const middle = from + to >> 1;
      if (run.spans[middle].end < low) from = middle + 1; else to = middle;
    }
    let painted = -1;
    const preempted = [];
    for (let i = from; i < track.to && run.spans[i].begin <= high; ++i) {
      const span = run.spans[i];
      if (span.state >= KEPT) preempted.push(span);
      const x = this.xOf(this.beginOf(span)), end = this.xOf(this.endOf(span));
      if (end - painted < 0.5) continue;
      this.drawBar(context, span, Math.max(x, painted), end, y);
      painted = end - x > 3 ? end : Math.max(end, x + 1);
    }
    for (const span of preempted) {
      const x = this.xOf(this.beginOf(span));
      context.fillStyle = this.colours.answer[span.state];
      context.fillRect(x - 1, y + 3, 2, ROW_HEIGHT - 6);
    }
    if (track.finished >= 0) this.drawEnd(context, track, y);
  }
  beginOf(span) { return span.step >= 0 && this.axis === "steps" ? span.step : this.onAxis(span.begin); }
  endOf(span) { return span.step >= 0 && this.axis === "steps" ? span.step + span.steps : this.onAxis(span.end); }

  drawBar(context, span, x, end, y) {
    const height = computes(span.state) ? ROW_HEIGHT - 6 : span.state === LOADING ? 6 : 3;
    const gap = end - x > 4 && computes(span.state) ? 0.75 : 0;
    context.fillStyle = this.colours.answer[span.state];
    context.fillRect(x, y + (ROW_HEIGHT - height) / 2, Math.max(0.75, end - x - gap), height);
    ++this.drawn;
  }

  drawEnd(context, track, y) {
    const x = this.xOf(this.onAxis(track.finished)), good = GOOD_ENDS.includes(track.reason);
    context.fillStyle = good ? this.colours.ink : this.colours.bad;
    context.beginPath();
    if (good) context.rect(x - 1, y + 3, 2, ROW_HEIGHT - 6);
    else context.arc(x, y + ROW_HEIGHT / 2, 3.5, 0, 7);
    context.fill();
  }

  drawCursor(context, step) {
    if (step < 0 || this.run.numSteps === 0) return;
    const x = this.xOf(this.stepBegin(step)), width = Math.max(2, this.xOf(this.stepEnd(step)) - x);
    context.globalAlpha = 0.14;
    context.fillStyle = this.colours.ink;
    context.fillRect(x, 0, width, this.height);
    context.globalAlpha = 1;
    context.fillRect(x - 0.5, 0, 1.5, this.height);
  }

  drawRuler(context) {
    context.fillStyle = this.colours.card;
    context.fillRect(this.gutter, 0, this.width, RULER_HEIGHT);
    context.fillStyle = this.colours.muted;
    context.font = "11px system-ui, sans-serif";
    context.textBaseline = "middle";
    context.textAlign = "left";
    const every = niceDistance((this.last - this.first) / Math.max(1, (this.width - this.gutter) / 90), this.axis);
    for (let at = Math.ceil(this.first / every) * every; at <= this.last; at += every) {
      const x = this.xOf(at), s = Math.round(at);
      if (this.axis === "steps" && s >= this.run.numSteps) break;
      context.fillRect(Math.round(x), RULER_HEIGHT - 5, 1, 5);
      context.fillText(this.axis === "time" ? duration(at, every) : count(this.run.id[s]), x + 4, RULER_HEIGHT / 2 - 1);
    }
  }

  drawLabel(context, track) {
    const y = this.rowY(track.row);
    if (y < RULER_HEIGHT - ROW_HEIGHT) return;
    context.save();
    context.beginPath();
    context.rect(0, Math.max(RULER_HEIGHT, y), this.gutter - 8, ROW_HEIGHT);
    context.clip();
    context.fillStyle = track === this.marked ? this.colours.ink : this.colours.muted;
    context.font = (track === this.marked ? "600 " : "") + "11.5px system-ui, sans-serif";
    context.textAlign = "left";
    context.textBaseline = "middle";
    context.fillText(track.name, 0, y + ROW_HEIGHT / 2);
    context.restore();
  }
}

const GOOD_ENDS = ["stop", "length"];

/** 1, 2 or 5 times a power of ten that is at least this; steps are whole. */
function niceDistance(least, axis) {
  const power = 10 ** Math.floor(Math.log10(Math.max(least, 1e-9)));
  const nice = [1, 2, 5, 10].find(times => times * power >= least) * power;
  return axis === "steps" ? Math.max(1, nice) : nice;
}

/** Microseconds for people, as exact as `distance` asks for. */
function duration(us, distance = us / 100) {
  const [unit, size] = us >= 1e6 ? ["s", 1e6] : us >= 1e3 ? ["ms", 1e3] : ["µs", 1];
  const decimals = Math.min(3, Math.max(0, Math.ceil(-Math.log10(Math.max(1e-9, distance / size)) - 1e-9)));
  return (us / size).toFixed(us === 0 ? 0 : decimals) + " " + unit;
}
