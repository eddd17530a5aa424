"""What lands are painted with: layers of ground, mountains, water, trees, flowers and towers."""

from dataclasses import dataclass

import numpy as np

from training.skies import Sky
from training.textures import Array, Sketch, below, grid, noise, paint, receding, rgb, ridge, smooth, uniform, varied

MEADOW = rgb(112, 182, 82)
SNOW = rgb(240, 245, 252)
STONE = rgb(134, 130, 138)
PINE = rgb(46, 104, 70)
AUTUMN = (rgb(222, 110, 40), rgb(204, 66, 44), rgb(238, 176, 58), rgb(186, 88, 40))
FLOWERS = (rgb(222, 58, 60), rgb(250, 216, 74), rgb(250, 250, 246), rgb(244, 156, 192), rgb(150, 92, 198))


@dataclass(frozen=True)
class Scene:
    """What a land is painted on."""

    random: np.random.Generator
    image: Array
    sky: Sky

    @property
    def size(self) -> int:
        return len(self.image)

    def lit(self, colour: Array, distance: float = 0) -> Array:
        """A colour in the scene's light, lost in the haze at distance 1."""
        return colour * self.sky.light * (1 - distance) + self.sky.haze * distance

    def layer(
        self, line: Array, colour: Array, texture: float = 0.03, foot: float = 0.3, relief: float = 0.1, lean: float = 0
    ) -> None:
        """Ground below a line: lighter on slopes that face left, darker towards its foot. Shadows lean to the right."""
        x, y = grid(self.size)
        depth = np.clip(y - line, 0, 1)
        slope = np.clip(np.gradient(line) * self.size, -1, 1).astype(np.float32)
        if lean:
            slope = slope[np.clip((x - lean * depth) * self.size, 0, self.size - 1).astype(np.intp)]
        tone = 1 - foot * depth - relief * slope * np.exp(-depth / 0.12)
        tone = tone + texture * noise(self.random, self.size, wide=2)
        paint(self.image, below(line, self.size), colour * tone[..., None])

    def rolling(self, height: float, swing: float, waves: float = 1, rough: float = 0.3) -> Array:
        """A rolling line [size] round a height."""
        return ridge(self.random, self.size, height, swing, waves, rough)

    def uniform(self, low: float, high: float) -> float:
        """One random number."""
        return float(self.random.uniform(low, high))


def paint_peaks(scene: Scene, foot: float, height: float, distance: float, snow: bool) -> Array:
    """A row of mountains on the height `foot`, `height` high at most; their outline [size]."""
    random, size = scene.random, scene.size
    x, y = grid(size)
    rock = scene.lit(varied(random, STONE, 0.015), distance)
    count = int(random.integers(4, 6))
    places = [(i + scene.uniform(0.1, 0.9)) / count for i in range(count)]
    heights = [height * scene.uniform(0.6, 1) for _ in range(count)]
    crags = noise(random, size, wide=0.6, tall=1.2)
    outline = np.full(size, foot, np.float32)
    for peak, rise in sorted(zip(places, heights, strict=True), key=lambda pair: -pair[1]):
        slope = scene.uniform(0.75, 1.15)
        jagged = scene.rolling(0, 0.014, 4, 0.6)
        line = foot - rise + slope * np.sqrt((x[0] - peak) ** 2 + 0.0004) + jagged
        outline = np.minimum(outline, line)
        depth = y - line
        shadow = smooth(-0.012, 0.012, x - peak - 0.025 * crags * smooth(0, 0.12, depth) - 0.1 * depth)
        mask = below(line, size)
        paint(scene.image, mask, rock * (1.1 - 0.34 * shadow + 0.035 * crags)[..., None])
        if snow:
            cap = smooth(-0.008, 0.008, 0.45 * rise - depth + 0.035 * crags) * mask
            shade = shadow[..., None] * rgb(66, 50, 28)
            paint(scene.image, cap, scene.lit(SNOW, distance) * (1 - shade))
    return outline


def paint_water(scene: Scene, horizon: float, colour: Array, mirror: float, calm: bool = False) -> None:
    """Water from the horizon down: its own colour, what is above it mirrored, and waves that blur it."""
    size, image = scene.size, scene.image
    x, y = grid(size)
    rows = np.clip(((2 * horizon - y[:, 0]) * size).astype(np.intp), 0, size - 1)
    ripple = receding(noise(scene.random, size, wide=5, tall=0.5), horizon)
    if calm:
        columns = np.clip(((x + 0.01 * ripple) * size).astype(np.intp), 0, size - 1)
        mirrored = image[rows[:, None], columns]
    else:
        mirrored = image[rows].mean(axis=1, keepdims=True)
    depth = np.clip((y - horizon) / (1 - horizon), 0, 1)[..., None]
    water = scene.lit(colour) * (1.15 - 0.35 * depth)
    water = water + mirror * (1 - 0.5 * depth) * (mirrored - water)
    water = water * (1 + 0.09 * ripple[..., None])
    water = water + 0.14 * smooth(1, 1.7, ripple)[..., None] * scene.sky.light
    paint(image, below(horizon, size), water)


def _draw_pine(sketch: Sketch, x: float, foot: float, height: float, colour: Array) -> None:
    """Three tiers over a trunk, the right half in shade."""
    sketch.box(x - 0.03 * height, foot - 0.15 * height, x + 0.03 * height, foot, colour * 0.6)
    for tier in range(3):
        tip = foot - height * (1 - 0.24 * tier)
        base = foot - height * (0.58 - 0.23 * tier)
        half = height * (0.14 + 0.06 * tier)
        sketch.polygon([(x, tip), (x - half, base), (x + half, base)], colour)
        sketch.polygon([(x, tip), (x + 0.25 * half, base), (x + half, base)], colour * 0.82)


