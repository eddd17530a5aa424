// The canvas of the page: shows the value that Python gives, and keeps the mask that a person paints.
//
// The value: { session, document, used_masks, picture, before: addresses or null, width, height: of the picture,
// mask: { left, top, url } as the server has it, running, resting, tiles: what the shown take recomputed }.
// Another document resets the mask to the server's; another number of used_masks clears one that was sent.
// While `running`, or `resting` (takes wait), a mask that was sent is drawn as an outline, and the next stroke begins a
// new one. Python reads the mask through submitMask() of the <canvas> element.
import { load, receiveMasks } from "../files.js";
import { hold, listen } from "../keys.js";
import { own, shared } from "../session.js";
import { fill, translate } from "../words.js";
import { Compare } from "./compare.js";
import { Forecast, faded, readTiles } from "./forecast.js";
import { Mask } from "./mask.js";
import { Painter } from "./paint.js";
import { Pointer } from "./pointer.js";
import { Progress } from "./progress.js";
import { Toolbar } from "./toolbar.js";
import { View } from "./view.js";

const TAP_MS = 200;   // a Tab that is held longer compares, a shorter one moves on

export function start(element, props, events, watch) {
  const find = (selector) => element.querySelector(selector);
  const canvas = find("canvas");
  const view = new View(canvas);
  const mask = new Mask();
  const painter = new Painter(canvas, view, mask);
  let shown = {};
  let images = {};
  let realTiles = null;
  let submitted = null;   // revision of the mask that was sent last

  fill(element);
  const draw = () => painter.ask(scene);
  const pointer = new Pointer(canvas, view, mask, {
    may: () => Boolean(shown.picture),
    started: () => { if (isUsed()) mask.clear(); },
    changed: () => { toolbar.update(); if (pointer.area()) forecast.ask(false); draw(); },
    painted: () => forecast.ask(true),
  });
  const forecast = new Forecast(mask, painted, draw);
  const progress = new Progress((first) => {
    if (first) painter.mark("deltabrush-preview");
    draw();
  });
  const compare = new Compare({ button: find(".compare"), divider: find(".divider"), draw });
  const toolbar = new Toolbar(element, { pointer, mask, view, painter, draw, change });

  // Whether the mask belongs to what runs or waits.
  const isUsed = () => mask.revision === submitted && (shown.resting || shown.running);

  // Everything painted, the stroke that goes on included.
  function painted() {
    const [done, now] = [mask.bounds(), pointer.area()];
    if (!done || !now) return done ?? now;
    return {
      left: Math.min(done.left, now.left), top: Math.min(done.top, now.top),
      right: Math.max(done.right, now.right), bottom: Math.max(done.bottom, now.bottom),
    };
  }

  function tiles() {
    const current = isUsed() && realTiles ? realTiles : forecast.tiles;
    if (!current || !toolbar.showsTiles) return null;
    const opacity = faded(current);
    if (opacity < 1) requestAnimationFrame(draw);
    return { ...current, opacity };
  }

  function scene() {
    const image = compare.held ?? images.picture;
    const radius = pointer.brushRadius;
    const comparing = compare.on || compare.holding;
    return {
      image,
      patch: compare.holding ? null : progress.preview,
      ...compare.scene,
      tiles: comparing ? null : tiles(),
      masked: !comparing && Boolean(image || shown.running),
      veiled: !isUsed(),
      tool: pointer.tool,
      brush: radius && pointer.at && shown.picture && !pointer.spaceHeld ? { at: pointer.at, radius } : null,
    };
  }

  async function update() {
    const value = props.value || {};
    const previous = shown;
    shown = value;
    if (value.session && value.session !== previous.session) own(value.session);
    const size = { width: value.width || 1, height: value.height || 1 };
    canvas.picture = size;
    view.show(size.width, size.height);
    if (value.document !== previous.document || mask.width !== size.width || mask.height !== size.height) {
      pointer.cancel();
      mask.reset(size.width, size.height);
      submitted = null;
      forecast.ready = false;
      if (value.session) restore(value.picture ? value.mask : null);
    } else if (value.used_masks !== previous.used_masks && mask.revision === submitted) {
      mask.clear();
      forecast.ask(true);
    }
    for (const state of ["running", "resting"]) document.body.classList.toggle(state, Boolean(value[state]));
    find(".welcome").hidden = Boolean(value.picture || value.running);
    if (find(".dropzones").dataset.ready !== (value.picture ? "1" : undefined)) {
      if (value.picture) find(".dropzones").dataset.ready = "1";
      else delete find(".dropzones").dataset.ready;
    }
    realTiles = value.tiles ? readTiles(value.tiles) : null;
    progress.follow(Boolean(value.running));
    toolbar.update();
    for (const name of ["picture", "before"]) {
      if (value[name] === previous[name]) continue;
      const image = await load(value[name]);
      if (shown[name] !== value[name]) continue;   // a newer value has come meanwhile
      images[name] = image;
      if (name === "picture" && image) painter.mark("deltabrush-picture");
    }
    compare.show(images.before ?? null);
    if (!shown.running) progress.preview = null;
    draw();
  }

  // Takes the mask that the server has, after a reload or with an example; without one there is nothing to take.
  async function restore(kept) {
    const { document: about } = shown;
    const revision = mask.revision;
    const image = kept && await load(`${kept.url}?${about}-${Math.random()}`);
    if (shown.document !== about) return;
    if (image && mask.revision === revision) {
      mask.paste(image, kept);
      if (shown.resting || shown.running) submitted = mask.revision;
    }
    toolbar.update();
    forecast.ready = true;
    forecast.ask(true);
    draw();
  }

  // An action on the whole mask; it may take up one that was used already.
  function change(act) {
    if (!shown.picture) return false;
    pointer.cancel();
    act.call(mask);
    toolbar.update();
    forecast.ask(true);
    draw();
    return true;
  }

  canvas.readMask = () => (shown.picture ? mask.read() : null);
  canvas.submitMask = () => {
    performance.clearMarks("deltabrush-pressed");
    performance.mark("deltabrush-pressed");
    pointer.cancel();
    submitted = mask.revision;
    return canvas.readMask();
  };

  async function useMask(file) {
    const response = await fetch(`/sessions/${shared.key}/mask-file`, { method: "POST", body: file });
    if (!response.ok) return complain(await response.text());
    const image = await createImageBitmap(await response.blob());
    change(() => mask.paste(image));
  }

  function complain(sentence) {
    document.querySelector("#message p").textContent = translate(sentence);
  }

  receiveMasks(useMask, complain);
  toolbar.onMaskFile = useMask;
  for (const button of element.querySelectorAll("[data-example]")) {
    button.onclick = () => events.example({ name: button.dataset.example });
    button.title = button.firstElementChild.alt = translate(button.title);
  }
  window.addEventListener("deltabrush:settings", () => forecast.ask(true));
  window.addEventListener("deltabrush:compare", (event) => compare.with(event.detail.url));

  // ---- keys

  const press = (id) => () => {
    const button = document.getElementById(id);
    return button && !button.disabled && button.checkVisibility() ? button.click() : false;
  };
  const onCanvas = (act) => (event) => (event.target === canvas ? act(event) : false);
  const ARROWS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
  const movePen = onCanvas((event) => {
    const far = event.shiftKey ? 1 : Math.max(4, pointer.settings.size / 4);
    pointer.step(...ARROWS[event.key].map((way) => way * far));
  });
  const chooseTake = (event) => {
    const take = document.querySelectorAll("#takes button")[Number(event.key) - 1];
    return take ? take.click() : false;
  };
  listen([
    { keys: ["Ctrl+Enter"], word: "keys.run", act: press("go"), everywhere: true },
    { keys: ["Escape"], word: "keys.stop", act: () => pointer.cancel() || press("stop")(), everywhere: true },
    { keys: ["Enter"], word: "keys.keep", act: onCanvas(() => pointer.finish() || press("keep")()) },
    { keys: ["Backspace"], word: "keys.drop", act: onCanvas(() => pointer.back() || press("drop")()) },
    { keys: ["1", "2", "3", "4"], word: "keys.take", act: chooseTake },
    ...toolbar.shortcuts,
    { keys: ["c"], word: "keys.compare", act: () => compare.toggle() },
    { keys: Object.keys(ARROWS), word: "keys.pen", act: movePen },
    { keys: ["v"], word: "keys.dip", act: onCanvas(() => pointer.dip()) },
  ]);
  hold({ key: " ", name: "Space", word: "keys.pan", element: canvas, change: (on) => { pointer.spaceHeld = on; draw(); } });

  // Tab is the way out of the canvas for who uses the keyboard: only a Tab that is held compares.
  let since = null;
  hold({
    key: "Tab", word: "keys.before", element: canvas,
    change(on) {
      if (on) {
        since = performance.now();
        setTimeout(() => { if (since !== null) compare.hold(true); }, TAP_MS);
      } else if (since !== null) {
        if (performance.now() - since < TAP_MS) next(canvas);
        since = null;
        compare.hold(false);
      }
    },
  });

  // Whole device pixels, where the browser knows them; they are wrong where a device's ratio is only emulated.
  const devicePixels = (exact, length) => {
    const near = length * devicePixelRatio;
    return Math.abs((exact ?? Infinity) - near) <= 1 ? exact : Math.round(near);
  };
  new ResizeObserver(([entry]) => {
    const box = entry.devicePixelContentBoxSize?.[0];
    canvas.width = devicePixels(box?.inlineSize, canvas.clientWidth);
    canvas.height = devicePixels(box?.blockSize, canvas.clientHeight);
    if (view.fitted) view.fit();
    draw();
  }).observe(canvas);
  watch("value", update);
  update();
}

// Moves the focus to what comes after an element, as Tab does.
function next(element) {
  const all = [...document.querySelectorAll("a[href], button, input, select, textarea, summary, [tabindex='0']")];
  const open = all.filter((each) => !each.disabled && each.checkVisibility({ visibilityProperty: true }));
  open[(open.indexOf(element) + 1) % open.length].focus();
}
