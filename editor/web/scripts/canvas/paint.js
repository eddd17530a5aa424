// Draws the picture, the mask over it and what the tool is about to do.
import { VEIL } from "./mask.js";
import { Overlay } from "./overlay.js";

const VEIL_ALPHA = 0.45;
const AROUND = [[-1, -1], [0, -1], [1, -1], [-1, 0], [1, 0], [-1, 1], [0, 1], [1, 1]];

export class Painter {
  constructor(canvas, view, mask) {
    Object.assign(this, { canvas, view, mask, veil: VEIL_ALPHA, asked: false, marks: [] });
    this.screen = canvas.getContext("2d");
    this.edge = new Overlay();
    this.grid = new Overlay();
  }

  // `scene`: () => what to draw now. However often it is asked for, a frame is drawn once.
  ask(scene) {
    if (this.asked) return;
    this.asked = true;
    requestAnimationFrame(() => {
      this.asked = false;
      this.#draw(scene());
      for (const name of this.marks.splice(0)) {
        performance.clearMarks(name);   // the browser would keep every one
        performance.mark(name);
      }
    });
  }

  // The next frame is marked with this name, for `bench edit --through-http`.
  mark(name) { this.marks.push(name); }

  // image: the picture; patch: { image, left, top, width, height } drawn over it; other, divider: a picture that is shown
  // left of so much of the width; tiles: { grid, side, left, top, opacity } of what is recomputed; masked: whether the
  // mask shows, veiled: whether it is filled in; tool, brush: what the pointer does, { at, radius } of a brush
  #draw({ image, patch, other, divider, tiles, masked, veiled, tool, brush }) {
    const { screen, canvas, view } = this;
    screen.setTransform(1, 0, 0, 1, 0, 0);
    screen.clearRect(0, 0, canvas.width, canvas.height);
    view.apply(screen);
    screen.imageSmoothingEnabled = view.scale < 3;   // pixels are squares when they are large
    screen.imageSmoothingQuality = "high";
    if (image) screen.drawImage(image, 0, 0, view.picture.width, view.picture.height);
    if (patch) screen.drawImage(patch.image, patch.left, patch.top, patch.width, patch.height);
    if (other) this.#otherSide(other, divider);
    if (!masked) return;
    if (tiles?.opacity) this.#tiles(tiles);
    view.apply(screen);
    if (veiled) {
      screen.globalAlpha = this.veil;
      screen.drawImage(this.mask.layer, 0, 0);
      screen.globalAlpha = 1;
    }
    this.#edgeOfMask(!tool);
    tool?.outline((path) => this.#line((context) => context.stroke(path)));
    if (brush) {
      this.#line((context) => {
        context.beginPath();
        context.arc(brush.at.x, brush.at.y, Math.max(brush.radius, 1 / view.scale), 0, 2 * Math.PI);
        context.stroke();
      });
    }
  }

  #otherSide(other, divider) {
    const { screen, canvas, view } = this;
    const { width, height } = view.picture;
    const at = canvas.width * divider;
    screen.save();
    screen.setTransform(1, 0, 0, 1, 0, 0);
    screen.beginPath();
    screen.rect(0, 0, at, canvas.height);
    screen.clip();
    view.apply(screen);
    screen.drawImage(other, 0, 0, width, height);
    screen.restore();
    screen.setTransform(1, 0, 0, 1, 0, 0);
    for (const [colour, wide] of [["#0008", 4], ["#fff", 2]]) {
      screen.fillStyle = colour;
      screen.fillRect(at - wide * devicePixelRatio / 2, 0, wide * devicePixelRatio, canvas.height);
    }
    view.apply(screen);
  }

  // A fine grid over the tiles that are recomputed, one screen pixel wide at any zoom.
  #tiles({ grid, number, side, left, top, opacity }) {
    const { canvas, view, screen } = this;
    const layer = this.grid.get(canvas, view, [number], (context) => {
      view.apply(context);
      context.imageSmoothingEnabled = false;
      context.drawImage(grid, left, top, grid.width * side, grid.height * side);
      context.globalCompositeOperation = "source-in";
      context.setTransform(1, 0, 0, 1, 0, 0);
      context.strokeStyle = VEIL;
      context.lineWidth = devicePixelRatio;
      context.beginPath();
      const step = side * Math.max(1, Math.ceil(6 * devicePixelRatio / (side * view.scale)));   // no finer than 6 px
      for (let x = 0; x <= grid.width * side; x += step) {
        const at = Math.round(view.x + (left + x) * view.scale) + 0.5;
        context.moveTo(at, 0);
        context.lineTo(at, canvas.height);
      }
      for (let y = 0; y <= grid.height * side; y += step) {
        const at = Math.round(view.y + (top + y) * view.scale) + 0.5;
        context.moveTo(0, at);
        context.lineTo(canvas.width, at);
      }
      context.stroke();
    });
    screen.setTransform(1, 0, 0, 1, 0, 0);
    screen.globalAlpha = 0.7 * opacity;
    screen.drawImage(layer, 0, 0);
    screen.globalAlpha = 1;
  }

  // A line that is seen on any picture: dark around light.
  #line(stroke) {
    this.view.apply(this.screen);
    for (const [colour, width] of [["#000", 3], ["#fff", 1.5]]) {
      this.screen.strokeStyle = colour;
      this.screen.lineWidth = width * devicePixelRatio / this.view.scale;
      stroke(this.screen);
    }
    this.screen.setTransform(1, 0, 0, 1, 0, 0);
  }

  // still: no stroke is changing the mask right now
  #edgeOfMask(still) {
    const { canvas, view, mask, screen } = this;
    const layer = this.edge.get(canvas, view, still && [mask.revision], (context) => {
      const thick = Math.max(1, Math.round(1.5 * devicePixelRatio));
      for (const [dx, dy] of AROUND) {
        view.apply(context, dx * thick, dy * thick);
        context.drawImage(mask.layer, 0, 0);
      }
      context.globalCompositeOperation = "destination-out";
      view.apply(context);
      context.drawImage(mask.layer, 0, 0);
      context.globalCompositeOperation = "source-in";
      context.setTransform(1, 0, 0, 1, 0, 0);
      context.fillStyle = VEIL;
      context.fillRect(0, 0, canvas.width, canvas.height);
    });
    screen.setTransform(1, 0, 0, 1, 0, 0);
    screen.drawImage(layer, 0, 0);
  }
}
