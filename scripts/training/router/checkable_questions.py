"""Questions of our own whose answers a rule can judge: what local signals are calibrated on.

Every question is generated from tables and drawn numbers, so none is from a public comparison. The
same seed gives the same questions.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

PER_KIND = 50
"""So many questions of a kind at most; a table with fewer rows gives fewer."""


@dataclass(frozen=True)
class Question:
    """A prompt, its kind, how its answer is judged (a key of JUDGES) and what is accepted."""

    kind: str
    prompt: str
    judge: str
    accepted: tuple[str, ...]

    def is_right(self, answer: str) -> bool:
        """Whether an answer is right by the question's rule."""
        return JUDGES[self.judge](answer, self.accepted)


def questions(seed: int = 0) -> list[Question]:
    """Return the questions, kind by kind."""
    found: list[Question] = []
    for kind, make in sorted(_MAKERS.items()):
        dice = random.Random(f"{kind} {seed}")
        seen = dict.fromkeys(make(dice))
        found += [Question(kind, *one) for one in list(seen)[:PER_KIND]]
    return found


# How an answer is judged


def _numbers(answer: str) -> list[str]:
    found = re.findall(r"-?\d+(?:,\d{3})*(?:\.\d+)?", answer.replace("**", ""))
    return [_plain(number) for number in found]


def _plain(number: str) -> str:
    bare = number.replace(",", "")
    return bare.rstrip("0").rstrip(".") if "." in bare else bare


def _gives_number(answer: str, accepted: tuple[str, ...]) -> bool:
    """Whether the last number is the right one, or the first sentence ends with it."""
    first = _numbers(re.split(r"(?<=\D)\.\s|\n", answer.strip(), maxsplit=1)[0])
    found = _numbers(answer)
    return bool(found) and (found[-1] in accepted or (bool(first) and first[-1] in accepted))


def _names_word(answer: str, accepted: tuple[str, ...]) -> bool:
    """Whether an accepted word stands in the first sentence."""
    first = re.split(r"(?<=[a-z])\.\s|\n", answer.strip().casefold(), maxsplit=1)[0]
    return any(re.search(rf"(?<!\w){re.escape(one.casefold())}(?!\w)", first) for one in accepted)


def _says_yes_or_no(answer: str, accepted: tuple[str, ...]) -> bool:
    found = re.search(r"\b(yes|no)\b", answer.casefold())
    return found is not None and found[1] in accepted


def _is_exactly(answer: str, accepted: tuple[str, ...]) -> bool:
    return answer.strip().strip("\"'`. \n") in accepted


def _is_json(answer: str, accepted: tuple[str, ...]) -> bool:
    found = re.search(r"\{.*\}", answer, re.DOTALL)
    try:
        return found is not None and json.loads(found[0]) == json.loads(accepted[0])
    except ValueError:
        return False


def _starts_list(answer: str, accepted: tuple[str, ...]) -> bool:
    found = [one.strip(" .\"'").casefold() for one in re.split(r"[,\n]", answer.split(":")[-1])]
    return [re.sub(r"^(?:\d+[.)]|[-*])\s*", "", one) for one in found if one] == list(accepted)


JUDGES: dict[str, Callable[[str, tuple[str, ...]], bool]] = {
    "number": _gives_number,
    "word": _names_word,
    "yes or no": _says_yes_or_no,
    "exact": _is_exactly,
    "json": _is_json,
    "list": _starts_list,
}

Made = Iterator[tuple[str, str, tuple[str, ...]]]


# Tables