def paint_pines(scene: Scene, foot: float, rows: int, distance: float) -> float:
    """Rows of pines, the near ones higher and lower down; the height of the highest tip."""
    top = foot
    trees = Sketch(scene.size)
    for row in range(rows):
        pitch = 0.042 + 0.014 * row
        for x in np.arange(-0.04, 1.05, pitch):
            height = scene.uniform(0.13, 0.21) * (1 + 0.28 * row)
            colour = scene.lit(PINE * scene.uniform(0.85, 1.15), distance * (1 - row / rows))
            top = min(top, foot + 0.035 * row - height)
            _draw_pine(trees, float(x) + scene.uniform(-0.016, 0.016), foot + 0.035 * row, height, colour)
    trees.onto(scene.image)
    return top


def paint_far_pines(scene: Scene, foot: float) -> None:
    """One row of small pines, side by side."""
    trees = Sketch(scene.size)
    for x in np.arange(-0.02, 1.03, 0.028):
        height = scene.uniform(0.04, 0.085)
        colour = scene.lit(PINE * scene.uniform(0.85, 1.1), 0.12)
        _draw_pine(trees, float(x) + scene.uniform(-0.01, 0.01), foot, height, colour)
    trees.onto(scene.image)


def draw_leafy_tree(
    scene: Scene, sketch: Sketch, x: float, foot: float, height: float, leaves: Array, distance: float
) -> None:
    """A tree on the height `foot`: a trunk below three shades of leaves, lit from the upper left."""
    trunk = scene.lit(rgb(104, 72, 52), distance)
    fork, thick, thin = foot - 0.6 * height, 0.05 * height, 0.02 * height
    sketch.polygon([(x - thick, foot), (x - thin, fork), (x + thin, fork), (x + thick, foot)], trunk)
    for shade in (0.8, 0.95, 1.08):
        for _ in range(7):
            angle, reach = scene.uniform(0, 2 * np.pi), height * scene.uniform(0.05, 0.2)
            lift = 0.035 * height * (shade - 0.8) / 0.28
            sketch.ellipse(
                x + reach * np.cos(angle) - lift,
                foot - 0.68 * height + reach * np.sin(angle) * 0.9 - lift,
                height * 0.15 * (1.6 - shade),
                height * 0.14 * (1.6 - shade),
                scene.lit(leaves * shade, distance),
            )


def paint_fallen_leaves(scene: Scene, start: float) -> None:
    """Leaves on ground that begins at the height `start`, the near ones large."""
    fallen = Sketch(scene.size)
    for x, y in zip(uniform(scene.random, 0, 1, 110), uniform(scene.random, start + 0.09, 1, 110), strict=True):
        leaf = 0.003 + 0.014 * (y - start)
        fallen.ellipse(x, y, leaf, leaf * 0.55, scene.lit(AUTUMN[scene.random.integers(len(AUTUMN))]))
    fallen.onto(scene.image)


def draw_tower(scene: Scene, sketch: Sketch, box: tuple[float, float, float, float], wall: Array, near: bool) -> None:
    """A tower, its right side in shade, some with a mast; a near one has windows. box: left, top, right, bottom."""
    left, top, right, bottom = box
    sketch.box(left, top, right, bottom, wall)
    sketch.box(left + 0.78 * (right - left), top, right, bottom, wall * 0.88)
    if scene.random.random() < 0.3:
        middle = (left + right) / 2
        sketch.box(middle - 0.003, top - 0.03, middle + 0.003, top, wall)
    if not near:
        return
    shine = rgb(255, 222, 132) if scene.sky.night else wall + 0.45 * (scene.sky.haze - wall) + 0.12
    columns = int((right - left - 0.012) / 0.02)
    margin = (right - left - 0.02 * columns + 0.008) / 2
    for row in np.arange(top + 0.018, bottom - 0.04, 0.027):
        lights = scene.random.random(columns) < (0.55 if scene.sky.night else 0.85)
        for column in np.flatnonzero(lights):
            x = left + margin + 0.02 * float(column)
            sketch.box(x, float(row), x + 0.012, float(row) + 0.015, shine)


def paint_flowers(scene: Scene, ground: float) -> None:
    """Flowers from the height `ground` down, the near ones large and with petals."""
    flowers = Sketch(scene.size)
    count = 240
    near = np.sort(uniform(scene.random, 0, 1, count) ** 1.3)
    for x, depth in zip(uniform(scene.random, 0, 1, count), near, strict=True):
        y, radius = ground + 0.01 + (1 - ground) * depth, 0.004 + 0.017 * depth
        petals = scene.lit(FLOWERS[scene.random.integers(len(FLOWERS))])
        flowers.line((x, y), (x, y + radius * 2.2), 0.3 * radius, scene.lit(MEADOW * 0.72))
        if depth < 0.25:
            flowers.ellipse(x, y, radius, radius * 0.8, petals)
            continue
        for turn in np.arange(5) * 2 * np.pi / 5 + 0.3:
            along, up = 0.6 * radius * np.cos(turn), 0.5 * radius * np.sin(turn)
            flowers.ellipse(x + along, y + up, radius * 0.5, radius * 0.42, petals)
        flowers.ellipse(x, y, radius * 0.33, radius * 0.28, scene.lit(rgb(246, 190, 60)))
    flowers.onto(scene.image)
