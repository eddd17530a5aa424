// The bar above the canvas: opening and exporting pictures, undo and redo of edits, the theme, the list of shortcuts.
import { openFile, receive, saveProject } from "./files.js";
import { listen, shortcuts } from "./keys.js";
import { showMemory } from "./memory.js";
import { fill, say, translate } from "./words.js";

const THEME = "deltabrush-theme";
// Gradio's controls by their ids; the usual technical name is their tooltip
const CONTROLS = ["strength", "edge", "variations", "grow", "feather", "guidance", "mode", "check"];

export function start(element, props, events, watch) {
  const find = (selector) => element.querySelector(selector);
  fill(element);
  for (const name of CONTROLS) document.getElementById(name)?.setAttribute("title", say(`${name}.title`));

  function update() {
    const { id = null, name = "", export: address = null, can = {} } = props.value || {};
    for (const button of element.querySelectorAll("[data-send]")) button.disabled = !can[button.dataset.send];
    find(".save").disabled = !can.save;
    find(".name").hidden = id === null;
    if (document.activeElement !== find(".name")) find(".name").value = translate(name);
    find(".export").hidden = !address;
    for (const link of element.querySelectorAll("[data-format]")) {
      link.href = address ? `${address}.${link.dataset.format}?metadata=${Number(find(".metadata").checked)}` : "";
    }
  }

  for (const button of element.querySelectorAll("[data-send]")) button.onclick = () => events[button.dataset.send]();
  find(".save").onclick = saveProject;
  const name = find(".name");
  name.onchange = () => events.rename({ id: props.value.id, name: name.value });
  name.onkeydown = (event) => {
    if (event.key === "Escape") name.value = translate(props.value.name);
    if (["Enter", "Escape"].includes(event.key)) name.blur();
  };
  find(".metadata").onchange = update;
  for (const link of element.querySelectorAll("[data-format]")) link.addEventListener("click", () => { find(".export").open = false; });
  document.addEventListener("pointerdown", (event) => { if (!find(".export").contains(event.target)) find(".export").open = false; });

  const chooser = find('input[type="file"]');
  chooser.parentElement.onkeydown = (event) => { if (event.key === "Enter" || event.key === " ") chooser.click(); };
  chooser.onchange = async () => {
    await openFile(chooser.files[0]);
    chooser.value = "";   // so that the same file can be chosen again
  };
  receive(events.opened);

  // ---- theme: the system's, until the person chooses

  const dark = (on) => document.body.classList.toggle("dark", on);
  const chosen = localStorage.getItem(THEME);
  if (chosen) dark(chosen === "dark");
  find(".theme").onclick = () => localStorage.setItem(THEME, dark() ? "dark" : "light");

  // ---- help

  const dialog = find("dialog.shortcuts");
  function help() {
    const close = document.createElement("button");
    close.type = "button";
    close.className = "button";
    close.textContent = say("keys.close");
    close.onclick = () => dialog.close();
    const title = document.createElement("h2");
    title.textContent = say("keys.title");
    const list = document.createElement("dl");
    for (const { keys, word } of shortcuts) {
      const term = document.createElement("dt");
      for (const key of keys) term.append(Object.assign(document.createElement("kbd"), { textContent: key }));
      list.append(term, Object.assign(document.createElement("dd"), { textContent: say(word) }));
    }
    dialog.replaceChildren(title, list, close);
    dialog.showModal();
  }
  find(".help").onclick = help;
  find(".memory").onclick = () => showMemory(find("dialog.caches"));
  dialog.onclick = (event) => { if (event.target === dialog) dialog.close(); };

  const send = (name) => () => (props.value?.can[name] ? events[name]() : false);
  listen([
    { keys: ["Ctrl+s"], word: "keys.save", act: () => (props.value?.can.save ? void saveProject() : false) },
    { keys: [","], word: "keys.edit.undo", act: send("undo") },
    { keys: ["."], word: "keys.edit.redo", act: send("redo") },
    { keys: ["?"], word: "keys.help", act: help },
  ]);
  watch("value", update);
  update();
}