_CAPITALS = (
    "France Paris|Germany Berlin|Italy Rome|Spain Madrid|Japan Tokyo|Egypt Cairo|Russia Moscow|"
    "Greece Athens|Austria Vienna|Norway Oslo|Sweden Stockholm|Poland Warsaw|Portugal Lisbon|"
    "Ireland Dublin|Hungary Budapest|Cuba Havana|Peru Lima|Chile Santiago|Kenya Nairobi|"
    "Thailand Bangkok|Vietnam Hanoi|Iraq Baghdad|Iran Tehran|Canada Ottawa|Australia Canberra|"
    "Turkey Ankara|Finland Helsinki|Denmark Copenhagen|Belgium Brussels|Romania Bucharest|"
    "Bulgaria Sofia|Serbia Belgrade|Croatia Zagreb|Morocco Rabat|Nigeria Abuja|Ghana Accra|"
    "Senegal Dakar|Jordan Amman|Lebanon Beirut|Nepal Kathmandu|Mongolia Ulaanbaatar|Fiji Suva|"
    "Iceland Reykjavik|Latvia Riga|Estonia Tallinn|Lithuania Vilnius|Uruguay Montevideo|"
    "Ecuador Quito|Jamaica Kingston|Uganda Kampala"
)
_OPPOSITES = (
    "hot cold|big small,little|up down|left right|open closed,close,shut|full empty|wet dry|"
    "day night|happy sad,unhappy|fast slow|old young,new|rich poor|heavy light|hard soft,easy|"
    "early late|strong weak|thick thin|wide narrow|deep shallow|clean dirty|noisy quiet|high low|"
    "inside outside|before after|win lose|buy sell|push pull|north south|east west|true false|"
    "love hate|friend enemy,foe|begin end,finish|arrive leave,depart|accept reject,refuse|"
    "loud quiet,soft|tall short|near far|sweet sour,bitter|brave cowardly,coward,afraid,fearful|"
    "awake asleep|dead alive,living|ancient modern|give take,receive|remember forget|"
    "success failure|victory defeat|maximum minimum|increase decrease|public private"
)
_PLURALS = (
    "child children|mouse mice|foot feet|tooth teeth|goose geese|man men|woman women|person people|"
    "ox oxen|knife knives|leaf leaves|wolf wolves|city cities|baby babies|box boxes|bus buses|"
    "dish dishes|potato potatoes|hero heroes|sheep sheep|deer deer|life lives|wife wives|"
    "half halves|party parties|cactus cacti,cactuses|fish fish,fishes|class classes|"
    "story stories|church churches|tomato tomatoes|shelf shelves|thief thieves|lady ladies|"
    "fox foxes|kiss kisses|watch watches|calf calves|loaf loaves|analysis analyses"
)
_PASTS = (
    "go went|eat ate|see saw|run ran|write wrote|take took|give gave|come came|buy bought|"
    "bring brought|think thought|teach taught|catch caught|sing sang|swim swam|drink drank|"
    "begin began|break broke|speak spoke|choose chose|drive drove|fly flew|grow grew|know knew|"
    "throw threw|draw drew|fall fell|feel felt|find found|get got|hold held|keep kept|leave left|"
    "lose lost|make made|meet met|pay paid|say said|sell sold|send sent|sit sat|sleep slept|"
    "stand stood|understand understood|win won|build built|forget forgot|ride rode|"
    "steal stole"
)
_ELEMENTS = (
    "hydrogen H|oxygen O|carbon C|nitrogen N|gold Au|silver Ag|iron Fe|copper Cu|sodium Na|"
    "potassium K|calcium Ca|helium He|neon Ne|zinc Zn|lead Pb|tin Sn|mercury Hg|chlorine Cl|"
    "fluorine F|sulfur S|phosphorus P|magnesium Mg|aluminium Al|silicon Si|nickel Ni|uranium U|"
    "platinum Pt|iodine I|bromine Br|lithium Li|boron B|argon Ar|tungsten W|titanium Ti|cobalt Co"
)
_FRENCH = (
    "dog chien|cat chat|house maison|water eau|bread pain|milk lait|book livre|sun soleil|"
    "moon lune|day jour|night nuit|red rouge|blue bleu|green vert|black noir|white blanc|"
    "one un|two deux|three trois|friend ami,amie|mother mère|father père|hello bonjour,salut|"
    "thank~you merci|yes oui|no non|school école|car voiture|cheese fromage|apple pomme"
)
_SPANISH = (
    "dog perro|cat gato|house casa|water agua|bread pan|milk leche|book libro|sun sol|moon luna|"
    "day día,dia|night noche|red rojo|blue azul|green verde|black negro|white blanco|one uno|"
    "two dos|three tres|friend amigo,amiga|mother madre|father padre|hello hola|"
    "thank~you gracias|yes sí,si|school escuela|car coche,carro,auto|apple manzana|"
    "cheese queso|table mesa"
)
_CONTINENTS = (
    "France Europe|Japan Asia|Kenya Africa|Brazil South~America|Canada North~America|India Asia|"
    "Egypt Africa|Germany Europe|Argentina South~America|China Asia|Nigeria Africa|Italy Europe|"
    "Peru South~America|Mexico North~America|Thailand Asia|Ghana Africa|Poland Europe|"
    "Chile South~America|Vietnam Asia|Morocco Africa|Spain Europe|Colombia South~America|"
    "Mongolia Asia|Tanzania Africa|Norway Europe|Bolivia South~America|Nepal Asia|Mali Africa|"
    "Greece Europe|Uruguay South~America|Cuba North~America|Laos Asia|Zambia Africa|"
    "Hungary Europe|Ecuador South~America|Guatemala North~America|Angola Africa|Iraq Asia"
)
_FACTS = (
    ("How many legs does a spider have?", "number", "8"),
    ("How many days are there in a week?", "number", "7"),
    ("How many months are there in a year?", "number", "12"),
    ("How many hours are there in a day?", "number", "24"),
    ("How many sides does a triangle have?", "number", "3"),
    ("How many sides does a hexagon have?", "number", "6"),
    ("How many players are on a football (soccer) team on the field?", "number", "11"),
    ("How many strings does a violin have?", "number", "4"),
    ("How many planets are there in the solar system?", "number", "8"),
    ("How many letters are there in the English alphabet?", "number", "26"),
    ("At how many degrees Celsius does water boil at sea level?", "number", "100"),
    ("At how many degrees Celsius does water freeze?", "number", "0"),
    ("In which year did the Second World War end?", "number", "1945"),
    ("In which year did people first land on the moon?", "number", "1969"),
    ("In which year did the Berlin Wall fall?", "number", "1989"),
    ("Which planet is closest to the sun?", "word", "mercury"),
    ("Which planet is known as the red planet?", "word", "mars"),
    ("Which is the largest planet of the solar system?", "word", "jupiter"),
    ("Which is the largest ocean on Earth?", "word", "pacific"),
    ("Which is the tallest mountain on Earth?", "word", "everest"),
    ("Which animal is the largest on Earth?", "word", "blue whale|whale"),
    ("Which land animal is the fastest?", "word", "cheetah"),
    ("Which gas do plants take from the air for photosynthesis?", "word", "carbon dioxide|co2"),
    ("Which organ pumps blood through the body?", "word", "heart"),
    ("Which metal is liquid at room temperature?", "word", "mercury"),
    ("Who wrote Romeo and Juliet?", "word", "shakespeare"),
    ("Who painted the Mona Lisa?", "word", "leonardo|da vinci"),
    ("Who wrote Don Quixote?", "word", "cervantes"),
    ("Who developed the theory of relativity?", "word", "einstein"),
    ("Who was the first president of the United States?", "word", "washington"),
    ("Who composed the Moonlight Sonata?", "word", "beethoven"),
    ("Who wrote the novel 1984?", "word", "orwell"),
    ("Who discovered penicillin?", "word", "fleming"),
    ("Which language is spoken in Brazil?", "word", "portuguese"),
    ("Which language is spoken in Austria?", "word", "german"),
    ("Which currency is used in Japan?", "word", "yen"),
    ("Which currency is used in the United Kingdom?", "word", "pound|pounds|sterling"),
    ("Which currency is used in India?", "word", "rupee|rupees"),
    ("In which country is the city of Barcelona?", "word", "spain"),
    ("In which country is the city of Mumbai?", "word", "india"),
    ("In which country is the Eiffel Tower?", "word", "france"),
    ("In which country are the pyramids of Giza?", "word", "egypt"),
    ("What is the young of a cow called?", "word", "calf"),
    ("What is the young of a dog called?", "word", "puppy|pup"),
    ("What is frozen water called?", "word", "ice"),
    ("Which colour do you get when you mix blue and yellow?", "word", "green"),
    ("Which colour do you get when you mix red and white?", "word", "pink"),
    ("Which insect makes honey?", "word", "bee|bees|honeybee|honeybees"),
    ("Which bird can't fly and lives in Antarctica?", "word", "penguin|penguins"),
    ("Which vitamin does sunlight help the body to make?", "word", "vitamin d|d"),
)
_WEEK = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]
_YEAR = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
]
_NAMES = [
    "Anna",
    "Peter",
    "Maria",
    "Jonas",
    "Lucy",
    "Omar",
    "Nina",
    "Felix",
    "Clara",
    "Hugo",
    "Ivan",
    "Emma",
    "Paul",
    "Sara",
    "Tom",
]
_TOWNS = [
    "Lyon",
    "Leeds",
    "Porto",
    "Ghent",
    "Basel",
    "Bergen",
    "Krakow",
    "Malaga",
    "Turin",
    "Graz",
    "Aarhus",
    "Cork",
]
_JOBS = [
    "teacher",
    "nurse",
    "baker",
    "pilot",
    "lawyer",
    "farmer",
    "painter",
    "driver",
    "cook",
    "singer",
]
_COLOURS = ["red", "blue", "green", "yellow", "black", "white", "brown", "purple"]
_THINGS = ["chair", "bicycle", "lamp", "jacket", "bottle", "guitar", "table", "bag", "kite", "boat"]
_WORDS = [
    "garden",
    "window",
    "bottle",
    "planet",
    "orange",
    "rabbit",
    "castle",
    "bridge",
    "silver",
    "winter",
    "pencil",
    "market",
    "doctor",
    "finger",
    "kitchen",
    "holiday",
    "monkey",
    "button",
    "dragon",
    "forest",
    "island",
    "jacket",
    "ladder",
    "mirror",
    "needle",
    "pepper",
    "rocket",
    "saddle",
    "ticket",
    "valley",
    "wallet",
    "yellow",
    "zipper",
    "basket",
    "candle",
    "desert",
    "engine",
    "flower",
    "guitar",
    "hammer",
    "insect",
    "jungle",
    "kettle",
    "lemon",
    "magnet",
    "napkin",
    "object",
    "parrot",
    "quartz",
    "ribbon",
]


