"""What no worker here can know: what happens now, what stands on the web, this machine, a person.

A language model answers such a question all the same, from what it read when it was trained. The
patterns are in the six languages in which Baton reads requests; a prompt that brings a text of its
own is taken to be about that text.
"""

from __future__ import annotations

import re
from enum import StrEnum

from baton.core.frozen_dataclass import frozen_dataclass
from baton.core.late_pattern import late_pattern
from baton.core.messages import HEAD_CHARS
from baton.core.plan_types import Material
from baton.core.reading.follow_up import request_text


class Lack(StrEnum):
    """What an answer would need."""

    NOW = "needs_current_data"
    LINK = "needs_link"
    MACHINE = "needs_this_machine"
    PERSON = "needs_personal_data"
    ACTION = "needs_action"


@frozen_dataclass
class LackText:
    """What is said of a lack, and what helps."""

    message: str
    hint: str


LACK_TEXTS = {
    Lack.NOW: LackText(
        "No worker here can look up what is happening now, so this may be made up.",
        "Attach a text that says it: `-f FILE`.",
    ),
    Lack.LINK: LackText(
        "No worker here can open links, so what is said of this one may be made up.",
        "Save the page and attach it: `-f FILE`.",
    ),
    Lack.MACHINE: LackText(
        "No worker here can look at this machine or its files, so this may be made up.",
        "Attach the file, or pipe a command's output into `baton ask`.",
    ),
    Lack.PERSON: LackText(
        "No worker here knows this about you, so this may be made up.",
        "Say it in the prompt, or attach a text that says it: `-f FILE`.",
    ),
    Lack.ACTION: LackText(
        "No worker here can do this: it can only write about it.",
        "Do it yourself, or ask for the text or the command that does it.",
    ),
}

MAX_QUESTION_CHARS = 400
"""A longer prompt brings the text that it is about."""

_LINK = late_pattern(r"\b(?:https?://|www\.)\S+", re.IGNORECASE)
_ABOUT_LINK = (
    r"summar|tl;?dr|read|open|visit|check|look|fetch|brows|go to|what(?:'s| is| does| do)|says?\b"
    r"|tell me|translate|explain|list|extract|fass|lies|öffne|übersetz|was steht|résum|lis\b"
    r"|ouvre"
    r"|qu(?:e|'est)|traduis|resum|lee\b|abre|traduc|riassum|leggi|apri|traduci|leia|abra|traduz"
)
_MAKES_LINK = (
    r"\b(?:html|markdown|regex|curl|wget|python|code|script|function|anchor|href|request)\b"
)

