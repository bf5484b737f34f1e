// Steps and answers of the run, decoded once. Times are microseconds since the first line of the trace.
const WAITING = 0, LOADING = 1, PREFILL = 2, RECOMPUTE = 3, DECODE = 4, KEPT = 5, DEMOTED = 6, DROPPED = 7;
const computes = state => state >= PREFILL && state <= DECODE;

class RunLog {
  constructor(answers, base64) {
    const stream = new ByteStream(base64);
    this.readSteps(stream);
    this.spans = [];  // of all tracks: {state, begin, end, step, steps, rows, position}
    this.trackOfSequence = new Map();
    this.tracks = Array.from({length: stream.number()}, (_, i) => this.readTrack(stream, answers[i]));
    stream.expectEnd("the answers");
    const place = new Map();  // answers of one request stand together
    answers.forEach(([id], i) => { if (!place.has(id)) place.set(id, i); });
    const places = new Map(this.tracks.map((track, i) => [track, place.get(answers[i][0])]));
    this.tracks.sort((a, b) => places.get(a) - places.get(b) || a.answer - b.answer);
    const ends = this.spans.map(span => span.end).concat(Array.from(this.end));
    this.duration = Math.max(1, ends.reduce((a, b) => Math.max(a, b), 0));
  }

  readSteps(stream) {
    const n = this.numSteps = stream.number();
    for (const field of ["id", "begin", "end", "rows", "seqs", "demoted", "promoted"]) this[field] = new Float64Array(n);
    this.aborted = new Uint8Array(n);
    for (let s = 0, id = 0, begin = 0; s < n; ++s) {
      this.id[s] = id += stream.number();
      this.begin[s] = begin += stream.number();
      this.end[s] = begin + stream.number();
      [this.rows[s], this.seqs[s]] = stream.numbers(2);
      const flags = stream.number();
      this.aborted[s] = flags & 1;
      if (flags & 2) [this.demoted[s], this.promoted[s]] = stream.numbers(2);
    }
  }

  readTrack(stream, [id, answer, reason]) {
    const track = {name: id + (answer === 0 ? "" : " #" + answer), answer, reason, row: 0};
    [track.prompt, track.output, track.cached, track.promoted] = stream.numbers(4);
    track.preemptions = stream.numbers(3);
    const [submitted, finished] = stream.numbers(2);
    track.submitted = submitted - 1, track.finished = finished - 1;  // -1 = not known
    track.sequences = stream.numbers(stream.number());
    for (const generation of track.sequences) this.trackOfSequence.set(generation, track);
    track.from = this.spans.length;
    let end = 0, step = 0;
    for (let n = stream.number(); n > 0; --n) {
      const span = {state: stream.number(), begin: end + stream.number(), end: 0, step: -1, steps: 0, rows: 0, position: 0};
      end = span.end = span.begin + stream.number();
      if (computes(span.state)) {
        span.step = step + stream.number();
        [span.steps, span.rows, span.position] = stream.numbers(3);
        step = span.step + span.steps;
      }
      this.spans.push(span);
    }
    track.to = this.spans.length;
    track.begin = track.submitted >= 0 ? track.submitted : track.from < track.to ? this.spans[track.from].begin : 0;
    track.end = Math.max(end, track.finished);
    return track;
  }

  /** The last step that began at or before a time; -1 = none had. */
  stepAt(time) { return lastAtOrBelow(this.begin, time); }
  /** Index of the newest step with an id of at most this. */
  indexOf(id) { return lastAtOrBelow(this.id, id); }
  /** A time as steps: whole numbers where steps begin, no room for the time between them. */
  stepsUntil(time) {
    const s = this.stepAt(time);
    if (s < 0) return 0;
    const end = s + 1 < this.numSteps ? Math.min(this.end[s], this.begin[s + 1]) : this.end[s];
    return s + (end > this.begin[s] ? Math.min(1, (time - this.begin[s]) / (end - this.begin[s])) : 1);
  }
  /** What a track does at a time, if it does anything. */
  spanAt(track, time) {
    let low = track.from, high = track.to;
    while (low < high) {
      const middle = low + high >> 1;
      if (this.spans[middle].end <= time) low = middle + 1; else high = middle;
    }
    return low < track.to && this.spans[low].begin <= time ? this.spans[low] : null;
  }
}

function lastAtOrBelow(sorted, value) {
  let low = 0, high = sorted.length;
  while (low < high) {
    const middle = low + high >> 1;
    if (sorted[middle] <= value) low = middle + 1; else high = middle;
  }
  return low - 1;
}
