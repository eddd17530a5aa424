// A layer over the picture that is costly to draw and seldom changes: it is drawn again only when it would differ.
export class Overlay {
  constructor() {
    this.canvas = document.createElement("canvas");
    this.context = this.canvas.getContext("2d");
    this.key = null;
  }

  // The layer as a canvas of the screen's size. key: whatever decides how it looks, beside the view; null for a layer
  // that is changing right now. draw(context): draws it.
  get(screen, view, key, draw) {
    const whole = key && [screen.width, screen.height, view.scale, view.x, view.y, ...key].join();
    if (whole && whole === this.key) return this.canvas;
    this.key = whole;
    this.canvas.width = screen.width;   // also clears it
    this.canvas.height = screen.height;
    draw(this.context);
    return this.canvas;
  }
}