_NOW = r"""
    \bweather \b .{0,30} \b(?:today|tomorrow|now|tonight|outside|like|forecast|(?:this|next|on)
      \s \w+|in \s \w+)\b
    | \b(?:what(?:'s|\s is)|how(?:'s|\s is)) \s the \s (?:weather|forecast)\b | \bforecast \s for \b
    | \b(?:will|does|did) \s it \s (?:rain|snow)\b
    | \bis \s it \s (?:raining|snowing|sunny|(?:cold|hot|warm) \s (?:outside|today|now|in))\b
    | \btemperature\b .{0,30} \b(?:outside|today|tomorrow|now|tonight|in \s [A-Z])
    | \b(?:latest|breaking|today'?s|current|this \s week'?s) \s (?:\w+ \s){0,2}
      (?:news|headlines?|events?|prices?|rates?|scores?|results?|version|release|stock|exchange)\b
    | \b(?:news|headlines) \s (?:today|now|from|about|of \s the \s day)\b | \bin \s the \s news\b
    | \bwho \s (?:is|'s|are) \s (?:the \s)? (?:current|sitting|reigning|acting)\b
    | \bwho \s (?:is|'s) \s .{0,60} \b(?:right \s now|at \s the \s moment|these \s
      days|currently|today|now)\b
    | \bwho \s is \s (?:the \s)? (?:\w+ \s)? (?:president|prime \s
      minister|chancellor|ceo|mayor|pope|king)
      (?:\s of \s (?:the \s)? [\w .]{2,30})? \s* \??$
    | \b(?:stock|share|bitcoin|btc|ethereum|gold|oil|petrol|gas) \s (?:price|prices|quote|worth)\b
      (?! .{0,20} \b(?:mean|definition|work)\b)
    | \bprice \s of \s (?:bitcoin|btc|ethereum|gold|oil|petrol|\w+ \s (?:stock|shares?))\b
    | \b(?:bitcoin|btc) \b .{0,20} \b(?:worth|trading|cost)\b
    | \bexchange \s rate\b
    | \b(?:how \s many|how \s much) \s .{0,30} \b(?:dollars?|euros?|pounds?|yen|usd|eur|gbp)
      \s .{0,20} \b(?:in|to) \s (?:dollars?|euros?|pounds?|yen|usd|eur|gbp|francs?)\b
    | \bwho \s (?:won|is \s winning|plays?|scored) \s .{0,60} \b(?:today|yesterday|last \s
      night|tonight|last \s week|this \s (?:week|season|year))\b
    | \b(?:yesterday|last \s night|tonight|today) (?:'s)? \s
      (?:game|match|score|episode|lottery|results?)\b
    | \b(?:score|result) \b .{0,40} \b(?:today|yesterday|last \s night|tonight)\b
    | \b(?:next|when \s (?:is|does)) .{0,20} \b(?:train|bus|flight|ferry|tram) \b .{0,30}
      \b(?:leave|depart|go|from|to)\b
    | \b(?:open|closed) \s (?:right \s now|now|today|tonight|on \s sundays?)\b
    | \btraffic \s (?:on|in|jam|today|now)\b
    | \bwhat(?:'s| \s is) \s (?:happening|going \s on|on \s (?:tv|at \s the \s
      cinema)|playing|trending|new)\b
      .{0,40} \b(?:today|tonight|now|tomorrow|world|week|weekend)\b
    | \bwinning \s lottery | \blottery \s numbers\b | \bnewest \s (?:iphone|version|model)\b
    | \blatest \s (?:\w+ \s){0,3}
      (?:version|release|model|iphone|album|film|movie|episode|research)\b
    | \bwill \s .{0,60} \b(?:win|rise|fall|crash|happen) \b .{0,40}
      \b(?:tomorrow|next|this|20[2-9]\d|season|week)\b
    # German
    | \bwetter\b .{0,30} \b(?:in|heute|morgen|jetzt|gerade|wird|am|bei|draußen)\b
    | \bwie \s (?:ist|wird) \s das \s wetter\b
    | \bregnet \s es\b
    | \bwird \s es \s (?:regnen|schneien|warm|kalt)\b
    | \b(?:aktuell\w*|neueste[rns]?|heutige[rns]?) \s (?:\w+ \s){0,2}
      (?:nachrichten|kurs|preis|stand|version|schlagzeilen|ergebnis\w*|temperatur)\b
    | \bnachrichten \b .{0,20} \b(?:heute|von \s heute|aktuell)\b
    | \b(?:aktien|börsen|bitcoin|wechsel|euro|dollar|gold)[- ]?(?:kurs|preis)\b
    | \b(?:kostet|steht) \s (?:\w+ \s){1,3} (?:gerade|aktuell|derzeit|heute|im \s moment)\b
    | \bwer \s ist \s (?:der|die|gerade|zurzeit|aktuell\w*|derzeit\w*) .{0,30}
      \b(?:(?:bundes)?kanzler(?:in)?|(?:bundes)?präsident(?:in)?|ministerpräsident(?:in)?|papst
      |bürgermeister(?:in)?)\b
    | \bwer \s (?:hat|spielt) \b .{0,40} \b(?:gestern|heute|letzte \s nacht) \b
    | \bwann \s (?:fährt|geht|kommt) \b .{0,20} \b(?:nächste|zug|bus|bahn|flug)\b
    | \bgeöffnet\b .{0,15} \b(?:heute|jetzt)\b
    | \b(?:heute|jetzt) \s .{0,20} (?:geöffnet|offen)\b
    # French
    | \bmétéo\b | \bva-t-il \s pleuvoir\b | \bquel \s temps \s (?:fait|fera|va)\b
    | \b(?:actualités|dernières \s nouvelles|infos? \s du \s jour)\b
    | \b(?:cours|prix) \s (?:actuel\w*|du \s bitcoin|de \s l'(?:or|action))\b
    | \bqui \s est \s (?:le|la|l')\s? (?:actuel\w* \s)? (?:président\w*|premi(?:er|ère) \s
      ministre|pape|maire)\b
    | \btaux \s de \s change\b
    | \b(?:qui \s a \s gagné|résultat) \b .{0,40} \b(?:hier|aujourd'hui|ce \s soir)\b
    | \bprochain \s (?:train|bus|vol|métro)\b
    # Spanish, Portuguese, Italian
    | \b(?:qué|que) \s tiempo \s (?:hace|hará|va|faz)\b
    | \b(?:va \s a|vai) \s (?:llover|chover)\b
    | \bpronóstico\b
    | \bprevisão \s do \s tempo\b
    | \bprevisioni \s (?:del \s tempo|meteo)\b
    | \bmeteo\b
    | \b(?:che|com'è \s il) \s tempo \s (?:fa|farà|oggi|domani)\b
    | \bpioverà\b
    | \b(?:como|cómo) \s (?:está|estará) \s (?:el|o) \s (?:tiempo|tempo|clima)\b
    | \bclima \s (?:hoy|mañana|en)\b
    | \b(?:últimas \s (?:noticias|notícias)|ultime \s notizie|noticias \s de \s hoy|notícias \s
      de \s hoje|notizie \s di \s oggi)\b
    | \b(?:quién|quem|chi) \s (?:es|é|è) \s (?:el|la|o|a|il|l')\s? (?:actual\w* \s|attuale \s)?
      (?:president\w*|primer \s ministro|primo \s
      ministro|primeiro-ministro|papa|alcalde|sindaco)\b
    | \b(?:precio|preço|prezzo|cotización|cotação|quotazione) \s (?:actual|atual|attuale|del \s
      bitcoin|do \s bitcoin|de \s bitcoin|del \s dólar|do \s dólar|dell'oro|del \s oro)\b
    | \b(?:tipo \s de \s cambio|taxa \s de \s câmbio|tasso \s di \s cambio)\b
    | \b(?:quién \s ganó|quem \s ganhou|chi \s ha \s vinto) \b .{0,40}
      \b(?:ayer|hoy|ontem|hoje|ieri|oggi)\b
    | \b(?:próximo|prossimo) \s (?:tren|trem|treno|autobús|ônibus|autobus|vuelo|voo|volo)\b
    """

