// Pictures, projects and masks that come in: chosen, dropped anywhere on the page, or pasted. Projects that go out.
import { moveTo, shared } from "./session.js";

let opened = () => {};
let useMask = async () => false;
let complain = () => {};

// opened: tells Python that a picture file has arrived in the session
export function receive(tellOpened) {
  opened = tellOpened;
  const zones = () => document.querySelector("#canvas .dropzones");
  const hasFile = (event) => [...(event.dataTransfer?.items ?? [])].some((item) => item.kind === "file");
  // a file dropped anywhere would otherwise make the browser leave the page
  window.addEventListener("dragover", (event) => {
    event.preventDefault();
    if (hasFile(event) && zones()) zones().hidden = !zones().dataset.ready;
  });
  window.addEventListener("dragleave", (event) => { if (!event.relatedTarget && zones()) zones().hidden = true; });
  window.addEventListener("drop", (event) => {
    event.preventDefault();
    if (zones()) zones().hidden = true;
    const file = event.dataTransfer.files[0];
    const zone = event.target.closest?.("[data-drop]")?.dataset.drop;
    if (file) take(file, zone);
  });
  document.addEventListener("paste", (event) => {
    const file = event.clipboardData.files[0];
    if (file) take(file);
  });
}

// The canvas's part: mask(file) uses a file as the mask; complaint(sentence) shows what was wrong.
export function receiveMasks(mask, complaint) {
  useMask = mask;
  complain = complaint;
}

// Without a zone, a picture of only greys and of the size of the one that is open is a mask.
async function take(file, zone) {
  const mask = zone === "mask" || (zone !== "picture" && await looksLikeMask(file));
  await (mask ? useMask(file) : openFile(file));
}

async function looksLikeMask(file) {
  const { width, height } = document.querySelector("#canvas canvas").picture ?? {};
  let bitmap;
  try {
    bitmap = await createImageBitmap(file);
  } catch {
    return false;
  }
  if (bitmap.width !== width || bitmap.height !== height) return false;
  const copy = new OffscreenCanvas(width, height).getContext("2d");
  copy.drawImage(bitmap, 0, 0);
  const { data } = copy.getImageData(0, 0, width, height);
  let [black, white] = [0, 0];
  for (let i = 0; i < data.length; i += 4) {
    if (data[i] !== data[i + 1] || data[i] !== data[i + 2]) return false;
    if (data[i] < 16) black++;
    if (data[i] > 239) white++;
  }
  return black + white > 0.8 * width * height && white > 0;
}

export async function openFile(file) {
  if (!file || !shared.key) return;
  const isProject = await file.slice(0, 2).text() === "PK";   // what it is, whatever it is called
  const query = new URLSearchParams({ name: file.name });
  const address = `/sessions/${shared.key}/${isProject ? "project" : "upload"}?${query}`;
  const response = await fetch(address, { method: "POST", body: file });
  if (!response.ok) complain(await response.text());
  else if (isProject) moveTo((await response.json()).key);
  else opened();
}

// Saves all of the session in one file, which the server keeps as well.
export async function saveProject() {
  const response = await fetch(`/sessions/${shared.key}/save`, { method: "POST" });
  if (!response.ok) return complain(await response.text());
  const { name } = await response.json();
  Object.assign(document.createElement("a"), { href: `/sessions/${shared.key}/saved.deltabrush`, download: name }).click();
}

// The picture at an address, decoded; null without one, and where it is gone.
export async function load(address) {
  if (!address) return null;
  const image = new Image();
  image.src = address;
  try {
    await image.decode();
    return image;
  } catch {
    return null;
  }
}
