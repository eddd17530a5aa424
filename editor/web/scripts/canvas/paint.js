// Draws the picture, the mask over it and what the tool is about to do.
import { VEIL } from "./mask.js";

const VEIL_ALPHA = 0.45;
const AROUND = [[-1, -1], [0, -1], [1, -1], [-1, 0], [1, 0], [-1, 1], [0, 1], [1, 1]];

export class Painter {
  constructor(canvas, view, mask) {
    Object.assign(this, { canvas, view, mask, veil: VEIL_ALPHA, asked: false, marks: [] });
    this.screen = canvas.getContext("2d");
    this.edge = document.createElement("canvas");
    this.outline = this.edge.getContext("2d");
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
    this.#edgeOfMask();
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
  #tiles({ grid, side, left, top, opacity }) {
    const { edge, outline, canvas, view, screen } = this;
    edge.width = canvas.width;   // also clears it
    edge.height = canvas.height;
    view.apply(outline);
    outline.imageSmoothingEnabled = false;
    outline.drawImage(grid, left, top, grid.width * side, grid.height * side);
    outline.globalCompositeOperation = "source-in";
    outline.setTransform(1, 0, 0, 1, 0, 0);
    outline.strokeStyle = VEIL;
    outline.lineWidth = devicePixelRatio;
    outline.beginPath();
    const step = Math.max(side, side * Math.ceil(6 * devicePixelRatio / (side * view.scale)));   // no finer than 6 px
    for (let x = 0; x <= grid.width * side; x += step) {
      const at = Math.round(view.x + (left + x) * view.scale) + 0.5;
      outline.moveTo(at, 0);
      outline.lineTo(at, canvas.height);
    }
    for (let y = 0; y <= grid.height * side; y += step) {
      const at = Math.round(view.y + (top + y) * view.scale) + 0.5;
      outline.moveTo(0, at);
      outline.lineTo(canvas.width, at);
    }
    outline.stroke();
    screen.setTransform(1, 0, 0, 1, 0, 0);
    screen.globalAlpha = 0.7 * opacity;
    screen.drawImage(edge, 0, 0);
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

  #edgeOfMask() {
    const { edge, outline, canvas, view } = this;
    const thick = Math.max(1, Math.round(1.5 * devicePixelRatio));
    edge.width = canvas.width;   // also clears it
    edge.height = canvas.height;
    for (const [dx, dy] of AROUND) {
      view.apply(outline, dx * thick, dy * thick);
      outline.drawImage(this.mask.layer, 0, 0);
    }
    outline.globalCompositeOperation = "destination-out";
    view.apply(outline);
    outline.drawImage(this.mask.layer, 0, 0);
    outline.globalCompositeOperation = "source-in";
    outline.setTransform(1, 0, 0, 1, 0, 0);
    outline.fillStyle = VEIL;
    outline.fillRect(0, 0, edge.width, edge.height);
    this.screen.setTransform(1, 0, 0, 1, 0, 0);
    this.screen.drawImage(edge, 0, 0);
  }
}
