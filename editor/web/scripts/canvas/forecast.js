// What an edit with the mask on the page would recompute, asked of the program while a person paints: the tiles to draw,
// and the cost under the button. Each question also keeps the mask on the server, for a reload.
import { settings, shared } from "../session.js";
import { say } from "../words.js";

const PAUSE_MS = 120;    // between questions while the pointer moves
const FADE_MS = 150;
const UNMEASURED_MS = 2000;   // so soon the first passes have been timed

export class Forecast {
  // box: () => what is painted, also while a stroke goes on, or null; draw: asks for a frame
  constructor(mask, box, draw) {
    Object.assign(this, { mask, box, draw, tiles: null, asking: false, again: null, last: 0, timer: null });
    this.ready = false;   // until the mask on the page is the right one: what is asked replaces the server's
  }

  // The mask or a setting has changed; settled: the pointer is up.
  ask(settled) {
    if (!this.ready) return;
    this.again = { settled: settled || Boolean(this.again?.settled) };
    if (this.asking || this.timer) return;
    const wait = settled ? 0 : Math.max(0, this.last + PAUSE_MS - performance.now());
    this.timer = setTimeout(() => { this.timer = null; this.#send(); }, wait);
  }

  async #send() {
    if (!this.again || !this.ready) return;
    const { settled } = this.again;
    this.again = null;
    this.asking = true;
    this.last = performance.now();
    try {
      const box = this.box();
      const body = box ? await png(this.mask.cut(box)) : new Blob();
      const { grow_px = 0, variations = 1, strength = 1, mode = "auto" } = settings;
      const { left, top } = box ?? { left: 0, top: 0 };
      const query = new URLSearchParams({ left, top, settled, grow_px: grow_px ?? 0, variations, strength, mode });
      const response = await fetch(`/sessions/${shared.key}/mask?${query}`, { method: "PUT", body });
      const answer = response.ok ? await response.json() : null;
      if (answer || settled || !box) this.#show(answer);
    } catch {
      // the program is gone or busy starting again: the next stroke asks anew
    } finally {
      this.asking = false;
      if (this.again) this.ask(this.again.settled);
    }
  }

  #show(answer) {
    const fresh = !this.tiles;
    this.tiles = answer && readTiles(answer);
    if (this.tiles) this.tiles.begun = fresh ? performance.now() : 0;
    document.querySelector("#cost .cost").textContent = answer ? cost(answer) : "";
    if (answer && !answer.measured) setTimeout(() => this.ask(true), UNMEASURED_MS);
    this.draw();
  }
}

let number = 0;

// The tiles of an answer, to be drawn: { grid, side, left, top }, and a number that no others have.
export function readTiles({ bits, rows, columns, side, left, top }) {
  const grid = new OffscreenCanvas(columns, rows);
  const image = new ImageData(columns, rows);
  const bytes = Uint8Array.from(atob(bits), (letter) => letter.charCodeAt(0));
  for (let i = 0; i < rows * columns; i++) image.data[4 * i + 3] = (bytes[i >> 3] >> (7 - (i & 7))) & 1 ? 255 : 0;
  grid.getContext("2d").putImageData(image, 0, 0);
  return { grid, number: ++number, side, left, top, begun: 0 };
}

// How far tiles have faded in, 0 to 1.
export function faded(tiles) {
  return Math.min(1, (performance.now() - tiles.begun) / FADE_MS);
}

function cost({ seconds, dense_seconds, fraction, mode, measured }) {
  const times = dense_seconds / Math.max(seconds, 1e-9);
  const values = { seconds: seconds.toFixed(1), percent: (100 * fraction).toFixed(0), times: times.toFixed(1) };
  if (!measured) return say("cost.unmeasured", values);
  return say(mode === "dense" ? "cost.dense" : "cost.sparse", values);
}

const png = (canvas) => new Promise((resolve) => { canvas.toBlob(resolve, "image/png"); });
