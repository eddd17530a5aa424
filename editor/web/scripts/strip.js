// The takes to choose from, newest last. Names may hold what a person typed: they are set as text, never as markup.
import { fill, say } from "./words.js";

export function start(element, props, events, watch) {
  const strip = element.querySelector(".strip");

  function draw() {
    const { items = [], selected = null } = props.value || {};
    strip.replaceChildren(...items.map((item, index) => {
      const button = document.createElement("button");
      const picture = document.createElement("img");
      button.type = "button";
      button.title = picture.alt = `${index + 1}: ${item.name}`;
      button.setAttribute("aria-pressed", String(item.id === selected));
      picture.src = item.url;
      if (item.dense) button.dataset.mark = say("takes.dense");
      button.append(picture);
      button.addEventListener("click", () => events.pick({ id: item.id }));
      return button;
    }));
    strip.querySelector('[aria-pressed="true"]')?.scrollIntoView({ block: "nearest", inline: "nearest" });
  }

  fill(element);
  watch("value", draw);
  draw();
}
