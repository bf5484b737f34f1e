// What the pool held at every step: stacked areas behind the slider.
const STACK = [SHARED, USED, PENDING, CACHED];

class Timeline {
  constructor(canvas, history, colours) {
    this.canvas = canvas;
    this.history = history;
    this.colours = colours;
    this.areas = document.createElement("canvas");
  }

  fit(width, height) {
    const dpr = window.devicePixelRatio || 1;
    for (const canvas of [this.canvas, this.areas]) {
      canvas.width = Math.round(width * dpr);
      canvas.height = Math.round(height * dpr);
    }
    this.canvas.style.width = width + "px";
    this.canvas.style.height = height + "px";
    this.scale = dpr;
    this.drawAreas();
  }

  /** Each column of pixels shows the mean of its frames. */
  drawAreas() {
    const {areas, history} = this, context = areas.getContext("2d");
    const style = getComputedStyle(document.documentElement);
    context.clearRect(0, 0, areas.width, areas.height);
    for (let x = 0; x < areas.width; ++x) {
      const first = Math.min(history.numFrames - 1, Math.floor(x / areas.width * history.numFrames));
      const last = Math.max(first + 1, Math.floor((x + 1) / areas.width * history.numFrames));
      let y = areas.height;
      for (const category of STACK) {
        let sum = 0;
        for (let f = first; f < last; ++f) sum += history.counts[f * NUM_CATEGORIES + category];
        const height = sum / (last - first) / history.numBlocks * areas.height;
        context.fillStyle = category === USED ? style.getPropertyValue("--used-area") : this.colours.state[category];
        context.fillRect(x, y - height, 1, height);
        y -= height;
      }
    }
  }

  draw(frame) {
    const {canvas, history} = this, context = canvas.getContext("2d");
    context.clearRect(0, 0, canvas.width, canvas.height);
    context.drawImage(this.areas, 0, 0);
    const x = this.xOf(frame) * this.scale;
    context.fillStyle = this.colours.card;
    context.fillRect(x - 2.5 * this.scale, 0, 5 * this.scale, canvas.height);
    context.fillStyle = this.colours.ink;
    context.fillRect(x - this.scale, 0, 2 * this.scale, canvas.height);
  }

  xOf(frame) {
    const width = this.canvas.width / this.scale;
    return this.history.numFrames < 2 ? 0 : Math.min(width - 1, Math.max(1, frame / (this.history.numFrames - 1) * width));
  }
  frameAt(x) {
    const share = x / (this.canvas.width / this.scale);
    return Math.round(Math.min(1, Math.max(0, share)) * (this.history.numFrames - 1));
  }
}
