// The words of the page in the language of whoever looks at it; the same files serve Gradio's components.
export const LANGUAGES = ["en", "zh-CN"];

const base = (tag) => tag.split("-")[0];
const chosen = document.documentElement.lang;   // by Gradio, from what the browser prefers: all of the page agrees
const akin = (language) => base(language) === base(chosen);
export const language = LANGUAGES.find((it) => it === chosen) ?? LANGUAGES.find(akin) ?? "en";
document.documentElement.lang = language;

const load = async (name) => (await fetch(`/scripts/words/${name}.json`)).json();
const words = await load(language);
// what the program itself says, as templates with {}: it speaks English, for logs and programs read it, too
const sentences = language === "en" ? {} : await load(`sentences/${language}`);
// those that say more come first: `{} is {}x{}: use a picture with ...` is also a `{} is {}x{}: {}.`
const said = (template) => template.replaceAll("{}", "").length;
const templates = Object.keys(sentences).sort((one, other) => said(other) - said(one)).map((english) => {
  const parts = english.split("{}").map((part) => part.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
  return [new RegExp(`^${parts.join("(.*?)")}$`, "s"), sentences[english]];
});

// The words of `key`, with {names} replaced by values.
export function say(key, values = {}) {
  return (words[key] ?? key).replace(/\{(\w+)\}/g, (whole, name) => values[name] ?? whole);
}

// A sentence of the program in the page's language, where there is a translation. Values may come in another order there,
// as {1}, {2}, and are translated where they are words or sentences of the program themselves.
export function translate(sentence) {
  for (const [pattern, translated] of templates) {
    const values = sentence.match(pattern);
    if (!values) continue;
    let next = 1;
    return translated.replace(/\{(\d*)\}/g, (whole, number) => translate(values[number || next++]));
  }
  return sentence;
}

// Writes what `line` in words.py describes: sentences by key, and sentences of the program.
export const tell = (one) => (typeof one === "string" ? translate(one) : say(one.key, one.values));

// Fills in the words of markup: text, tooltips and labels for screen readers.
export function fill(element) {
  for (const each of element.querySelectorAll("[data-word]")) each.textContent = say(each.dataset.word);
  for (const each of element.querySelectorAll("[data-title]")) each.title = say(each.dataset.title);
  for (const each of element.querySelectorAll("[data-label]")) each.setAttribute("aria-label", say(each.dataset.label));
}
