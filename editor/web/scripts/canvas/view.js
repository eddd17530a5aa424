// Where the picture is on the screen. Lengths are device pixels of the canvas, places are pixels of the picture.
export class View {
  constructor(canvas) {
    this.canvas = canvas;
    this.picture = { width: 1, height: 1 };
    this.fitted = true;   // stays fitted when the window or the picture changes
    this.scale = 1;       // device pixels per picture pixel
    this.x = this.y = 0;  // the picture's left upper corner
  }

  show(width, height) {
    if (width === this.picture.width && height === this.picture.height) return;
    this.picture = { width, height };
    this.fit();
  }

  fit() {
    const { width, height } = this.picture;
    this.#centre(Math.min(this.canvas.width / width, this.canvas.height / height));
    this.fitted = true;
  }

  // One pixel of the picture is one pixel of the screen.
  actual() {
    this.#centre(1);
    this.fitted = false;
  }

  #centre(scale) {
    const { width, height } = this.picture;
    this.scale = scale;
    this.x = Math.round((this.canvas.width - width * scale) / 2);
    this.y = Math.round((this.canvas.height - height * scale) / 2);
  }

  // `at`, a place of the picture, stays where it is.
  zoom(factor, at) {
    const scale = Math.min(64, Math.max(0.02, this.scale * factor));
    this.x += at.x * (this.scale - scale);
    this.y += at.y * (this.scale - scale);
    this.scale = scale;
    this.fitted = false;
  }

  pan(dx, dy) {
    this.x += dx;
    this.y += dy;
    this.fitted = false;
  }

  get centre() {
    return { x: (this.canvas.width / 2 - this.x) / this.scale, y: (this.canvas.height / 2 - this.y) / this.scale };
  }

  // The place under a pointer event.
  place(event) {
    const box = this.canvas.getBoundingClientRect();
    return {
      x: ((event.clientX - box.left) * this.canvas.width / box.width - this.x) / this.scale,
      y: ((event.clientY - box.top) * this.canvas.height / box.height - this.y) / this.scale,
    };
  }

  // Later drawing is in pixels of the picture.
  apply(context, dx = 0, dy = 0) {
    context.setTransform(this.scale, 0, 0, this.scale, this.x + dx, this.y + dy);
  }
}
