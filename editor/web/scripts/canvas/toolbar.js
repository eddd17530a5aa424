// The tools on the left and the row above the picture: what they set, and their keys.
const SIZES = [1, 512];

export class Toolbar {
  // change(act): does something to the whole mask; draw: asks for a frame
  constructor(element, { pointer, mask, view, painter, draw, change }) {
    const find = (selector) => element.querySelector(selector);
    Object.assign(this, { element, find, pointer, mask, draw, showsTiles: true, onMaskFile: () => {} });
    const actions = {
      undo: () => change(mask.undo), redo: () => change(mask.redo), clear: () => change(mask.clear),
      invert: () => change(mask.invert), holes: () => change(mask.fillHoles),
      load: () => find(".mask-file").click(),
    };
    const views = { fit: () => { view.fit(); draw(); }, actual: () => { view.actual(); draw(); } };
    for (const button of element.querySelectorAll("[data-tool]")) button.onclick = () => this.choose(button.dataset.tool);
    for (const button of element.querySelectorAll("[data-do]")) button.onclick = actions[button.dataset.do];
    for (const button of element.querySelectorAll("[data-view]")) button.onclick = views[button.dataset.view];
    find(".size").oninput = (event) => { pointer.settings.size = Number(event.target.value); draw(); };
    find(".soft").onchange = (event) => { pointer.settings.softness = event.target.checked ? 1 : 0; };
    find(".veil").oninput = (event) => { painter.veil = Number(event.target.value); draw(); };
    find(".tiles").onchange = (event) => { this.showsTiles = event.target.checked; draw(); };
    find(".mask-file").onchange = async (event) => {
      await this.onMaskFile(event.target.files[0]);
      event.target.value = "";   // so that the same file can be chosen again
    };
    const tool = (key, name) => ({ keys: [key], word: `tool.${name}.name`, act: () => this.choose(name) });
    this.shortcuts = [
      tool("b", "brush"), tool("e", "eraser"), tool("l", "lasso"), tool("p", "polygon"), tool("r", "rectangle"),
      tool("o", "ellipse"),
      { keys: ["["], word: "keys.smaller", act: () => this.resize(0.8) },
      { keys: ["]"], word: "keys.larger", act: () => this.resize(1.25) },
      { keys: ["f"], word: "keys.holes", act: actions.holes }, { keys: ["i"], word: "keys.invert", act: actions.invert },
      { keys: ["Delete"], word: "keys.clear", act: actions.clear },
      { keys: ["Ctrl+z"], word: "keys.undo", act: actions.undo },
      { keys: ["Ctrl+Shift+z", "Ctrl+y"], word: "keys.redo", act: actions.redo },
      { keys: ["Ctrl+0"], word: "keys.fit", act: views.fit }, { keys: ["Ctrl+1"], word: "keys.actual", act: views.actual },
      { keys: ["g"], word: "keys.tiles", act: () => find(".tiles").click() },
    ];
  }

  choose(tool) {
    this.pointer.choose(tool);
    this.update();
    this.draw();
  }

  resize(factor) {
    const { settings } = this.pointer;
    const size = Math.round(settings.size * factor + Math.sign(factor - 1));
    settings.size = Math.min(SIZES[1], Math.max(SIZES[0], size));
    this.find(".size").value = settings.size;
    this.draw();
  }

  update() {
    for (const button of this.element.querySelectorAll("[data-tool]")) {
      button.setAttribute("aria-pressed", String(button.dataset.tool === this.pointer.settings.tool));
    }
    this.find('[data-do="undo"]').disabled = !this.mask.canUndo;
    this.find('[data-do="redo"]').disabled = !this.mask.canRedo;
    this.find(".brush-only").hidden = this.pointer.brushRadius === null;
  }
}