_TEXT_WORK = (
    r"^\W*(?:(?:please|bitte|can you|could you|kannst du|pouvez-vous|puedes|puoi|pode)[, ]\s*)*"
    r"(?:write|draft|compose|translate|rewrite|rephrase|paraphrase|proofread|correct|explain|define"
    r"|create|make|plan|imagine|pretend|generate|classify|describe how|how (?:do|can|could|to|would"
    r"|should|does|did)|what (?:does|do|are (?:some|common)|is (?:a|an|the (?:difference|meaning)))"
    r"|why|give me (?:a|an|some|\d+) |summari[sz]e (?:this|the (?:text|following))|schreib|übersetz"
    r"|erkläre?|wie (?:schreibt|sagt|kann|mache)|was (?:bedeutet|heißt)|formulier|verfass|écri[st]"
    r"|traduis|traduire|explique|comment|que signifie|escrib|traduc|cómo|qué significa|scriv|spiega"
    r"|come (?:si|posso)|che (?:cosa )?significa|escrev|traduz|como (?:se|posso|faço)"
    r"|o que significa)"
)
"""A prompt that begins so wants a text, or what doesn't change from day to day."""

_MY = r"(?:my|this|the)"
_MACHINE = rf"""
    \b(?:how \s much|what) \b .{{0,20}} \b(?:free \s)? (?:disk|storage|memory|ram|space|battery)
      \b .{{0,30}}
      \b(?:do \s i \s have|is \s (?:left|free|used)|on \s (?:my|this)|have \s i|does \s
        (?:my|this))\b
    | \b(?:files?|folders?|photos?|documents?|programs?|apps?|processes) \b .{{0,15}}
      \b(?:in|on) \s {_MY} \s (?:\w+ \s)?
        (?:folder|directory|desktop|computer|machine|laptop|disk|drive|downloads?|pc|mac|phone)\b
      (?! .{{0,30}} \b(?:python|script|bash|command|code)\b)
    | \bwhat(?:'s| \s is) \s (?:my \s (?:ip|ip \s address|mac \s address|hostname|operating \s
      system|cpu|gpu|wi-?fi)|on \s my \s (?:screen|desktop|clipboard)|in \s my \s
      (?:clipboard|downloads?))\b
    | \b(?:open|read|summari[sz]e|check|show) \s (?:me \s)? (?:the \s file \s|my \s file \s)?
      [\w/~.-]{{2,60}} \.(?:txt|md|pdf|docx?|csv|log|json|py|xlsx?)\b
    | \b(?:why \s is|is) \s my \s (?:computer|laptop|pc|mac|wi-?fi|internet) \s (?:so \s)?
      (?:slow|hot|down|broken|up \s to \s date)\b
    | \b(?:which|what) \s (?:programs?|processes|apps?) \s (?:are \s)? running\b (?! .{{0,20}}
      \b(?:command|linux|bash)\b)
    | \b(?:mein\w*|diese[mnrs]?) \s
      (?:rechner|computer|laptop|festplatte|order|verzeichnis|ip(?:-address)?)\b
    | \b(?:mon|ma|cet) \s (?:ordinateur|disque|dossier|address \s ip)\b
    | \b(?:mi|este) \s (?:ordenador|computadora|disco|carpeta|dirección \s ip)\b
    | \b(?:il \s mio|questo) \s (?:computer|portatile|disco|indirizzo \s ip)\b
    | \b(?:meu|este) \s (?:computador|disco|endereço \s ip)\b
    """

