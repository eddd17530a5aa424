// Follows the running job of the session: its preview, the ring on the button, the status line.
import { load } from "../files.js";
import { shared } from "../session.js";
import { tell } from "../words.js";

export class Progress {
  // changed: () => a new preview is there
  constructor(changed) {
    Object.assign(this, { changed, preview: null, source: null });
  }

  // Listens while `running`; a job that goes on is not asked for twice.
  follow(running) {
    if (running === Boolean(this.source)) return;
    this.source?.close();
    this.source = null;
    this.#ring(0);
    if (!running) return;   // the last preview stays until the result has arrived
    this.preview = null;
    const source = this.source = new EventSource(`/sessions/${shared.key}/progress`);
    source.onmessage = async (event) => {
      const step = JSON.parse(event.data);
      if (!step) return source.close();   // the result comes from Python
      this.#ring(step.share);
      document.querySelector("#status p").textContent = step.status.map(tell).join(" - ");
      const image = await load(step.preview?.url);
      if (this.source !== source || !image) return;
      this.changed(!this.preview);
      this.preview = { ...step.preview, image };
    };
    source.onerror = () => source.close();
  }

  #ring(share) {
    document.getElementById("stop")?.style.setProperty("--done", share);
  }
}
