// Which session this window works in. A window goes on with its own after a reload, and a new one with the last that no
// other window has open; a lock of the browser says which are open.
const OWN = "deltabrush-session";        // in sessionStorage
const RECENT = "deltabrush-recent";      // in localStorage, newest first
const VISITED = "deltabrush-visited";
const REMEMBERED = 8;
const RELOAD_MS = 1000;                  // a page that is being left may hold its lock a little longer

export const shared = { key: null };

// What a storage holds, or `otherwise` where that is not what this program writes.
function stored(storage, name, otherwise) {
  try {
    const value = JSON.parse(storage.getItem(name)) ?? otherwise;
    return Array.isArray(value) === Array.isArray(otherwise) ? value : otherwise;
  } catch {
    return otherwise;
  }
}

const recent = () => stored(localStorage, RECENT, []);

// Holds the lock of a session while this page lives; false where another window has it.
function hold(key, options) {
  if (!navigator.locks) return Promise.resolve(true);   // not on localhost and not https: one window is assumed
  return new Promise((resolve) => {
    const held = (lock) => {
      resolve(Boolean(lock));
      return lock && new Promise(() => {});
    };
    navigator.locks.request(`deltabrush-${key}`, options, held).catch(() => resolve(false));
  });
}

// What Python gets when the page has loaded: the session to go on with, and what this browser remembers.
export async function arrive() {
  const asked = new URLSearchParams(location.hash.slice(1)).get("session");   // by the command line
  if (asked) {
    sessionStorage.setItem(OWN, asked);
    history.replaceState(null, "", location.pathname);
  }
  const before = sessionStorage.getItem(OWN);
  let key = before && await hold(before, { signal: AbortSignal.timeout(RELOAD_MS) }) ? before : null;
  for (const each of before ? [] : recent()) {
    if (key === null && await hold(each, { ifAvailable: true })) key = each;
  }
  shared.key = key;
  const remembered = { ...stored(localStorage, SETTINGS, {}), ...stored(sessionStorage, SETTINGS, {}) };
  const first_visit = !localStorage.getItem(VISITED);
  localStorage.setItem(VISITED, "1");
  return [JSON.stringify({ key, settings: remembered, first_visit })];
}

// This window works in the session `key` from now on.
export function own(key) {
  if (shared.key !== key) hold(key, { ifAvailable: true });
  shared.key = key;
  sessionStorage.setItem(OWN, key);
  localStorage.setItem(RECENT, JSON.stringify([key, ...recent().filter((each) => each !== key)].slice(0, REMEMBERED)));
  window.dispatchEvent(new Event("deltabrush:session"));
}

// This window goes on in the session `key`. The one it leaves stays as it is, for a new window to go on with.
export function moveTo(key) {
  sessionStorage.setItem(OWN, key);
  location.reload();
}

// ---- settings

const SETTINGS = "deltabrush-settings";
const OF_THIS_WINDOW = ["prompt", "seed"];   // the others are the person's habits
export const settings = {};                  // as they are now

// Python calls it whenever a control has changed; names and values of all of them.
export function remember(names, values) {
  names.forEach((name, i) => { settings[name] = values[i]; });
  const part = (own) => Object.fromEntries(names.filter((it) => OF_THIS_WINDOW.includes(it) === own).map((it) => [it, settings[it]]));
  localStorage.setItem(SETTINGS, JSON.stringify(part(false)));
  sessionStorage.setItem(SETTINGS, JSON.stringify(part(true)));
  window.dispatchEvent(new Event("deltabrush:settings"));
}
