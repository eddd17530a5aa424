// The history as a tree: one column per generation, one lane per branch. Names are set as text, never as markup.
import { fill, say, translate } from "./words.js";

const [WIDE, HIGH] = [84, 84];   // of a place in the tree, in CSS pixels

const called = (item) => translate(item.name);   // an example has a name of the program's

export function start(element, props, events, watch) {
  const tree = element.querySelector(".tree");

  function draw() {
    if (tree.querySelector("input")) return;   // a name is being typed; drawn when that is done
    const { items = [], selected = null } = props.value || {};
    const columns = Math.max(0, ...items.map((item) => item.column)) + 1;
    const lanes = Math.max(0, ...items.map((item) => item.lane)) + 1;
    tree.style.width = `${columns * WIDE}px`;
    tree.style.height = `${items.length ? lanes * HIGH : 0}px`;
    tree.replaceChildren(lines(items), ...items.map((item) => entry(item, item.id === selected)));
    tree.querySelector('[aria-pressed="true"]')?.scrollIntoView({ block: "nearest", inline: "nearest" });
  }

  function entry(item, current) {
    const place = document.createElement("div");
    place.className = "entry";
    place.style.left = `${item.column * WIDE}px`;
    place.style.top = `${item.lane * HIGH}px`;
    const button = document.createElement("button");
    button.type = "button";
    button.className = "pick";
    button.dataset.id = item.id;
    button.title = `${called(item)}\n${say("history.version", { id: item.id })}\n${say("history.hint")}`;
    button.setAttribute("aria-pressed", String(current));
    button.setAttribute("aria-label", called(item));
    const picture = document.createElement("img");
    picture.src = item.url;
    picture.alt = "";
    const name = document.createElement("span");
    name.textContent = called(item);
    button.append(picture, name);
    button.addEventListener("click", (event) => {
      if (event.shiftKey) compare(item);
      else if (!current) events.pick({ id: item.id });
    });
    button.addEventListener("dblclick", () => rename(item, place));
    button.addEventListener("keydown", (event) => {
      const act = { F2: () => rename(item, place), c: () => compare(item) }[event.key];
      if (!act) return;
      event.preventDefault();
      event.stopPropagation();
      act();
    });
    place.append(button);
    if (!current) place.append(comparer(item));
    return place;
  }

  function comparer(item) {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "with";
    button.textContent = "\u25e7";
    button.title = say("history.compare");
    button.setAttribute("aria-label", say("history.compare"));
    button.addEventListener("click", () => compare(item));
    return button;
  }

  // the canvas shows the two
  function compare(item) {
    window.dispatchEvent(new CustomEvent("deltabrush:compare", { detail: { url: item.picture } }));
  }

  function rename(item, place) {
    const field = document.createElement("input");
    field.value = called(item);
    field.maxLength = 80;
    field.setAttribute("aria-label", say("history.rename"));
    const done = (keep) => {
      field.onblur = null;
      field.remove();
      if (keep && field.value.trim() && field.value !== called(item)) events.rename({ id: item.id, name: field.value });
      draw();
    };
    field.onkeydown = (event) => {
      if (event.key === "Enter") done(true);
      if (event.key === "Escape") done(false);
      event.stopPropagation();
    };
    field.onblur = () => done(true);
    place.append(field);
    field.select();
  }

  fill(element);
  watch("value", draw);
  draw();
}

function lines(items) {
  const places = new Map(items.map((item) => [item.id, item]));
  const drawing = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  drawing.setAttribute("aria-hidden", "true");
  for (const item of items) {
    const parent = places.get(item.parent);
    if (!parent) continue;
    const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
    const [x0, y0] = [parent.column * WIDE + WIDE / 2, parent.lane * HIGH + 32];
    const [x1, y1] = [item.column * WIDE + WIDE / 2, item.lane * HIGH + 32];
    path.setAttribute("d", `M${x0} ${y0}C${(x0 + x1) / 2} ${y0} ${(x0 + x1) / 2} ${y1} ${x1} ${y1}`);
    drawing.append(path);
  }
  return drawing;
}