def _pairs(table: str) -> list[tuple[str, tuple[str, ...]]]:
    rows = [row.split(" ") for row in table.split("|")]
    return [
        (name.replace("~", " "), tuple(value.replace("~", " ").split(","))) for name, value in rows
    ]


def _asked(table: str, prompt: str, judge: str = "word") -> Callable[[random.Random], Made]:
    def make(dice: random.Random) -> Made:
        rows = _pairs(table)
        dice.shuffle(rows)
        for name, accepted in rows:
            yield prompt.format(name), judge, accepted

    return make


# Kinds


def _facts(dice: random.Random) -> Made:
    for prompt, judge, accepted in _FACTS:
        yield prompt, judge, tuple(accepted.split("|"))


def _sums(dice: random.Random) -> Made:
    for number in range(70):
        most = 10 if number % 3 == 0 else 60 if number % 3 == 1 else 900
        a, b = dice.randint(2, most), dice.randint(2, most)
        yield f"What is {a} + {b}?", "number", (str(a + b),)


def _differences(dice: random.Random) -> Made:
    for number in range(70):
        most = (12, 60, 500)[number % 3]
        b, a = sorted((dice.randint(1, most), dice.randint(2, most)))
        yield f"Calculate {a} - {b}.", "number", (str(a - b),)


