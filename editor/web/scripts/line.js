// A line of sentences. They may hold what a person typed: they are set as text, never as markup.
import { tell } from "./words.js";

export function start(element, props, events, watch) {
  const line = element.querySelector("p");
  const write = () => { line.textContent = [props.value ?? []].flat().map(tell).join(line.dataset.between ?? " "); };
  watch("value", write);
  write();
}
