// Draws the picture, the mask over it and what the tool is about to do.
import { VEIL } from "./mask.js";

const VEIL_ALPHA = 0.45;
const AROUND = [[-1, -1], [0, -1], [1, -1], [-1, 0], [1, 0], [-1, 1], [0, 1], [1, 1]];

export class Painter {
  constructor(canvas, view, mask) {
    Object.assign(this, { canvas, view, mask, veil: VEIL_ALPHA, asked: false });
    this.screen = canvas.getContext("2d");
    this.edge = document.createElement("canvas");
    this.outline = this.edge.getContext("2d");
  }

  // `scene`: () => what to draw now. However often it is asked for, a frame is drawn once.
  ask(scene) {
    if (this.asked) return;
    this.asked = true;
    requestAnimationFrame(() => { this.asked = false; this.#draw(scene()); });
  }

  // image: the picture; patch: { image, left, top, width, height } drawn over it; veiled: whether the mask is filled in;
  // masked: whether it shows at all; tool, brush: what the pointer does, { at, radius } where a brush would paint
  #draw({ image, patch, masked, veiled, tool, brush }) {
    const { screen, canvas, view } = this;
    screen.setTransform(1, 0, 0, 1, 0, 0);
    screen.clearRect(0, 0, canvas.width, canvas.height);
    view.apply(screen);
    screen.imageSmoothingEnabled = view.scale < 3;   // pixels are squares when they are large
    screen.imageSmoothingQuality = "high";
    if (image) screen.drawImage(image, 0, 0, view.picture.width, view.picture.height);
    if (patch) screen.drawImage(patch.image, patch.left, patch.top, patch.width, patch.height);
    if (!masked) return;
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