def _products(dice: random.Random) -> Made:
    for number in range(70):
        most = (6, 12, 30)[number % 3]
        a, b = dice.randint(2, most), dice.randint(2, most)
        yield f"What is {a} times {b}?", "number", (str(a * b),)


def _conversions(dice: random.Random) -> Made:
    units = (
        ("hours", "minutes", 60), ("minutes", "seconds", 60), ("weeks", "days", 7),
        ("days", "hours", 24), ("metres", "centimetres", 100), ("kilometres", "metres", 1000),
        ("kilograms", "grams", 1000), ("years", "months", 12), ("dozen", "pieces", 12),
    )  # fmt: skip
    for _ in range(90):
        large, small, factor = dice.choice(units)
        count = dice.randint(2, 9)
        yield f"How many {small} are {count} {large}?", "number", (str(count * factor),)


def _word_problems(dice: random.Random) -> Made:
    for _ in range(90):
        name, a, b = dice.choice(_NAMES), dice.randint(5, 30), dice.randint(2, 5)
        thing = dice.choice(("apples", "coins", "books", "marbles"))
        if dice.random() < 0.5:
            prompt = f"{name} has {a} {thing} and gives {b} away. How many {thing} are left?"
            yield prompt, "number", (str(a - b),)
        else:
            prompt = f"{name} has {a} {thing} and gets {b} more. How many {thing} are there now?"
            yield prompt, "number", (str(a + b),)


