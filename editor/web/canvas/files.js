// Pictures that come in: chosen, dropped anywhere on the page, or pasted.
export function receive(chooser, take) {
  chooser.addEventListener("change", async () => {
    await take(chooser.files[0]);
    chooser.value = "";   // so that the same file can be chosen again
  });
  // a file dropped anywhere else would make the browser leave the page
  window.addEventListener("dragover", (event) => event.preventDefault());
  window.addEventListener("drop", (event) => {
    event.preventDefault();
    take(event.dataTransfer.files[0]);
  });
  document.addEventListener("paste", (event) => take(event.clipboardData.files[0]));
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
