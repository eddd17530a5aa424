"""`python -m training.judge`: a small classifier that says which object, colour and background a picture shows.

It is the objective test of the starter model: trained on composed scenes only, never on what the model paints, and with
blurred ones among them, so that it does not mind the softness of a decoder.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image
from safetensors.torch import load_file, save_file
from torch import nn

from diffusion_engine.allocator import keep_freed_memory
from training.backgrounds import SCENES, Background, draw_background
from training.colours import RGB
from training.compositor import Compositor
from training.layouts import Arranger, Layout
from training.objects import objects
from training.starter import mixed_precision

WEIGHTS = Path(__file__).resolve().parents[1] / "assets" / "judge" / "judge.safetensors"
SIDE = 64
WIDTHS = (32, 64, 128, 192)
OBJECTS = tuple(thing.name for thing in objects())
COLOURS = tuple(RGB)
PLACES = SCENES  # what regions of backgrounds can be called
UNKNOWN = -100  # cross_entropy's own mark of a target that does not count
SHOWN, BARELY = 0.2, 0.0  # a region that fills this share of the height is seen; one between the two does not count
BACKGROUNDS = 256
HELD_OUT = 1_000_000  # seeds from here on are never trained on


@dataclass(frozen=True)
class Verdict:
    """Scores of a batch: objects [B, names] and colours [B, names] before softmax, places [B, names] before sigmoid."""

    objects: torch.Tensor
    colours: torch.Tensor
    places: torch.Tensor


class Judge(nn.Module):
    """Pictures [B, 3, SIDE, SIDE], 0..1, to a Verdict."""

    def __init__(self) -> None:
        super().__init__()
        stages: list[nn.Module] = [_Residual(3, WIDTHS[0], 2)]
        for before, after in pairwise(WIDTHS):
            stages += [_Residual(before, after, 2), _Residual(after, after, 1)]
        self.body = nn.Sequential(*stages, nn.AdaptiveMaxPool2d(2), nn.Flatten())
        self.objects = nn.Linear(4 * WIDTHS[-1], len(OBJECTS))
        self.colours = nn.Linear(4 * WIDTHS[-1], len(COLOURS))
        self.places = nn.Linear(4 * WIDTHS[-1], len(PLACES))

    def forward(self, pictures: torch.Tensor) -> Verdict:
        features = self.body(pictures * 2 - 1)
        return Verdict(self.objects(features), self.colours(features), self.places(features))

    @torch.no_grad()
    def look(self, pictures: Sequence[Image.Image]) -> Verdict:
        """Judges RGB pictures of any size."""
        small = [picture.resize((SIDE, SIDE), Image.Resampling.BOX, reducing_gap=None) for picture in pictures]
        pixels = torch.from_numpy(np.stack([np.asarray(picture.convert("RGB")) for picture in small]))
        return self(pixels.permute(0, 3, 1, 2).float() / 255)


class _Residual(nn.Module):
    def __init__(self, before: int, after: int, stride: int) -> None:
        super().__init__()
        self.path = nn.Sequential(
            nn.Conv2d(before, after, 3, stride, 1, bias=False),
            nn.BatchNorm2d(after),
            nn.ReLU(),
            nn.Conv2d(after, after, 3, 1, 1, bias=False),
            nn.BatchNorm2d(after),
        )
        self.skip = nn.Conv2d(before, after, 1, stride) if before != after or stride > 1 else nn.Identity()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.relu(self.path(x) + self.skip(x))


@dataclass(frozen=True)
class Questions:
    """pictures [B, 3, SIDE, SIDE]; right answers: objects [B], colours [B], places [B, names], each 1, 0 or UNKNOWN."""

    pictures: torch.Tensor
    objects: torch.Tensor
    colours: torch.Tensor
    places: torch.Tensor


class Examiner:
    """Composes scenes with one object or none, and knows what they show."""

    def __init__(self, seed: int) -> None:
        self._random = np.random.default_rng(seed)
        self._arranger = Arranger()
        self._backgrounds = [draw_background(self._random, 2 * SIDE) for _ in range(BACKGROUNDS)]
        self._compositor = Compositor(self._backgrounds)

    def ask(self, count: int) -> Questions:
        """`count` new ones; an eighth as many backgrounds are new."""
        for index in self._random.integers(BACKGROUNDS, size=count // 8):
            self._backgrounds[index] = draw_background(self._random, 2 * SIDE)
            self._compositor.replace(int(index), self._backgrounds[index])
        chosen = self._random.integers(BACKGROUNDS, size=count).tolist()
        layouts = [self._layout(self._backgrounds[index]) for index in chosen]
        pictures = self._compositor.compose(chosen, layouts, SIDE).images
        right = [answers(layout, self._backgrounds[index]) for layout, index in zip(layouts, chosen, strict=True)]
        things, colours, places = zip(*right, strict=True)
        return Questions(pictures, torch.tensor(things), torch.tensor(colours), torch.tensor(np.stack(places)))

    def _layout(self, background: Background) -> Layout:
        layout = self._arranger.arrange(self._random, background.place, background.horizon)
        return replace(layout, objects=layout.objects[-1:])

    def blurred(self, pictures: torch.Tensor) -> torch.Tensor:
        """Half of them as a decoder may show them: reduced and enlarged again."""
        side = int(self._random.integers(SIDE // 2, SIDE))
        half = len(pictures) // 2
        small = F.interpolate(pictures[:half], size=(side, side), mode="area")
        soft = F.interpolate(small, size=(SIDE, SIDE), mode="bilinear")
        return torch.cat((soft, pictures[half:]))


def answers(layout: Layout, background: Background) -> tuple[int, int, np.ndarray]:
    """The object and the colour that a window with at most one object shows, as indices or UNKNOWN, and for each of
    PLACES 1, 0 or UNKNOWN."""
    thing = layout.objects[0] if layout.objects else None
    colour = COLOURS.index(thing.colour) if thing and thing.colour else UNKNOWN
    places = np.zeros(len(PLACES), np.float32)
    for region in background.regions:
        overlap = min(region.bottom, layout.top + layout.side) - max(region.top, layout.top)
        share = overlap / layout.side
        row = PLACES.index(region.phrase)
        places[row] = 1 if share >= SHOWN or places[row] == 1 else UNKNOWN if share > BARELY else places[row]
    return OBJECTS.index(thing.thing.name) if thing else UNKNOWN, colour, places


def loss(verdict: Verdict, right: Questions) -> torch.Tensor:
    """What training lowers, a scalar. At least one object, colour and place must count."""
    counts = right.places != UNKNOWN
    places = F.binary_cross_entropy_with_logits(verdict.places[counts], right.places[counts])
    things = F.cross_entropy(verdict.objects, right.objects, ignore_index=UNKNOWN, label_smoothing=0.05)
    return things + 0.5 * F.cross_entropy(verdict.colours, right.colours, ignore_index=UNKNOWN) + 10 * places


def train(steps: int, batch: int, seed: int) -> Judge:
    """A judge trained from nothing, in eval mode."""
    torch.manual_seed(seed)
    judge: Judge = cast(Any, Judge()).to(memory_format=torch.channels_last).train()
    examiner = Examiner(seed)
    optimizer = torch.optim.AdamW(judge.parameters(), lr=2e-3, weight_decay=0.02)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 3e-3, total_steps=steps, pct_start=0.1)
    for step in range(1, steps + 1):
        questions = examiner.ask(batch)
        with mixed_precision(torch.device("cpu")):
            verdict = judge(examiner.blurred(questions.pictures).contiguous(memory_format=torch.channels_last))
        error = loss(Verdict(*(scores.float() for scores in vars(verdict).values())), questions)
        optimizer.zero_grad()
        error.backward()
        optimizer.step()
        schedule.step()
        if step % 100 == 0:
            print(f"{step:>6} steps, loss {float(error.detach()):.3f}", flush=True)
    return judge.eval()


@torch.no_grad()
def accuracy(judge: Judge, pictures: int = 2000) -> dict[str, float]:
    """Shares of right answers on composed scenes that were not trained on."""
    questions = Examiner(HELD_OUT).ask(pictures)
    verdict = judge(questions.pictures)
    asked, coloured = questions.objects != UNKNOWN, questions.colours != UNKNOWN
    best = verdict.objects[asked].topk(5).indices == questions.objects[asked, None]
    seen = questions.places == 1
    return {
        "object_top1": float(best[:, 0].float().mean()),
        "object_top5": float(best.any(1).float().mean()),
        "colour": float((verdict.colours.argmax(1) == questions.colours)[coloured].float().mean()),
        "places": float((verdict.places[seen] > 0).float().mean()),
    }


def load_judge() -> Judge:
    """The trained one, in fp32 and eval mode."""
    judge = Judge()
    judge.load_state_dict({name: tensor.float() for name, tensor in load_file(WEIGHTS).items()})
    return judge.eval()


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m training.judge", description="Trains the judge.")
    parser.add_argument("--steps", type=int, default=4000)
    parser.add_argument("--batch", type=int, default=96)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path, default=WEIGHTS)
    options = parser.parse_args(arguments)
    keep_freed_memory()
    judge = train(options.steps, options.batch, options.seed)
    options.output.parent.mkdir(parents=True, exist_ok=True)
    half = {
        name: tensor.half() if tensor.is_floating_point() else tensor for name, tensor in judge.state_dict().items()
    }
    save_file({name: tensor.contiguous() for name, tensor in half.items()}, options.output)
    print({name: round(share, 4) for name, share in accuracy(judge).items()})


if __name__ == "__main__":
    main()
