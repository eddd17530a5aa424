// Pointer events: strokes of the chosen tool, panning (middle button, Space, two fingers) and zooming.
import { TOOLS } from "./tools.js";

const NEAR_PX = 8;   // so close to a polygon's first corner, on the screen, a click closes it

export class Pointer {
  // may: () => whether painting is possible now; started: called before a stroke, changed: whenever something looks
  // different, painted: when a stroke has ended
  constructor(canvas, view, mask, { may, started, changed, painted }) {
    Object.assign(this, { canvas, view, mask, may, started, changed, painted });
    this.settings = { tool: "brush", size: 48, softness: 0 };
    this.at = null;          // where the pointer is over the canvas
    this.tool = null;        // the tool at work
    this.drag = null;        // id of the pointer that draws, or "pan"
    this.fingers = new Map();
    this.spaceHeld = false;
    const on = (name, handle, options) => canvas.addEventListener(name, (event) => handle.call(this, event), options);
    on("pointerdown", this.#down);
    on("pointermove", this.#move);
    on("pointerup", this.#up);
    on("pointercancel", this.#cancelled);
    on("pointerleave", () => { this.at = null; this.changed(); });
    on("dblclick", () => this.finish());
    on("wheel", this.#wheel, { passive: false });
  }

  get brushRadius() {
    return ["brush", "eraser"].includes(this.settings.tool) ? this.settings.size / 2 : null;
  }

  choose(tool) {
    this.cancel();
    this.settings.tool = tool;
  }

  // What a brush has drawn that is not part of the mask yet, whole pixels of the picture; null where there is nothing.
  area() {
    const drawn = this.tool?.area;
    if (!drawn) return null;
    const area = {
      left: Math.max(0, Math.floor(drawn.left)), top: Math.max(0, Math.floor(drawn.top)),
      right: Math.min(this.mask.width, Math.ceil(drawn.right)), bottom: Math.min(this.mask.height, Math.ceil(drawn.bottom)),
    };
    return area.left < area.right && area.top < area.bottom ? area : null;
  }

  // Ends a polygon that has corners enough; true if there was one.
  finish() {
    if (this.drag !== "corners") return false;
    this.tool.points.pop();
    if (this.tool.points.length < 3) return false;
    this.#commit();
    return true;
  }

  // Forgets a stroke or shape that is not finished; true if there was one.
  cancel() {
    if (!this.tool) return false;
    const area = { left: 0, top: 0, right: this.mask.width, bottom: this.mask.height };
    this.tool = this.drag = null;
    this.mask.restore(area);
    this.changed();
    return true;
  }

  // Takes back the last corner of a polygon; true if there was one.
  back() {
    if (this.drag !== "corners") return false;
    if (!this.tool.back()) this.cancel();
    this.changed();
    return true;
  }

  // ---- the keyboard as a pen: arrows move it, a key puts it down and lifts it again

  // Moves the pen by so many pixels of the picture; it begins in the middle of what is seen.
  step(dx, dy) {
    const { x, y } = this.at ?? this.view.centre;
    const inside = (place, length) => Math.min(length, Math.max(0, place));
    this.at = { x: inside(x + dx, this.mask.width), y: inside(y + dy, this.mask.height), pressure: 1 };
    if (this.tool && ["corners", "keys"].includes(this.drag)) this.tool.move(this.at);
    this.changed();
  }

  // Begins a stroke or shape where the pen is, or ends it; a polygon gets another corner.
  dip() {
    this.at ??= { ...this.view.centre, pressure: 1 };
    if (this.drag === "keys") this.#commit();
    else if (this.drag === "corners") {
      if (this.tool.click(this.at, this.#near())) this.#commit();
    } else if (this.drag === null && this.may()) this.#begin(this.at, "keys", false);
    this.changed();
  }

  #near() {
    return NEAR_PX * devicePixelRatio / this.view.scale;
  }

  #begin(at, drag, erasing) {
    this.started();
    const { tool, size, softness } = this.settings;
    this.tool = TOOLS[tool]();
    this.drag = tool === "polygon" ? "corners" : drag;
    this.tool.begin(this.mask.context, at, { size, softness, erases: (tool === "eraser") !== erasing });
  }

  #place(event) {
    return { ...this.view.place(event), pressure: event.pointerType === "pen" ? Math.max(0.1, event.pressure) : 1 };
  }

  #down(event) {
    this.fingers.set(event.pointerId, event);
    if (this.fingers.size === 2 && event.pointerType === "touch") {
      this.cancel();
      this.drag = "pinch";
      return;
    }
    const pans = event.button === 1 || (event.button === 0 && this.spaceHeld);
    const at = this.#place(event);
    if (this.drag === "corners") {
      if (event.button === 0 && this.tool.click(at, this.#near())) this.#commit();
      return this.changed();
    }
    if (this.drag !== null || (!pans && (event.button !== 0 || !this.may()))) return;
    event.preventDefault();
    this.canvas.focus({ preventScroll: true });
    this.canvas.setPointerCapture(event.pointerId);
    if (pans) {
      this.drag = "pan";
      this.last = event;
      return;
    }
    this.#begin(at, event.pointerId, event.altKey);
    this.changed();
  }

  #move(event) {
    this.at = this.#place(event);
    const ratio = this.canvas.width / this.canvas.getBoundingClientRect().width;
    if (this.drag === "pan") {
      this.view.pan((event.clientX - this.last.clientX) * ratio, (event.clientY - this.last.clientY) * ratio);
      this.last = event;
    } else if (this.drag === "pinch") {
      this.#pinch(event, ratio);
    } else if (this.drag === "corners") {
      this.tool.move(this.at);
    } else if (this.drag === event.pointerId) {
      const events = event.getCoalescedEvents?.() ?? [];
      for (const each of events.length ? events : [event]) this.tool.move(this.#place(each));
    }
    this.changed();
  }

  #pinch(event, ratio) {
    const middle = () => {
      const [a, b] = [...this.fingers.values()];
      const centre = { clientX: (a.clientX + b.clientX) / 2, clientY: (a.clientY + b.clientY) / 2 };
      return { ...centre, apart: Math.hypot(a.clientX - b.clientX, a.clientY - b.clientY) };
    };
    if (!this.fingers.has(event.pointerId) || this.fingers.size !== 2) return;
    const before = middle();
    this.fingers.set(event.pointerId, event);
    const after = middle();
    this.view.pan((after.clientX - before.clientX) * ratio, (after.clientY - before.clientY) * ratio);
    this.view.zoom(after.apart / Math.max(1, before.apart), this.view.place(after));
  }

  #up(event) {
    this.fingers.delete(event.pointerId);
    if (this.drag === "pan" || (this.drag === "pinch" && this.fingers.size === 0)) this.drag = null;
    else if (this.drag === event.pointerId) this.#commit();
    this.changed();
  }

  #cancelled(event) {
    this.fingers.delete(event.pointerId);
    if (this.drag === event.pointerId) this.cancel();
    else if (this.drag !== "corners") this.drag = null;
  }

  #commit() {
    const area = this.tool.end();
    this.tool = this.drag = null;
    const soft = this.brushRadius !== null && this.settings.softness > 0;
    this.mask.commit(area, !soft);
    this.changed();
    this.painted();
  }

  #wheel(event) {
    event.preventDefault();
    this.view.zoom(Math.exp(-event.deltaY / 400), this.view.place(event));
    this.changed();
  }
}
