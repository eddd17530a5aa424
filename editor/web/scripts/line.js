// A line of sentences. They may hold what a person typed: they are set as text, never as markup.
import { tell } from "./words.js";

export function start(element, props, events, watch) {
  const line = element.querySelector("p");
  function write() {
    const sentences = [props.value ?? []].flat();
    line.textContent = sentences.map(tell).join(line.dataset.between ?? " ");
    line.dataset.seconds = sentences.find((one) => one.values?.seconds)?.values.seconds ?? "";
  }
  watch("value", write);
  write();
}
