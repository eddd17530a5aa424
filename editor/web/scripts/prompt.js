// Under the prompt: how much of it the model sees, which words it does not know, and words to go on with.
import { shared } from "./session.js";
import { fill, say } from "./words.js";

const PAUSE_MS = 200;

export function start(element) {
  const find = (selector) => element.querySelector(selector);
  const field = document.querySelector("#prompt textarea");
  let timer = null;
  let asked = null;
  fill(element);

  async function ask() {
    const prompt = field.value;
    if (!shared.key || prompt === asked) return;
    asked = prompt;
    const response = await fetch(`/sessions/${shared.key}/words?${new URLSearchParams({ prompt })}`);
    if (response.ok && asked === prompt) show(await response.json());
  }

  function show({ used, limit, cut, unknown, suggestions }) {
    find(".tokens").textContent = say("prompt.tokens", { used, limit });
    find(".tokens").title = say("prompt.tokens.title");
    const notes = [];
    if (cut) notes.push(say("prompt.cut", { words: cut }));
    if (unknown.length) notes.push(say("prompt.unknown", { words: unknown.join(", ") }));
    find(".unread").textContent = notes.join(" ");
    find(".suggestions").replaceChildren(...suggestions.map((word) => {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = word;
      button.addEventListener("click", () => take(word));
      return button;
    }));
  }

  // The word that is being typed becomes `word`.
  function take(word) {
    field.value = `${field.value.replace(/[\p{L}]+$/u, "")}${word} `;
    field.dispatchEvent(new Event("input", { bubbles: true }));   // Gradio listens to this
    field.focus();
  }

  const soon = () => { clearTimeout(timer); timer = setTimeout(ask, PAUSE_MS); };
  field.addEventListener("input", soon);
  window.addEventListener("deltabrush:settings", soon);   // Gradio filled it in
  window.addEventListener("deltabrush:session", soon);
}
