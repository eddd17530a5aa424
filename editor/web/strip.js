// A row of thumbnails. Labels may hold what a person typed: they are set as text and attributes, never as markup.
const strip = element.querySelector(".strip");

function draw() {
  const { items = [], selected = null } = props.value || {};
  strip.replaceChildren(...items.map((item) => {
    const button = document.createElement("button");
    const picture = document.createElement("img");
    button.type = "button";
    button.title = item.label;
    button.setAttribute("aria-pressed", String(item.id === selected));
    picture.src = item.url;
    picture.alt = item.label;
    button.append(picture);
    button.addEventListener("click", () => trigger("pick", { id: item.id }));
    return button;
  }));
  strip.querySelector('[aria-pressed="true"]')?.scrollIntoView({ block: "nearest", inline: "nearest" });
}

watch("value", draw);
draw();
