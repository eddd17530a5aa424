"""Articles and plurals of the names of things."""

from __future__ import annotations

import re

# words that are named without an article, and have no other plural
MASS = frozenset(
    (
        *("jeans", "trousers", "pants", "gloves", "socks", "glasses", "spectacles", "sunglasses", "swords", "bubbles"),
        *("grapes", "cherries", "blueberries", "berries", "pancakes", "fries", "chips", "cattle", "coral"),
        *("milk", "honey", "coffee", "tea", "soda", "beer", "cheese", "bread", "chocolate", "popcorn"),
        *("corn", "maize", "broccoli", "fire", "ice", "soap"),
    )
)
SAME_IN_PLURAL = ("fish", "sheep", "deer", "shrimp", "bison", "buffalo", "craft")
PLURALS = {
    "wolf": "wolves",
    "leaf": "leaves",
    "loaf": "loaves",
    "scarf": "scarves",
    "mouse": "mice",
    "snowman": "snowmen",
    "tomato": "tomatoes",
    "volcano": "volcanoes",
}


def with_article(words: str) -> str:
    """The name of one thing with its article, if it takes one: "an orange fish", "a glass of milk", "blue jeans"."""
    return words if _around_last_word(words)[1] in MASS else f"{article(words)} {words}"


def article(words: str) -> str:
    """a or an, by the sound of the words."""
    vowel = words[0] in "aeiou" and not words.startswith(("uni", "ufo", "euro", "one"))
    return "an" if vowel or words.startswith(("x-ray", "suv")) else "a"


def plural(words: str) -> str:
    """The name of several things: "red balloons", "glasses of milk"."""
    before, last, after = _around_last_word(words)
    return f"{before}{_plural_word(last)}{after}"


def _around_last_word(words: str) -> tuple[str, str, str]:
    """What is before and after the word that says what the thing is: "full ", "glass", " of milk"."""
    named, *after = re.split("( of | with )", words, maxsplit=1)
    before, space, last = named.rpartition(" ")
    return before + space, last, "".join(after)


def _plural_word(word: str) -> str:
    if word in MASS or word.endswith(SAME_IN_PLURAL):
        return word
    if word in PLURALS:
        return PLURALS[word]
    if word.endswith(("s", "sh", "ch", "x")):
        return f"{word}es"
    if word.endswith("y") and word[-2] not in "aeiou":
        return f"{word[:-1]}ies"
    return f"{word}s"
