// Keyboard shortcuts. Text fields keep every key but those with Ctrl that belong to the whole page, and Escape.
const MODIFIED = (event) => event.ctrlKey || event.metaKey;
const IN_TEXT = "input:not([type=range]):not([type=radio]):not([type=checkbox]), textarea, select, [contenteditable]";

const isTyping = (target) => Boolean(target.closest?.(IN_TEXT));

// keys: what a key does, by its name ("b", "[", "Ctrl+Enter", "Ctrl+Shift+z"); an action returns false where it had
// nothing to do, and the key goes on to whoever else wants it. everywhere: names that work while typing, too
export function listen(keys, everywhere) {
  document.addEventListener("keydown", (event) => {
    if (event.altKey || event.isComposing) return;
    const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
    const name = `${MODIFIED(event) ? "Ctrl+" : ""}${MODIFIED(event) && event.shiftKey ? "Shift+" : ""}${key}`;
    const action = keys[name];
    if (!action || (isTyping(event.target) && !everywhere.includes(name))) return;
    if (action(event) !== false) event.preventDefault();
  });
}

// While a key is down: `change(true)`, then `change(false)`, also where the window loses it meanwhile.
export function hold(key, on, change) {
  document.addEventListener("keydown", (event) => {
    if (event.key !== key || MODIFIED(event) || event.altKey || event.shiftKey || !on(event)) return;
    event.preventDefault();
    if (!event.repeat) change(true);
  });
  document.addEventListener("keyup", (event) => { if (event.key === key) change(false); });
  window.addEventListener("blur", () => change(false));
}
