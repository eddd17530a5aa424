// Two pictures at once: the shown one, and what it was made from or any other version, on the two sides of a divider;
// and the one before in its place, while a key or a button is held.
import { load } from "../files.js";

export class Compare {
  // draw: asks for a frame
  constructor({ button, divider, draw }) {
    Object.assign(this, { button, divider, draw, before: null, other: null, holding: false, on: false });
    button.addEventListener("click", () => this.toggle());
    divider.addEventListener("input", draw);
  }

  // The pictures that the divider parts: { other, divider } with divider 0..1, or nothing.
  get scene() {
    const other = this.other ?? this.before;
    return this.on && other ? { other, divider: this.divider.value / 100 } : {};
  }

  get held() {
    return this.holding ? this.before : null;
  }

  // Shows the picture before in place of the present one.
  hold(on) {
    this.holding = on && Boolean(this.before);
    this.draw();
  }

  toggle(on = !this.on) {
    this.on = on && Boolean(this.other ?? this.before);
    if (!this.on) this.other = null;
    this.button.setAttribute("aria-pressed", String(this.on));
    this.divider.hidden = !this.on;
    if (this.on) this.divider.focus();
    this.draw();
  }

  // The picture at this address on the other side; it stays there until comparing ends.
  async with(address) {
    this.other = await load(address);
    this.toggle(true);
  }

  // The present picture was made from this one.
  show(before) {
    this.before = before;
    if (!before && !this.other) this.toggle(false);
    this.button.disabled = !before;
  }
}
