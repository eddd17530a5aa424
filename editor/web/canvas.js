// The picture, and the mask a person paints over it.
//
// The value it shows: { session, picture, before, export: addresses, width, height, mask_id, running, resting,
// preview: data address of a small JPEG while running, progress: 0..1 }. A change of mask_id clears the mask. While
// `running` or `resting` (candidates wait) the mask is drawn as an outline; the next stroke on a resting mask begins
// a new one. Strokes are kept in picture pixels on a canvas of the picture's size; `view` maps those to the screen.
// For Python the mask is read by the page's wiring through readMask() of the <canvas> element.
const VEIL = "#7c3aed";
const VEIL_ALPHA = 0.45;
const find = (selector) => element.querySelector(selector);
const canvas = find("canvas");
const screen = canvas.getContext("2d");
const mask = document.createElement("canvas");
const paint = mask.getContext("2d");
const edge = document.createElement("canvas");
const outline = edge.getContext("2d");
const size = find(".size");

let shown = {};        // the value last drawn
let images = {};       // { picture, before, preview }, decoded
let view = { scale: 1, x: 0, y: 0 };
let fitted = true;
let tool = "brush";
let resting = false;
let comparing = false;
let spaceHeld = false;
let pointer = null;    // where the brush ring is drawn, in picture pixels
let drag = null;       // { kind: "stroke" | "pan", id, at }

// ---- what is shown

async function load(address) {
  if (!address) return null;
  const image = new Image();
  image.src = address;
  await image.decode();
  return image;
}

async function update() {
  const value = props.value || {};
  const previous = shown;
  shown = value;
  if (value.session) sessionStorage.setItem("deltabrush", value.session);
  if (value.mask_id !== previous.mask_id) {
    if (mask.width !== value.width || mask.height !== value.height) fitted = true;
    mask.width = value.width || 1;
    mask.height = value.height || 1;
  }
  resting = Boolean(value.resting);
  find(".hint").hidden = Boolean(value.picture || value.running);
  const save = find(".export");
  save.hidden = !value.export;
  if (value.export) save.href = value.export;
  find(".progress").hidden = !value.running;
  find(".progress div").style.width = `${100 * (value.progress || 0)}%`;
  for (const name of ["picture", "before", "preview"]) {
    if (value[name] === previous[name]) continue;
    try {
      const image = await load(value[name]);
      if (shown[name] === value[name]) images[name] = image;   // a newer value may have come meanwhile
    } catch {
      images[name] = null;   // gone from the server: an empty place says so
    }
  }
  if (fitted) fit();
  draw();
}

function fit() {
  const [width, height] = [shown.width || 1, shown.height || 1];
  const scale = Math.min(canvas.width / width, canvas.height / height);
  const centre = (space, length) => Math.round((space - length * scale) / 2);
  view = { scale, x: centre(canvas.width, width), y: centre(canvas.height, height) };
  fitted = true;
}

let drawing = false;
function draw() {
  if (drawing) return;
  drawing = true;
  requestAnimationFrame(() => { drawing = false; drawNow(); });
}

function drawNow() {
  screen.setTransform(1, 0, 0, 1, 0, 0);
  screen.clearRect(0, 0, canvas.width, canvas.height);
  screen.setTransform(view.scale, 0, 0, view.scale, view.x, view.y);
  screen.imageSmoothingEnabled = view.scale < 3;   // show pixels as squares when they are large
  screen.imageSmoothingQuality = "high";
  const image = comparing ? images.before : images.picture;
  if (image) screen.drawImage(image, 0, 0, shown.width, shown.height);
  if (shown.running && images.preview && !comparing) screen.drawImage(images.preview, 0, 0, shown.width, shown.height);
  if ((!image && !shown.running) || comparing) return;
  if (!resting && !shown.running) {
    screen.globalAlpha = VEIL_ALPHA;
    screen.drawImage(mask, 0, 0);
    screen.globalAlpha = 1;
  }
  drawOutline();
  drawBrushRing();
}