def _sequences(dice: random.Random) -> Made:
    for _ in range(90):
        first, step = dice.randint(1, 20), dice.choice((1, 2, 3, 4, 5, 10))
        shown = ", ".join(str(first + step * n) for n in range(4))
        yield f"Which number comes next: {shown}?", "number", (str(first + 4 * step),)


def _comparisons(dice: random.Random) -> Made:
    for _ in range(90):
        a, b = dice.sample(range(1, 200), 2)
        word, right = dice.choice((("larger", a > b), ("smaller", a < b)))
        yield f"Is {a} {word} than {b}? Answer yes or no.", "yes or no", ("yes" if right else "no",)


def _statements(dice: random.Random) -> Made:
    capitals = _pairs(_CAPITALS)
    for _ in range(40):
        (country, (city,)), (_, (other,)) = dice.sample(capitals, 2)
        right = dice.random() < 0.5
        prompt = f"Is {city if right else other} the capital of {country}? Answer yes or no."
        yield prompt, "yes or no", ("yes" if right else "no",)
    for _ in range(40):
        sort, (mine, other) = dice.choice(
            (("an animal", ("horse", "table")), ("a fruit", ("banana", "hammer")),
             ("a colour", ("purple", "bread")), ("a number", ("seven", "cloud")),
             ("a vehicle", ("bus", "onion")), ("a month", ("April", "Sunday")))
        )  # fmt: skip
        right = dice.random() < 0.5
        prompt = f"Is {mine if right else other} {sort}? Answer yes or no."
        yield prompt, "yes or no", ("yes" if right else "no",)


def _deductions(dice: random.Random) -> Made:
    for _ in range(90):
        a, b, c = dice.sample(_NAMES, 3)
        word = dice.choice(("taller", "older", "faster"))
        right = dice.random() < 0.5
        first, last = (a, c) if right else (c, a)
        prompt = (
            f"{a} is {word} than {b}. {b} is {word} than {c}. Is {first} {word} than {last}? "
            "Answer yes or no."
        )
        yield prompt, "yes or no", ("yes" if right else "no",)


def _extractions(dice: random.Random) -> Made:
    for _ in range(80):
        name, town, job = dice.choice(_NAMES), dice.choice(_TOWNS), dice.choice(_JOBS)
        age = dice.randint(20, 70)
        text = f'"{name} is a {age} year old {job} from {town}."'
        what, accepted = dice.choice(
            (("name of the person", name), ("town", town), ("job", job), ("age", str(age)))
        )
        judge = "number" if what == "age" else "word"
        yield f"What is the {what} in this sentence? {text}", judge, (accepted,)


def _lookups(dice: random.Random) -> Made:
    for _ in range(80):
        things = dice.sample(_THINGS, 3)
        colours = dice.sample(_COLOURS, 3)
        listed = ", ".join(f"the {t} is {c}" for t, c in zip(things, colours, strict=True))
        place = dice.randrange(3)
        yield (
            f"In my room {listed}. Which colour is the {things[place]}?",
            "word",
            (colours[place],),
        )


def _letters(dice: random.Random) -> Made:
    words = dice.sample(_WORDS, len(_WORDS))
    for number, word in enumerate(words):
        if number % 2:
            yield f'What is the first letter of the word "{word}"?', "word", (word[0],)
        else:
            yield f'What is the last letter of the word "{word}"?', "word", (word[-1],)


def _spellings(dice: random.Random) -> Made:
    for word in dice.sample(_WORDS, len(_WORDS)):
        wrong = word[:2] + word[3] + word[2] + word[4:] if word[2] != word[3] else word[1:]
        yield f'Correct the spelling of this word: "{wrong}"', "word", (word,)


