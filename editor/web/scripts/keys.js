// Keyboard shortcuts. Text fields keep every key but those with Ctrl that belong to the whole page, and Escape.
const MODIFIED = (event) => event.ctrlKey || event.metaKey;
const IN_TEXT = "input:not([type=range]):not([type=radio]):not([type=checkbox]), textarea, select, [contenteditable]";

const isTyping = (target) => Boolean(target.closest?.(IN_TEXT));
const inDialog = (target) => Boolean(target.closest?.("dialog[open]"));

// All of them, for the list that the person can open: { keys, word }.
export const shortcuts = [];
const actions = new Map();

document.addEventListener("keydown", (event) => {
  if (event.altKey || event.isComposing || event.defaultPrevented || inDialog(event.target)) return;
  const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
  const name = `${MODIFIED(event) ? "Ctrl+" : ""}${MODIFIED(event) && event.shiftKey ? "Shift+" : ""}${key}`;
  const shortcut = actions.get(name);
  if (!shortcut || (isTyping(event.target) && !shortcut.everywhere)) return;
  if (shortcut.act(event) !== false) event.preventDefault();
});

const ON_KEYS = { ArrowLeft: "\u2190", ArrowRight: "\u2192", ArrowUp: "\u2191", ArrowDown: "\u2193", Escape: "Esc" };
const named = (key) => ON_KEYS[key] ?? key.replace(/(^|\+)([a-z])$/, (whole, before, letter) => before + letter.toUpperCase());

// list: [{ keys: ["b"], word: its description, act, everywhere: also while typing }]. Keys are named like "Ctrl+Shift+z";
// an action returns false where it had nothing to do, and the key goes on to whoever else wants it.
export function listen(list) {
  for (const shortcut of list) {
    shortcuts.push({ keys: shortcut.keys.map(named), word: shortcut.word });
    for (const key of shortcut.keys) actions.set(key, shortcut);
  }
}

// While a key is down, on the element: `change(true)`, then `change(false)`, also where the window loses it meanwhile.
export function hold({ key, word, name, element, change }) {
  shortcuts.push({ keys: [name ?? key], word });
  element.addEventListener("keydown", (event) => {
    if (event.key !== key || MODIFIED(event) || event.altKey || event.shiftKey) return;
    event.preventDefault();
    if (!event.repeat) change(true);
  });
  document.addEventListener("keyup", (event) => { if (event.key === key) change(false); });
  window.addEventListener("blur", () => change(false));
}
