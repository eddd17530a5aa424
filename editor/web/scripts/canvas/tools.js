// What a drag does to the mask. A tool gets places in pixels of the picture: begin, move, end; `outline` draws what is
// not yet part of the mask. `end` returns the area that changed, or null.
import { VEIL } from "./mask.js";

class Area {
  constructor() {
    this.left = this.top = Infinity;
    this.right = this.bottom = -Infinity;
  }

  include({ x, y }, radius = 1) {
    this.left = Math.min(this.left, x - radius);
    this.top = Math.min(this.top, y - radius);
    this.right = Math.max(this.right, x + radius);
    this.bottom = Math.max(this.bottom, y + radius);
  }
}

function prepare(context, erases) {
  context.globalCompositeOperation = erases ? "destination-out" : "source-over";
  context.fillStyle = context.strokeStyle = VEIL;
}

// Brush and eraser: a round tip of `size` pixels; softness 0..1 is the part of its radius over which it fades.
class Brush {
  begin(context, at, { size, softness, erases }) {
    Object.assign(this, { context, size, softness, erases, last: at, area: new Area() });
    this.#dab(at, at);
  }

  move(at) {
    this.#dab(this.last, at);
    this.last = at;
  }

  end() { return this.area; }
  outline() {}

  #dab(from, to) {
    const { context } = this;
    const radius = (pressure) => Math.max(0.5, this.size / 2 * pressure);
    prepare(context, this.erases);
    for (const at of [from, to]) this.area.include(at, radius(at.pressure) + 2);
    if (this.softness) return this.#stamps(from, to, radius);
    context.lineCap = "round";
    context.lineWidth = 2 * radius(to.pressure);
    context.beginPath();
    context.arc(to.x, to.y, radius(to.pressure), 0, 2 * Math.PI);
    context.fill();
    context.beginPath();
    context.moveTo(from.x, from.y);
    context.lineTo(to.x, to.y);
    context.stroke();
  }

  // A fading tip cannot be stroked: it is stamped, closely enough to look like a line.
  #stamps(from, to, radius) {
    const { context } = this;
    const wide = radius(to.pressure);
    const count = Math.max(1, Math.ceil(Math.hypot(to.x - from.x, to.y - from.y) / Math.max(1, wide / 4)));
    for (let i = 1; i <= count; i++) {
      const [x, y] = [from.x + (to.x - from.x) * i / count, from.y + (to.y - from.y) * i / count];
      const fade = context.createRadialGradient(x, y, wide * (1 - this.softness), x, y, wide);
      fade.addColorStop(0, VEIL);
      fade.addColorStop(1, `${VEIL}00`);
      context.fillStyle = fade;
      context.beginPath();
      context.arc(x, y, wide, 0, 2 * Math.PI);
      context.fill();
    }
  }
}

// A shape is drawn as an outline until it is finished, and filled then.
class Shape {
  begin(context, at, { erases }) {
    Object.assign(this, { context, erases, points: [at, at] });
  }

  move(at) { this.points[1] = at; }

  end() {
    const area = new Area();
    for (const point of this.points) area.include(point, 2);
    prepare(this.context, this.erases);
    this.context.fill(this.path());
    return area;
  }

  outline(draw) { draw(this.path()); }
}

class Rectangle extends Shape {
  path() {
    const [from, to] = this.points;
    const path = new Path2D();
    path.rect(from.x, from.y, to.x - from.x, to.y - from.y);
    return path;
  }
}

class Ellipse extends Shape {
  path() {
    const [from, to] = this.points;
    const path = new Path2D();
    const [rx, ry] = [Math.abs(to.x - from.x) / 2, Math.abs(to.y - from.y) / 2];
    path.ellipse((from.x + to.x) / 2, (from.y + to.y) / 2, rx, ry, 0, 0, 2 * Math.PI);
    return path;
  }
}

class Lasso extends Shape {
  move(at) { this.points.push(at); }

  path() {
    const path = new Path2D();
    for (const { x, y } of this.points) path.lineTo(x, y);
    path.closePath();
    return path;
  }
}

// Corners are clicked; the first corner again, a double click or Enter closes it.
class Polygon extends Lasso {
  move(at) { this.points[this.points.length - 1] = at; }

  // Adds a corner; true where it closes the polygon. `near`: how close to the first corner counts as on it.
  click(at, near) {
    const [first] = this.points;
    const corners = this.points.length - 1;
    if (corners >= 3 && Math.hypot(at.x - first.x, at.y - first.y) <= near) {
      this.points.pop();
      return true;
    }
    this.points[corners] = at;
    this.points.push(at);
    return false;
  }

  // Takes the last corner back; false where none is left.
  back() {
    this.points.splice(-2, 1);
    return this.points.length > 1;
  }
}

export const TOOLS = {
  brush: () => new Brush(),
  eraser: () => new Brush(),
  lasso: () => new Lasso(),
  polygon: () => new Polygon(),
  rectangle: () => new Rectangle(),
  ellipse: () => new Ellipse(),
};