def _capitals_letters(dice: random.Random) -> Made:
    for word in dice.sample(_WORDS, len(_WORDS)):
        prompt = f'Write the word "{word}" in capital letters and write nothing else.'
        yield prompt, "exact", (word.upper(),)


def _repetitions(dice: random.Random) -> Made:
    for _ in range(60):
        text = f"The {dice.choice(_COLOURS)} {dice.choice(_THINGS)} is in {dice.choice(_TOWNS)}"
        yield f"Repeat this sentence word for word and add nothing: {text}", "exact", (text,)


def _ranges(dice: random.Random) -> Made:
    for _ in range(80):
        first, count = dice.randint(1, 30), dice.randint(3, 6)
        numbers = tuple(str(first + n) for n in range(count))
        prompt = f"Write the numbers from {first} to {numbers[-1]}, with commas between them."
        yield prompt, "list", numbers


def _objects(dice: random.Random) -> Made:
    for _ in range(70):
        name, age = dice.choice(_NAMES), dice.randint(20, 70)
        prompt = (
            f'Write a JSON object with the keys "name" and "age" for {name}, who is {age} years '
            "old. Write only the JSON."
        )
        yield prompt, "json", (json.dumps({"name": name, "age": age}),)


def _calendar(dice: random.Random) -> Made:
    for day, then in zip(_WEEK, _WEEK[1:] + _WEEK[:1], strict=True):
        yield f"Which day comes after {day}?", "word", (then,)
        yield f"Which day comes before {then}?", "word", (day,)
    for month, then in zip(_YEAR, _YEAR[1:] + _YEAR[:1], strict=True):
        yield f"Which month comes after {month}?", "word", (then,)
        yield f"Which month comes before {then}?", "word", (month,)


def _largest(dice: random.Random) -> Made:
    for _ in range(80):
        some = dice.sample(range(1, 100), 4)
        word, right = dice.choice((("largest", max(some)), ("smallest", min(some))))
        listed = ", ".join(map(str, some))
        yield f"Which of these numbers is the {word}: {listed}?", "number", (str(right),)


def _choices(dice: random.Random) -> Made:
    sorts = {
        "fruit": ["apple", "banana", "pear", "cherry", "grape"],
        "animal": ["horse", "dog", "rabbit", "lion", "duck"],
        "vehicle": ["bus", "train", "bicycle", "truck", "tram"],
        "tool": ["hammer", "saw", "drill", "wrench", "pliers"],
    }
    for _ in range(90):
        sort, own = dice.choice(sorted(sorts.items()))
        right = dice.choice(own)
        others = [dice.choice(words) for name, words in sorted(sorts.items()) if name != sort]
        some = dice.sample([right, *others], 4)
        yield f"Which of these is a kind of {sort}: {', '.join(some)}?", "word", (right,)


_MAKERS: dict[str, Callable[[random.Random], Made]] = {
    "calendar": _calendar,
    "capital letters": _capitals_letters,
    "capitals": _asked(_CAPITALS, "What is the capital of {}?"),
    "chemical symbols": _asked(_ELEMENTS, "What is the chemical symbol of {}?"),
    "choices": _choices,
    "comparisons": _comparisons,
    "continents": _asked(_CONTINENTS, "On which continent is {}?"),
    "conversions": _conversions,
    "deductions": _deductions,
    "differences": _differences,
    "extractions": _extractions,
    "facts": _facts,
    "french": _asked(_FRENCH, 'What is "{}" in French?'),
    "json": _objects,
    "largest": _largest,
    "letters": _letters,
    "lookups": _lookups,
    "opposites": _asked(_OPPOSITES, 'What is the opposite of "{}"?'),
    "past tense": _asked(_PASTS, 'What is the past tense of "{}"?'),
    "plurals": _asked(_PLURALS, 'What is the plural of "{}"?'),
    "products": _products,
    "ranges": _ranges,
    "repetitions": _repetitions,
    "sequences": _sequences,
    "spanish": _asked(_SPANISH, 'What is "{}" in Spanish?'),
    "spellings": _spellings,
    "statements": _statements,
    "sums": _sums,
    "word problems": _word_problems,
}
