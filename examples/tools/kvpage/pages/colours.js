// Colours of blocks. The neutral ones come from the style sheet; owners get hues that are far apart, equally bright.
const VIEWS = ["owner", "refs", "age"];
const REF_STEPS = [[1, "1"], [2, "2"], [3, "3–4"], [5, "5–8"], [9, "9+"]];
const AGE_STEPS = [[0, "< 10 steps"], [10, "< 100"], [100, "< 1,000"], [1000, "< 10,000"], [10000, "more"]];

class Colours {
  constructor() { this.refresh(); }

  /** Reads the style sheet again: the scheme of the system may have changed. */
  refresh() {
    const style = getComputedStyle(document.documentElement);
    const read = name => style.getPropertyValue(name).trim();
    this.state = [read("--clean"), read("--cached"), read("--held"), read("--pending"), read("--shared")];
    this.ink = read("--ink");
    this.muted = read("--muted");
    this.card = read("--card");
    this.line = read("--line");
    this.well = read("--well");
    this.bad = read("--bad");
    this.aborted = read("--aborted");
    this.answer = ["waiting", "loading", "prefill", "recompute", "decode", "kept", "demoted", "dropped"].map(name => read("--" + name));
    this.ramp = [1, 2, 3, 4, 5].map(i => read("--ramp-" + i));
    const lightness = parseFloat(read("--owner-lightness")), chroma = parseFloat(read("--owner-chroma"));
    this.hues = [];
    for (let i = 0; i < 360; i += 5) this.hues.push(oklch(lightness, chroma, i));
  }

  /** The golden angle puts sequences that start together far apart. */
  ofSequence(generation) { return this.hues[Math.floor((generation * 137.508) % 360 / 5)]; }

  ofBlock(view, pool, b, frame, stepsPerFrame) {
    const category = pool.category(b);
    if (view === "owner") {
      return category === USED && pool.owner[b] !== 0 ? this.ofSequence(pool.owner[b]) : this.state[category];
    }
    if (category === CLEAN) return this.state[CLEAN];
    if (view === "refs") return pool.refs[b] === 0 ? this.state[category] : this.ramp[step(REF_STEPS, pool.refs[b])];
    return this.ramp[4 - step(AGE_STEPS, (frame - pool.taken[b]) * stepsPerFrame)];
  }

  /** [colour, text, shape] of each entry of the legend. */
  legend(view) {
    const cached = [this.state[CACHED], "cached, free to reuse"], clean = [this.state[CLEAN], "clean", "hollow"];
    const pending = [this.state[PENDING], "pending: a step may still read it", "inset"];
    if (view === "owner") {
      return [["owners", "one sequence, a colour each"], [this.state[SHARED], "shared by several"],
              [this.state[USED], "held by no sequence"], cached, pending, clean];
    }
    if (view === "refs") return REF_STEPS.map(([, text], i) => [this.ramp[i], text]).concat([cached, pending, clean]);
    return AGE_STEPS.map(([, text], i) => [this.ramp[4 - i], text]).concat([clean]);
  }
}

/** Index of the last step that starts at or below the value. */
function step(steps, value) {
  let i = steps.length - 1;
  while (i > 0 && value < steps[i][0]) --i;
  return i;
}

/** sRGB of an OKLCH colour. Source: Ottosson, "A perceptual color space for image processing", 2020. */
function oklch(lightness, chroma, degrees) {
  const a = chroma * Math.cos(degrees * Math.PI / 180), b = chroma * Math.sin(degrees * Math.PI / 180);
  const l = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3;
  const m = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3;
  const s = (lightness - 0.0894841775 * a - 1.2914855480 * b) ** 3;
  const linear = [4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s, -1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s,
                  -0.0041960863 * l - 0.7034186147 * m + 1.7076147010 * s];
  const bytes = linear.map(x => Math.round(255 * Math.min(1, Math.max(0, x <= 0.0031308 ? 12.92 * x : 1.055 * x ** (1 / 2.4) - 0.055))));
  return "rgb(" + bytes.join(" ") + ")";
}
