// What caches hold: of each kind of memory how much of its budget, and of each picture, to be dropped or recorded anew.
// Names may hold what a person typed: they are set as text, never as markup.
import { shared } from "./session.js";
import { say, translate } from "./words.js";

const megabytes = (bytes) => (bytes / 1e6).toFixed(bytes < 1e7 ? 1 : 0);
const make = (tag, properties = {}, ...children) => {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children);
  return element;
};

async function ask(path = "", method = "GET") {
  const response = await fetch(`/sessions/${shared.key}/memory${path}`, { method });
  return response.ok ? response.json() : { problem: translate(await response.text()) };
}

export async function showMemory(dialog) {
  const body = make("div", { className: "caches" });
  const close = make("button", { type: "button", className: "button", textContent: say("keys.close") });
  close.onclick = () => dialog.close();
  dialog.onclick = (event) => { if (event.target === dialog) dialog.close(); };
  dialog.replaceChildren(make("h2", { textContent: say("memory.title") }), body, close);

  function button(name, title, item, method) {
    const act = make("button", { type: "button", className: "button", textContent: name, title });
    act.onclick = async () => {
      act.disabled = true;
      draw(await ask(`/${encodeURIComponent(item.id)}`, method));
    };
    return act;
  }

  function draw({ tiers = [], items = [], others = 0, problem = "" }) {
    const kinds = tiers.map(({ name, held, budget }) => {
      const told = say(`memory.${name}`, { held: megabytes(held), budget: megabytes(budget) });
      return make("label", {}, told, make("progress", { value: held, max: Math.max(budget, 1) }));
    });
    const rows = items.map((item) => make("tr", {},
      make("td", { textContent: translate(item.name) }),
      make("td", { textContent: say("memory.size", { megabytes: megabytes(item.bytes) }) }),
      make("td", {},
        button(say("memory.refresh"), say("memory.refresh.title"), item, "POST"),
        button(say("memory.drop"), say("memory.drop.title"), item, "DELETE"))));
    if (others) rows.push(make("tr", {}, make("td", { textContent: say("memory.others") }), make("td", { textContent: say("memory.size", { megabytes: megabytes(others) }) })));
    body.replaceChildren(...kinds, problem || make("table", {}, ...rows));
  }

  body.textContent = say("memory.waiting");
  dialog.showModal();
  draw(await ask());
}
