// The recorded frames: decoded once, with a copy of the pool every few hundred frames, so that any frame is near one.
const CLEAN = 0, CACHED = 1, USED = 2, PENDING = 3;
const NUM_CATEGORIES = 5; // clean, cached, used by one, pending, shared
const SHARED = 4;
const FRAMES_PER_COPY = 256;

/** What is known of every block at one frame. */
class Pool {
  constructor(numBlocks) {
    this.state = new Uint8Array(numBlocks);
    this.refs = new Uint32Array(numBlocks);
    this.owner = new Uint32Array(numBlocks);   // generation of the oldest holder, 0 = not a sequence
    this.taken = new Int32Array(numBlocks);    // frame in which the block got its content
    this.changed = new Int32Array(numBlocks);  // frame of its last change
    this.key = new Uint32Array(numBlocks);     // where its content key lies in the stream, 0 = none
  }
  arrays() { return [this.state, this.refs, this.owner, this.taken, this.changed, this.key]; }
  copyFrom(other) {
    const theirs = other.arrays();
    this.arrays().forEach((mine, i) => mine.set(theirs[i]));
  }
  category(b) { return this.state[b] === USED && this.refs[b] > 1 ? SHARED : this.state[b]; }
}

class History extends ByteStream {
  constructor(description, base64) {
    super(base64);
    this.numBlocks = description.num_blocks;
    this.numFrames = description.frames;
    this.starts = new Uint32Array(this.numFrames + 1);
    this.counts = new Uint32Array(this.numFrames * NUM_CATEGORIES);
    this.totals = new Float64Array(this.numFrames * 4); // evictions, copies, hit tokens so far; live sequences
    this.copies = [];
    this.readAll();
  }

  readAll() {
    const pool = new Pool(this.numBlocks);
    const counts = new Uint32Array(NUM_CATEGORIES);
    counts[CLEAN] = this.numBlocks;
    this.at = 0;
    this.lastOwner = 0;
    for (let f = 0; f < this.numFrames; ++f) {
      if (f % FRAMES_PER_COPY === 0) {
        const copy = new Pool(this.numBlocks);
        copy.copyFrom(pool);
        this.copies.push({pool: copy, lastOwner: this.lastOwner});
      }
      this.starts[f] = this.at;
      const totals = this.readTotals();
      const before = f === 0 ? [0, 0, 0] : this.totals.subarray((f - 1) * 4, f * 4);
      this.totals.set([before[0] + totals[0], before[1] + totals[1], before[2] + totals[2], totals[3]], f * 4);
      this.readRuns(pool, f, counts);
      this.counts.set(counts, f * NUM_CATEGORIES);
    }
    this.starts[this.numFrames] = this.at;
    this.expectEnd("the recorded frames");
  }

  readTotals() { return this.numbers(4); }

  /** Applies the runs of frame f. With `counts`, keeps the number of blocks per category. */
  readRuns(pool, f, counts) {
    let b = 0;
    for (let runs = this.number(); runs > 0; --runs) {
      b += this.number();
      const end = b + this.number() + 1;
      const head = this.bytes[this.at++];
      const state = head & 3;
      const refs = head & 16 ? this.number() : state === USED ? 1 : 0;
      if (refs > 0 && !(head & 32)) {
        const difference = this.number();
        this.lastOwner += difference % 2 === 0 ? difference / 2 : -(difference + 1) / 2;
      }
      const owner = refs > 0 ? this.lastOwner : 0;
      for (; b < end; ++b) {
        if (counts) --counts[pool.category(b)];
        pool.state[b] = state;
        pool.refs[b] = refs;
        pool.owner[b] = owner;
        pool.changed[b] = f;
        if (head & 4) pool.taken[b] = f;
        if (head & 8) {
          pool.key[b] = this.isZero(this.at) ? 0 : this.at;
          this.at += 8;
        }
        if (counts) ++counts[pool.category(b)];
      }
    }
  }
  isZero(at) {
    for (let i = 0; i < 8; ++i) if (this.bytes[at + i] !== 0) return false;
    return true;
  }

  /** Brings `cursor` = {pool, frame} to frame f. */
  seek(cursor, f) {
    if (cursor.frame < 0 || f < cursor.frame || f - cursor.frame > FRAMES_PER_COPY) {
      const copy = this.copies[Math.floor(f / FRAMES_PER_COPY)];
      cursor.pool.copyFrom(copy.pool);
      cursor.lastOwner = copy.lastOwner;
      cursor.frame = Math.floor(f / FRAMES_PER_COPY) * FRAMES_PER_COPY - 1;
    }
    this.lastOwner = cursor.lastOwner;
    while (cursor.frame < f) {
      this.at = this.starts[++cursor.frame];
      this.readTotals();
      this.readRuns(cursor.pool, cursor.frame, null);
    }
    cursor.lastOwner = this.lastOwner;
  }

  keyText(at) {
    let text = "";
    for (let i = 0; i < 8; ++i) text += this.bytes[at + i].toString(16).padStart(2, "0");
    return text;
  }
}
