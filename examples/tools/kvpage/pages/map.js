// The block map on its canvas: one cell per block, in order of ids, row by row.
const LARGEST_CELL = 40, SMALLEST_CELL = 3;

class BlockMapView {
  constructor(canvas, history, colours, stepsPerFrame) {
    this.canvas = canvas;
    this.history = history;
    this.colours = colours;
    this.stepsPerFrame = stepsPerFrame;
    this.hovered = -1;
    this.focusedOwner = 0; // blocks of other sequences fade
    this.drawn = 0;
  }

  /** Chooses the largest cell with which all blocks fit the width and, if that leaves them visible, the height. */
  fit(width, height) {
    const n = this.history.numBlocks;
    this.gutter = width > 600 ? 44 : 0;
    const room = width - this.gutter;
    let cell = LARGEST_CELL;
    while (cell > SMALLEST_CELL && Math.ceil(n / columns(room, cell, n)) * cell > height) --cell;
    this.columns = columns(room, cell, n);
    this.cell = Math.min(LARGEST_CELL, Math.floor(room / this.columns));
    this.rows = Math.ceil(n / this.columns);
    const dpr = window.devicePixelRatio || 1;
    const cssWidth = this.gutter + this.columns * this.cell, cssHeight = this.rows * this.cell;
    this.canvas.width = Math.round(cssWidth * dpr);
    this.canvas.height = Math.round(cssHeight * dpr);
    this.canvas.style.width = cssWidth + "px";
    this.canvas.style.height = cssHeight + "px";
    this.scale = dpr;
  }

  draw(pool, frame, view) {
    const context = this.canvas.getContext("2d");
    context.setTransform(this.scale, 0, 0, this.scale, 0, 0);
    context.clearRect(0, 0, this.canvas.width, this.canvas.height);
    this.drawRowLabels(context);
    const gap = this.cell >= 6 ? 1 : 0.5, size = this.cell - gap;
    context.lineWidth = 1;
    this.drawn = 0;
    for (let b = 0; b < this.history.numBlocks; ++b) {
      const x = this.gutter + b % this.columns * this.cell, y = Math.floor(b / this.columns) * this.cell;
      const faded = this.focusedOwner !== 0 && pool.owner[b] !== this.focusedOwner;
      context.globalAlpha = faded ? 0.18 : 1;
      context.fillStyle = this.colours.ofBlock(view, pool, b, frame, this.stepsPerFrame);
      if (pool.state[b] === PENDING) {
        context.fillRect(x + size * 0.22, y + size * 0.22, size * 0.56, size * 0.56);
      } else if (pool.state[b] === CLEAN && size >= 4) {
        context.strokeStyle = context.fillStyle;
        context.strokeRect(x + 0.5, y + 0.5, size - 1, size - 1);
      } else {
        context.fillRect(x, y, size, size);
      }
      ++this.drawn;
    }
    context.globalAlpha = 1;
    if (this.hovered >= 0) this.outline(context, this.hovered, size);
  }

  drawRowLabels(context) {
    if (this.gutter === 0) return;
    const every = Math.max(1, Math.ceil(28 / this.cell));
    context.fillStyle = this.colours.muted;
    context.font = "11px system-ui, sans-serif";
    context.textAlign = "right";
    context.textBaseline = "middle";
    for (let row = 0; row < this.rows; row += every) {
      context.fillText(count(row * this.columns), this.gutter - 10, (row + 0.5) * this.cell);
    }
  }

  outline(context, b, size) {
    const x = this.gutter + b % this.columns * this.cell, y = Math.floor(b / this.columns) * this.cell;
    context.lineWidth = 4;
    context.strokeStyle = this.colours.card;
    context.strokeRect(x - 1.5, y - 1.5, size + 3, size + 3);
    context.lineWidth = 2;
    context.strokeStyle = this.colours.ink;
    context.strokeRect(x - 1.5, y - 1.5, size + 3, size + 3);
  }

  /** The block under a point of the canvas, or -1. */
  blockAt(x, y) {
    const column = Math.floor((x - this.gutter) / this.cell), row = Math.floor(y / this.cell);
    const b = row * this.columns + column;
    return column >= 0 && column < this.columns && row >= 0 && b < this.history.numBlocks ? b : -1;
  }
  /** The middle of a block, in the canvas. */
  middle(b) {
    return [this.gutter + (b % this.columns + 0.5) * this.cell, (Math.floor(b / this.columns) + 0.5) * this.cell];
  }
}

/** Columns of cells of this size: a multiple of 8, so that ids are easy to count, as long as there are enough. */
function columns(room, cell, numBlocks) {
  const fitting = Math.max(1, Math.floor(room / cell));
  return Math.min(numBlocks, fitting >= 16 ? fitting - fitting % 8 : fitting);
}
