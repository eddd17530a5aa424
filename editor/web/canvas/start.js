// The canvas of the page: shows the value that Python gives, and keeps the mask that a person paints.
//
// The value: { session, picture, before, export: addresses or null, width, height: of the picture, mask_id, running,
// resting, preview: { url, left, top, width, height } of what is changing while running, progress: 0..1 }. A change of mask_id clears the mask.
// While `running`, or `resting` (candidates wait), the mask is drawn as an outline; the next stroke on a resting mask
// begins a new one. Python reads the mask through readMask() of the <canvas> element.
import { load, receive } from "./files.js";
import { hold, listen } from "./keys.js";
import { Mask } from "./mask.js";
import { Painter } from "./paint.js";
import { Pointer } from "./pointer.js";
import { View } from "./view.js";

// opened: tells Python that a picture file has arrived in the session
export function start(element, props, opened, watch) {
  const find = (selector) => element.querySelector(selector);
  const canvas = find("canvas");
  const view = new View(canvas);
  const mask = new Mask();
  const painter = new Painter(canvas, view, mask);
  let shown = {};
  let images = {};
  let resting = false;
  let comparing = false;

  const draw = () => painter.ask(scene);
  const pointer = new Pointer(canvas, view, mask, {
    may: () => Boolean(shown.picture) && !shown.running,
    started: () => { if (resting) { mask.clear(); resting = false; } },
    changed: () => { showState(); draw(); },
  });

  function scene() {
    const image = comparing ? images.before : images.picture;
    const radius = pointer.brushRadius;
    return {
      image,
      patch: comparing || !shown.running ? null : images.preview,
      masked: !comparing && Boolean(image || shown.running),
      veiled: !resting && !shown.running,
      tool: pointer.tool,
      brush: radius && pointer.at && !shown.running && !pointer.spaceHeld ? { at: pointer.at, radius } : null,
    };
  }

  async function update() {
    const value = props.value || {};
    const previous = shown;
    shown = value;
    if (value.session) sessionStorage.setItem("deltabrush", value.session);
    view.show(value.width || 1, value.height || 1);
    if (value.mask_id !== previous.mask_id) {
      pointer.cancel();
      mask.reset(value.width || 1, value.height || 1);
    }
    resting = Boolean(value.resting);
    find(".hint").hidden = Boolean(value.picture || value.running);
    find(".export").hidden = !value.export;
    if (value.export) find(".export").href = value.export;
    find(".progress").hidden = !value.running;
    find(".progress div").style.width = `${100 * (value.progress || 0)}%`;
    showState();
    for (const name of ["picture", "before"]) {
      if (value[name] === previous[name]) continue;
      const image = await load(value[name]);
      if (shown[name] === value[name]) images[name] = image;   // a newer value may have come meanwhile
    }
    const { preview } = value;
    if (preview?.url !== previous.preview?.url) {
      const image = await load(preview?.url);
      if (shown.preview?.url === preview?.url) images.preview = image && { ...preview, image };
    }
    draw();
  }

  // ---- the toolbar

  const { settings } = pointer;
  const change = (act) => () => {
    if (!shown.picture || shown.running) return false;
    pointer.cancel();
    resting = false;
    act.call(mask);
    showState();
    draw();
  };
  const actions = {
    undo: change(mask.undo),
    redo: change(mask.redo),
    clear: change(mask.clear),
    invert: change(mask.invert),
    holes: change(mask.fillHoles),
    fit: () => { view.fit(); draw(); },
    actual: () => { view.actual(); draw(); },
  };

  function showState() {
    for (const button of element.querySelectorAll("[data-tool]")) {
      button.setAttribute("aria-pressed", String(button.dataset.tool === settings.tool));
    }
    find('[data-do="undo"]').disabled = !mask.canUndo;
    find('[data-do="redo"]').disabled = !mask.canRedo;
    find(".brush-only").hidden = pointer.brushRadius === null;
  }

  function choose(tool) {
    pointer.choose(tool);
    showState();
    draw();
  }

  function resize(factor) {
    const size = find(".size");
    size.value = settings.size = Math.round(Math.max(1, settings.size * factor + Math.sign(factor - 1)));
    settings.size = Number(size.value);
    draw();
  }

  function compare(on) {
    comparing = on && Boolean(images.before);
    draw();
  }

  for (const button of element.querySelectorAll("[data-tool]")) button.onclick = () => choose(button.dataset.tool);
  for (const button of element.querySelectorAll("[data-do]")) button.onclick = actions[button.dataset.do];
  find(".size").oninput = (event) => { settings.size = Number(event.target.value); draw(); };
  find(".soft").onchange = (event) => { settings.softness = event.target.checked ? 1 : 0; };
  find(".veil").oninput = (event) => { painter.veil = Number(event.target.value); draw(); };
  const before = find(".before");
  for (const name of ["pointerdown", "keydown"]) before.addEventListener(name, (event) => compare(event.key !== "Tab"));
  for (const name of ["pointerup", "pointerleave", "keyup", "blur"]) {
    before.addEventListener(name, () => compare(false));
  }

  // ---- keys

  const press = (id) => () => document.getElementById(id)?.click();
  listen({
    "Ctrl+Enter": press("go"),
    Escape: () => pointer.cancel() || press("stop")(),
    Enter: (event) => event.target === canvas && pointer.finish(),
    Backspace: () => pointer.back(),
    "Ctrl+z": actions.undo, "Ctrl+Shift+z": actions.redo, "Ctrl+y": actions.redo,
    "Ctrl+0": actions.fit, "Ctrl+1": actions.actual, 0: actions.fit, 1: actions.actual,
    b: () => choose("brush"), e: () => choose("eraser"), l: () => choose("lasso"), p: () => choose("polygon"),
    r: () => choose("rectangle"), o: () => choose("ellipse"),
    f: actions.holes, i: actions.invert, Delete: actions.clear,
    "[": () => resize(0.8), "]": () => resize(1.25),
  }, ["Ctrl+Enter", "Escape"]);
  hold(" ", (event) => event.target === canvas, (on) => { pointer.spaceHeld = on; draw(); });

  // ---- pictures and masks in and out

  async function open(file) {
    if (!file || !shown.session) return;
    await fetch(`/sessions/${shown.session}/upload`, { method: "POST", body: file });
    opened();
  }
  const chooser = find('input[type="file"]');
  receive(chooser, open);
  chooser.parentElement.onkeydown = (event) => { if (event.key === "Enter" || event.key === " ") chooser.click(); };

  canvas.readMask = () => (shown.picture ? mask.read() : null);

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