function drawOutline() {
  const thick = Math.max(1, Math.round(1.5 * devicePixelRatio));
  edge.width = canvas.width;   // also clears it
  edge.height = canvas.height;
  outline.setTransform(1, 0, 0, 1, 0, 0);
  for (const [dx, dy] of [[-1, -1], [0, -1], [1, -1], [-1, 0], [1, 0], [-1, 1], [0, 1], [1, 1]]) {
    outline.setTransform(view.scale, 0, 0, view.scale, view.x + dx * thick, view.y + dy * thick);
    outline.drawImage(mask, 0, 0);
  }
  outline.globalCompositeOperation = "destination-out";
  outline.setTransform(view.scale, 0, 0, view.scale, view.x, view.y);
  outline.drawImage(mask, 0, 0);
  screen.setTransform(1, 0, 0, 1, 0, 0);
  screen.drawImage(edge, 0, 0);
}

function drawBrushRing() {
  if (!pointer || shown.running || spaceHeld) return;
  screen.setTransform(1, 0, 0, 1, 0, 0);
  const [x, y] = [view.x + pointer.x * view.scale, view.y + pointer.y * view.scale];
  for (const [colour, width] of [["#000", 3], ["#fff", 1.5]]) {
    screen.beginPath();
    screen.arc(x, y, Math.max(1, (size.value / 2) * view.scale), 0, 2 * Math.PI);
    screen.strokeStyle = colour;
    screen.lineWidth = width * devicePixelRatio;
    screen.stroke();
  }
}

// ---- painting

function place(event) {
  const box = canvas.getBoundingClientRect();
  return {
    x: ((event.clientX - box.left) * canvas.width / box.width - view.x) / view.scale,
    y: ((event.clientY - box.top) * canvas.height / box.height - view.y) / view.scale,
  };
}

function dab(from, to) {
  paint.globalCompositeOperation = tool === "brush" ? "source-over" : "destination-out";
  paint.fillStyle = paint.strokeStyle = VEIL;
  paint.lineWidth = Number(size.value);
  paint.lineCap = "round";
  paint.beginPath();
  paint.arc(to.x, to.y, size.value / 2, 0, 2 * Math.PI);
  paint.fill();
  paint.beginPath();
  paint.moveTo(from.x, from.y);
  paint.lineTo(to.x, to.y);
  paint.stroke();
}

function clear() {
  paint.clearRect(0, 0, mask.width, mask.height);
  resting = false;
  draw();
}

// White on black at picture size, as a PNG data address; null without a picture.
canvas.readMask = () => {
  if (!shown.picture) return null;
  const copy = document.createElement("canvas");
  copy.width = mask.width;
  copy.height = mask.height;
  const out = copy.getContext("2d");
  out.drawImage(mask, 0, 0);
  out.globalCompositeOperation = "source-in";
  out.fillStyle = "#fff";
  out.fillRect(0, 0, copy.width, copy.height);
  out.globalCompositeOperation = "destination-over";
  out.fillStyle = "#000";
  out.fillRect(0, 0, copy.width, copy.height);
  return copy.toDataURL("image/png");
};

canvas.addEventListener("pointerdown", (event) => {
  if (!shown.picture || drag) return;
  const pans = event.button === 1 || (event.button === 0 && spaceHeld);
  if (!pans && (event.button !== 0 || shown.running)) return;
  event.preventDefault();
  canvas.focus({ preventScroll: true });
  canvas.setPointerCapture(event.pointerId);
  if (!pans && resting) clear();
  const at = place(event);
  drag = { kind: pans ? "pan" : "stroke", id: event.pointerId, at };
  if (!pans) dab(at, at);
  draw();
});