_PERSON = r"""
    \bwhat(?:'s| \s is| \s are) \s my \s
      (?:name|age|birthday|address|phone|email|password|job|favou?rite|\w+'s \s name|
      wife|husband|boss|schedule|appointments?|balance|salary|iban|account)\b
    | \b(?:who \s am \s i|where \s (?:am|do) \s i (?:\s (?:live|work|now|right \s now))?|how \s
      old \s am \s i) \s* \??$
    | \bdo \s you \s (?:remember|know) \s (?:me|my|what \s i|who \s i)\b
    | \bwhat \s did \s (?:i|we) \b .{0,40}
      \b(?:yesterday|last|earlier|before|talk|say|ask|discuss)
    | \bwhat(?:'s| \s is) \s (?:on|in) \s my \s (?:calendar|agenda|inbox|mail|to-?do|shopping)\b
    | \bmy \s (?:next|last) \s (?:meeting|appointment|e-?mail|message|flight)\b (?=.{0,40}\?)
    | \bwhen \s is \s my \b | \bwhere \s (?:are|is) \s my \s (?:keys|phone|wallet|glasses|car)\b
    | \b(?:wie \s heiße \s ich|wer \s bin \s ich|wie \s alt \s bin \s ich|wo \s wohne \s ich|was
      \s ist \s mein\w* \s (?:name|passwort|geburtstag))\b
    | \b(?:comment \s je \s m'appelle|qui \s suis-je|quel \s âge \s ai-je)\b
    | \b(?:cómo \s me \s llamo|quién \s soy|cuántos \s años \s tengo)\b
    | \b(?:come \s mi \s chiamo|chi \s sono \s io|quanti \s anni \s ho)\b
    | \b(?:como \s me \s chamo|qual \s é \s o \s meu \s nome|quem \s sou \s eu)\b
    """

