// The painted mask: the alpha of one layer, in pixels of the picture. `layer` is what is seen and what is used.
//
// A change is drawn on the layer first, as often as the pointer moves, and then committed: that makes the edge hard
// where it should be, and remembers the pixels that changed, so that one stroke is one step of undo.
import { fillHoles } from "./fill.js";

export const VEIL = "#7c3aed";
const [RED, GREEN, BLUE] = [0x7c, 0x3a, 0xed];
const UNDO_BYTES = 96 << 20;

export class Mask {
  constructor() {
    this.layer = document.createElement("canvas");
    this.context = this.layer.getContext("2d", { willReadFrequently: true });
    this.reset(1, 1);
  }

  get width() { return this.layer.width; }
  get height() { return this.layer.height; }
  get canUndo() { return this.done.length > 0; }
  get canRedo() { return this.undone.length > 0; }

  // An empty mask for a picture of this size; nothing can be undone any more.
  reset(width, height) {
    this.layer.width = width;   // also clears it
    this.layer.height = height;
    this.committed = new Uint8ClampedArray(width * height);
    this.done = [];
    this.undone = [];
    this.revision = (this.revision ?? 0) + 1;   // another one after each change
  }

  // Makes what was drawn inside `area` ({ left, top, right, bottom }) a step. hard: a pixel is painted, or erased,
  // wholly or not at all, whatever the browser smoothed; what the stroke did not touch stays as soft as it was.
  commit(area, hard) {
    const box = this.#clipped(area);
    if (!box) return;
    const step = this.#step(box, this.#alpha(box));
    const { before, after } = step;
    for (let i = 0; hard && i < after.length; i++) {
      if (after[i] > before[i]) after[i] = after[i] < 128 ? before[i] : 255;
      else if (after[i] < before[i]) after[i] = after[i] < 128 ? 0 : before[i];
    }
    this.#apply(step);
  }

  // What was drawn inside `area` without being committed is gone.
  restore(area) {
    const box = this.#clipped(area);
    if (box) this.#put(box, this.#cut(box));
  }

  clear() { this.#whole((alpha) => alpha.fill(0)); }
  invert() { this.#whole((alpha) => { for (let i = 0; i < alpha.length; i++) alpha[i] = 255 - alpha[i]; }); }
  fillHoles() { this.#whole((alpha) => fillHoles(alpha, this.width, this.height)); }

  // Takes over a mask of the same size, a picture of greys; its brightness is the mask. corner: where it lies.
  paste(source, corner = { left: 0, top: 0 }) {
    const other = new OffscreenCanvas(this.width, this.height);
    const context = other.getContext("2d", { willReadFrequently: true });
    context.drawImage(source, corner.left, corner.top);
    const { data } = context.getImageData(0, 0, this.width, this.height);
    this.#whole((alpha) => { for (let i = 0; i < alpha.length; i++) alpha[i] = data[4 * i + 3] ? data[4 * i] : 0; });
  }

  undo() { this.#turn(this.done, this.undone); }
  redo() { this.#turn(this.undone, this.done); }

  // { left, top, right, bottom } of all that is painted; null where nothing is.
  bounds() {
    if (this.boundsOf !== this.revision) {
      this.box = this.#bounds();
      this.boundsOf = this.revision;
    }
    return this.box;
  }

  #bounds() {
    const box = { left: this.width, top: -1, right: 0, bottom: 0 };
    for (let y = 0, at = 0; y < this.height; y++, at += this.width) {
      const row = this.committed.subarray(at, at + this.width);
      const left = row.findIndex((alpha) => alpha > 0);
      if (left < 0) continue;
      if (box.top < 0) box.top = y;
      box.bottom = y + 1;
      box.left = Math.min(box.left, left);
      box.right = Math.max(box.right, row.findLastIndex((alpha) => alpha > 0) + 1);
    }
    return box.top < 0 ? null : box;
  }

  // What is on the layer inside `box`, as a canvas of grey levels.
  cut(box) {
    const copy = document.createElement("canvas");
    copy.width = box.right - box.left;
    copy.height = box.bottom - box.top;
    const context = copy.getContext("2d");
    context.drawImage(this.layer, -box.left, -box.top);
    context.globalCompositeOperation = "source-in";   // white where it is painted, as opaque as that is,
    context.fillStyle = "#fff";
    context.fillRect(0, 0, copy.width, copy.height);
    context.globalCompositeOperation = "destination-over";   // over black
    context.fillStyle = "#000";
    context.fillRect(0, 0, copy.width, copy.height);
    return copy;
  }

  // The painted part: { left, top, png }, png a data address of grey levels; null where nothing is.
  read() {
    const box = this.bounds();
    return box && { left: box.left, top: box.top, png: this.cut(box).toDataURL("image/png") };
  }

  #whole(change) {
    const after = this.committed.slice();
    change(after);
    this.#apply(this.#step({ left: 0, top: 0, right: this.width, bottom: this.height }, after));
  }

  #step(box, after) {
    return { ...box, before: this.#cut(box), after };
  }

  #apply(step) {
    this.#put(step, step.after);
    if (step.before.every((alpha, i) => alpha === step.after[i])) return;
    this.revision++;
    this.done.push(step);
    this.undone = [];
    const bytes = () => this.done.reduce((sum, { before, after }) => sum + before.length + after.length, 0);
    while (this.done.length > 1 && bytes() > UNDO_BYTES) this.done.shift();
  }

  #turn(from, to) {
    const step = from.pop();
    if (!step) return;
    this.#put(step, from === this.done ? step.before : step.after);
    to.push(step);
    this.revision++;
  }

  #clipped({ left, top, right, bottom }) {
    const box = {
      left: Math.max(0, Math.floor(left)),
      top: Math.max(0, Math.floor(top)),
      right: Math.min(this.width, Math.ceil(right)),
      bottom: Math.min(this.height, Math.ceil(bottom)),
    };
    return box.left < box.right && box.top < box.bottom ? box : null;
  }

  // Alpha that is drawn on the layer now.
  #alpha(box) {
    const { data } = this.context.getImageData(box.left, box.top, box.right - box.left, box.bottom - box.top);
    const alpha = new Uint8ClampedArray(data.length / 4);
    for (let i = 0; i < alpha.length; i++) alpha[i] = data[4 * i + 3];
    return alpha;
  }

  // Alpha that was committed.
  #cut({ left, top, right, bottom }) {
    const wide = right - left;
    const alpha = new Uint8ClampedArray(wide * (bottom - top));
    for (let y = top; y < bottom; y++) {
      alpha.set(this.committed.subarray(y * this.width + left, y * this.width + right), (y - top) * wide);
    }
    return alpha;
  }

  #put({ left, top, right, bottom }, alpha) {
    const wide = right - left;
    const image = new ImageData(wide, bottom - top);
    for (let i = 0, at = 0; i < alpha.length; i++) {
      image.data[at++] = RED;
      image.data[at++] = GREEN;
      image.data[at++] = BLUE;
      image.data[at++] = alpha[i];
    }
    this.context.putImageData(image, left, top);
    for (let y = top; y < bottom; y++) {
      this.committed.set(alpha.subarray((y - top) * wide, (y - top + 1) * wide), y * this.width + left);
    }
  }
}