canvas.addEventListener("pointermove", (event) => {
  pointer = place(event);
  if (drag && drag.id === event.pointerId) {
    if (drag.kind === "pan") {
      view.x += (pointer.x - drag.at.x) * view.scale;
      view.y += (pointer.y - drag.at.y) * view.scale;
      fitted = false;
      pointer = drag.at;   // the picture moves with the pointer
    } else {
      const events = event.getCoalescedEvents?.() ?? [];
      for (const each of events.length ? events : [event]) {
        const to = place(each);
        dab(drag.at, to);
        drag.at = to;
      }
    }
  }
  draw();
});

for (const name of ["pointerup", "pointercancel"]) canvas.addEventListener(name, () => { drag = null; draw(); });
canvas.addEventListener("pointerleave", () => { pointer = null; draw(); });
canvas.addEventListener("wheel", (event) => {
  if (!shown.picture) return;
  event.preventDefault();
  const at = place(event);
  const scale = Math.min(64, Math.max(0.05, view.scale * Math.exp(-event.deltaY / 400)));
  view = { scale, x: view.x + at.x * (view.scale - scale), y: view.y + at.y * (view.scale - scale) };
  fitted = false;
  draw();
}, { passive: false });

// ---- tools and keys

function choose(name) {
  tool = name;
  for (const button of element.querySelectorAll("[data-tool]")) {
    button.setAttribute("aria-pressed", String(button.dataset.tool === name));
  }
}

function resize(factor) {
  size.value = Math.round(Math.max(1, size.value * factor + Math.sign(factor - 1)));
  draw();
}

function compare(on) {
  comparing = on && Boolean(images.before);
  draw();
}

for (const button of element.querySelectorAll("[data-tool]")) button.onclick = () => choose(button.dataset.tool);
find('[data-do="clear"]').onclick = clear;
find('[data-do="fit"]').onclick = () => { fit(); draw(); };
const hold = find('[data-do="before"]');
for (const name of ["pointerdown", "keydown"]) hold.addEventListener(name, (event) => compare(event.key !== "Tab"));
for (const name of ["pointerup", "pointerleave", "keyup", "blur"]) hold.addEventListener(name, () => compare(false));

document.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) document.getElementById("go")?.click();
  if (event.key === "Escape") document.getElementById("stop")?.click();
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target.closest("input, textarea, [contenteditable]")) return;
  if (event.key === " " && event.target === canvas) { spaceHeld = true; event.preventDefault(); }
  const action = {
    b: () => choose("brush"), e: () => choose("eraser"), "[": () => resize(0.8), "]": () => resize(1.25),
    0: () => { fit(); draw(); },
  }[event.key.toLowerCase()];
  if (action) action();
});
document.addEventListener("keyup", (event) => { if (event.key === " ") spaceHeld = false; });

// ---- opening a picture: the file goes to the session as it is, then the page is told

async function open(file) {
  if (!file || !shown.session) return;
  await fetch(`/sessions/${shown.session}/upload`, { method: "POST", body: file });
  trigger("opened");
}

const chooser = find('input[type="file"]');
chooser.onchange = async () => { await open(chooser.files[0]); chooser.value = ""; };
chooser.parentElement.onkeydown = (event) => { if (event.key === "Enter" || event.key === " ") chooser.click(); };
// a file dropped anywhere else would make the browser leave the page
window.addEventListener("dragover", (event) => event.preventDefault());
window.addEventListener("drop", (event) => { event.preventDefault(); open(event.dataTransfer.files[0]); });
document.addEventListener("paste", (event) => open(event.clipboardData.files[0]));

new ResizeObserver(([entry]) => {
  const box = entry.devicePixelContentBoxSize?.[0];
  canvas.width = box?.inlineSize ?? Math.round(canvas.clientWidth * devicePixelRatio);
  canvas.height = box?.blockSize ?? Math.round(canvas.clientHeight * devicePixelRatio);
  if (fitted) fit();
  draw();
}).observe(canvas);
watch("value", update);
update();