_ACTION = r"""
    ^\W* (?:(?:please|can \s you|could \s you|hey|baton)[, ]\s*)*
    (?: set \s (?:a \s|an \s|the \s|my \s)? (?:\w+[- ]?\w* \s)? (?:timer|alarm|reminder)
      | remind \s me \s (?:to|at|in|about|tomorrow)
      | send \s (?:an? \s|this \s|the \s|my \s)? (?:e-?mail|message|text|sms|invitation) \s to
      | (?:play|pause|skip) \s (?:some \s|the \s|a \s|my \s)?
        (?:music|song|video|playlist|podcast|jazz|\w+ \s by)
      | (?:turn|switch) \s (?:on|off) \s (?:the|my)
      | (?:call|phone|dial) \s (?:my|mum|mom|dad|the \s (?:doctor|police|office))
      | (?:book|order|buy) \s (?:me \s)? (?:a|an|the|two|some) \s (?:\w+ \s){0,2}
        (?:flight|table|taxi|hotel|room|pizza|ticket|tickets|ride|uber)
      | (?:delete|move|rename|copy) \s (?:all \s|the \s|my \s)+ (?:\w+ \s)?
        (?:files?|folders?|photos?|e-?mails?)
      | (?:search|google|look \s up) \s (?:the \s (?:web|internet)|online|on \s google)
      | stelle? \s (?:einen \s|mir \s einen \s)? (?:wecker|timer) | erinner\w* \s mich
      | (?:schick|sende)\w* \s (?:eine \s)? (?:e-?mail|nachricht) \s an
      | (?:mets|règle) \s (?:un \s|le \s)? (?:réveil|minuteur)
      | rappelle-moi
      | envoie \s un \s (?:e-?mail|message) \s à
      | (?:pon|program) \s (?:un \s|una \s)? (?:alarma|temporizador)
      | recuérdame
      | envía \s un \s (?:correo|mensaje) \s a
      | imposta \s (?:un \s|una \s)? (?:sveglia|timer)
      | ricordami
      | (?:define|põe) \s um \s alarme
      | lembra-me
    )
    """


def missing_knowledge(material: Material) -> Lack | None:
    """Return what the newest prompt needs that no worker here has, or None."""
    turn, text = material.turns[-1], request_text(material)
    if turn.files or len(text) > HEAD_CHARS:
        return None
    without_links = _LINK.sub(" ", text)
    if len(without_links) > MAX_QUESTION_CHARS:
        return None
    if without_links != text:
        return Lack.LINK if _is_about_link(without_links) else None
    if _has(_ACTION, text):
        return Lack.ACTION
    if _has(_TEXT_WORK, text) or any(earlier.files for earlier in material.turns):
        return None
    if _has(_NOW, text):
        return Lack.NOW
    if _has(_MACHINE, text):
        return Lack.MACHINE
    is_new = len(material.turns) == 1  # else it may have been said
    return Lack.PERSON if is_new and _has(_PERSON, text) else None


def _is_about_link(text: str) -> bool:
    """Whether a text without its links asks for what stands there."""
    if _has(_MAKES_LINK, text):
        return False
    return not text.strip(" \t\n.,:;?!") or _has(_ABOUT_LINK, text)


def _has(pattern: str, text: str) -> bool:
    """Whether a text has a pattern, which is compiled when first needed (10 ms for the longest)."""
    flags = re.IGNORECASE | (re.VERBOSE if "\n" in pattern else re.NOFLAG)
    return re.search(pattern, text, flags) is not None
