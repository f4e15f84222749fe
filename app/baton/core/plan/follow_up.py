"""Follow-ups: prompts such as "yes", "go on" or "and the other one?", which mean what stood before.

Six languages. A prompt is a follow-up if it is short and either consists of words that name no
topic, one of which asks for more, or begins with words that carry the last topic over ("and in
Paris?"). Thanks and greetings ask for nothing, so they aren't.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from baton.core.late_pattern import late_pattern

MAX_CHARS = 60
MAX_WORDS = 9
"""A longer prompt says itself what it wants."""

MAX_TOPIC_WORDS = 3
"""How many words of its own may follow "and" or "what about"."""

_WORD = late_pattern(r"[^\W_]+")
_NUMBER = late_pattern(r"\d+(?:[.,]\d+)*")

_AGREES = frozenset(
    "ok okay okey k alright klar gut einverstanden accord entendu vale bueno claro bene certo "
    "beleza".split()
)
"""A yes, unless thanks stand beside it."""

_ASKS = frozenset(
    # English
    "yes yeah yep yup sure absolutely definitely continue proceed go going carry more further "
    "keep next why how really explain elaborate clarify justify expand other others another "
    "both neither first second third fourth former latter previous last again once shorter "
    "longer simpler different differently correct proof prove step steps else all everything "
    "example examples detail details rest finish do option number "
    # German
    "ja jo jawohl doch genau gerne gern weiter weitermachen fortfahren fortsetzen los mach "
    "mache machen tu tue fahr warum wieso weshalb wirklich sicher erklär erkläre erklären "
    "erläutere genauer ausführlicher begründe andere anderen anderer anderes beide beides erste "
    "ersten zweite zweiten dritte dritten nächste nächsten nächster letzte letzten nochmal noch "
    "nochmals mehr kürzer länger einfacher anders beispiel beispiele schritt schritte wie "
    "nummer variante "
    # French
    "oui ouais volontiers continuez continuer poursuis poursuivez suite vas allez fais faites "
    "pourquoi comment vraiment sûr explique expliquez expliquer précise précisez autre autres "
    "premier première deuxième seconde troisième suivant suivante dernier dernière encore plus "
    "davantage court simple exemple étape étapes reste "
    # Spanish
    "sí si dale adelante continúa continua sigue siga prosigue hazlo haz qué seguro segura "
    "explica explícame explícalo explicar otro otra otros otras ambos ambas primero primera "
    "segundo segunda tercero tercera siguiente último última más corto ejemplo paso pasos resto "
    "cómo verdad supuesto acuerdo opción "
    # Italian
    "sì certamente prosegui avanti procedi fallo fai perché perche davvero sicuro sicura spiega "
    "spiegalo spiegami spiegamelo altro altra altri altre entrambi primo prima secondo terzo "
    "successivo ultimo ultima ancora più esempio passo passi come continuare opzione "
    # Portuguese
    "sim vai prossegue prossiga segue faz faça fazer porquê porque mesmo certeza outro outra outros "
    "outras terceiro terceira próximo próxima mais exemplo novo opção".split()
)
"""Words of which one makes a text without a topic a follow-up."""

_THANKS = frozenset(
    "thanks thank thx ty bye goodbye hello hi hey cheers danke dankeschön dank tschüss hallo "
    "merci bonjour salut revoir gracias hola adiós grazie ciao obrigado obrigada olá tchau".split()
)

_FILLERS = frozenset(
    # English
    "a an the it its that this these those them they he she him her one ones thing part point "
    "case line way and or but so then now not no don doesn didn isn is are am was were be of to "
    "for in with on off me i you your we us add let can could would will should may might please "
    "just about what s t m re ll ve which get got understand see mean means follow believe "
    "think great good nice perfect cool fine well very much helps helped true right wrong too "
    "also does did has have there here at as if up tell show give say repeat try write ahead "
    "bit little time "
    # German
    "der die das den dem des ein eine einen einem es sie er ihn ihm und oder aber dann jetzt "
    "nun nicht nein kein keine ist sind war bist du dir dich mir mich ich wir uns bitte mal "
    "auch schon welche welcher fall teil punkt zeile zu von mit für im gilt stimmt verstehe "
    "versteh kannst könntest soll sollst würde super prima toll vielen sehr zeig sag gib erzähl "
    "na leg "
    # French
    "le la les l un une de d et ou mais donc alors puis ensuite maintenant ne n pas non c est "
    "ce ça cela ceci j je tu te moi il elle nous vous plaît plait stp svp que qu quoi quel "
    "quelle partie cas ligne au en y peux pourrais voix bien très beaucoup parfait dis donne "
    "fois "
    # Spanish
    "el los las uno unos unas lo e o pero entonces pues luego ahora eso esto esa ese esta este "
    "está estás yo tú mi nos por para favor con del cuál parte caso punto línea puedes podrías "
    "muchas mucho muy todo perfecto dime dame vez "
    # Italian
    "gli ed ma allora poi ora adesso è ciò questo questa quello quella quelli sei io ti ci per "
    "di della dell che cosa quale meglio riga puoi potresti molto mille va mai dimmi dammi "
    "volta "
    # Portuguese
    "os um uma dire então depois agora não é isso isto essa esse aquele eu você da qual linha pode "
    "podes poderia tens tem muito bem diz dá ser fim".split()
)
"""Words that name no topic."""

_TOPIC_KEPT = late_pattern(
    r"\s*[¿¡]?\s*(?:(?:but |ok(?:ay)?,? )?(?:and|or|what about|how about|what if|what of)|"
    r"(?:aber )?(?:und|oder)|was ist mit|wie ist es mit|"
    r"(?:mais )?(?:et|ou)|qu'en est-il de|(?:pero |y )?qué (?:tal|pasa con)|y|e|o|ed|"
    r"(?:mas |ma )?e (?:se|con|per)?)\s",
    re.IGNORECASE,
)
"""Beginnings that carry the last topic over."""


_SMALL_TALK = late_pattern(
    r"\W*(?:hey,? |hi,? )?(?:how are you|what(?: else)? can you do|c[óo]mo est[áa]s?)\b",
    re.IGNORECASE,
)


def is_follow_up(text: str) -> bool:
    """Whether a prompt says only together with the one before it what is wanted."""
    words = [word.casefold() for word in _WORD.findall(text)] if len(text) <= MAX_CHARS else []
    if not 0 < len(words) <= MAX_WORDS or _SMALL_TALK.match(text):
        return False
    if len(words) == 1 and len(words[0]) == 1:  # which one: 2, b
        return words[0].isalnum()
    thanks = not _THANKS.isdisjoint(words)
    own = [word for word in words if word not in _ASKS | _AGREES | _THANKS | _FILLERS]
    own = [word for word in own if len(word) > 1]
    if _TOPIC_KEPT.match(text) is not None:
        is_whole = len(_NUMBER.findall(text)) > 1  # "and 13 times 13?"
        return len(own) <= MAX_TOPIC_WORDS and not thanks and not is_whole
    return not own and not (_ASKS if thanks else _ASKS | _AGREES).isdisjoint(words)


def followed_prompt(prompts: Sequence[str]) -> str:
    """Return the latest of some prompts, the oldest first, that isn't a follow-up.

    Where all are follow-ups, that is the first one.
    """
    return next((text for text in reversed(prompts) if not is_follow_up(text)), prompts[0])
