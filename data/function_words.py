"""Function words, and the words that follow them."""

import functools
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Language:
    """The function words of a language, by the words that follow them."""

    name: str
    before_nouns: frozenset[str]  # articles, possessives, prepositions; the phrase after them ends in a noun
    before_verbs: frozenset[str]  # pronouns, auxiliaries, negations; a verb or an adjective follows
    objects: frozenset[str]  # a verb precedes them, hardly ever a noun: "activate my card", "ask them"
    joining: frozenset[str]  # prepositions within a phrase: "source of funds"
    all: frozenset[str]


def _language(
    name: str, before_nouns: str, before_verbs: str, objects: str, joining: str, others: str
) -> Language:
    nouns, verbs, after_verbs, inside, more = (
        frozenset(words.split()) for words in (before_nouns, before_verbs, objects, joining, others)
    )
    return Language(name, nouns, verbs, after_verbs, inside, nouns | verbs | after_verbs | inside | more)


_ENGLISH = _language(
    "English",
    """
    a an the this these those my your his her its our their some any each every no another both several many
    few more most other such own various of in on at by for with from into onto over under between among
    through during without within against about across behind beyond beside besides near per via towards
    toward upon than like unlike except
    """,
    """
    to i you we they he she it who will would can could shall should may might must cannot do does did don't
    doesn't didn't not never please has have had having haven't hasn't hadn't won't wouldn't can't couldn't
    shouldn't mustn't be am is are was were been being isn't aren't wasn't weren't i'd i'll i'm i've you'd
    you'll you're you've he'd he'll he's she'd she'll she's it'd it'll it's we'd we'll we're we've they'd
    they'll they're they've let's that's there's what's who's cant dont doesnt didnt isnt wont im ive id
    hasnt havent wasnt couldnt wouldnt gonna
    """,
    "me him them us it my your his our their the a an this these those",
    "of",
    """
    above after afterwards again ago all almost alone along already also although always and anybody anyhow
    anyone anything anyway anywhere amongst apart around as aside away back became because become becomes
    becoming before below but came come comes coming down done due e.g eg eight either eleven else elsewhere
    enough et etc even ever everybody everyone everything everywhere far fewer fifteen fifth fifty first
    five former formerly forth forty four fourth further furthermore get gets getting give given gives go
    goes going gone got here here's hence how how's however hundred i.e ie if inc indeed instead just keep
    keeps kept know knows known last lately later latter least less lest let lets little ltd made make makes
    making maybe mean means meanwhile mere merely mine moreover mostly much myself himself herself itself
    yourself yourselves ourselves themselves namely need needs needed neither nevertheless next nine nobody
    none nor nothing now nowhere off often ok okay old once one ones only onwards or other others otherwise
    ought ours hers theirs yours out perhaps put quite rather re really recent recently same say says said
    saying second see seem seemed seems seen shan't shan show shows shown since six so somebody somehow
    someone something sometimes somewhere soon still take taken takes taking ten th than thanks thank that
    then thence there thereby therefore these thing things think third though thought thousand three
    throughout thru thus together told too took tried try trying twelve twenty twice two un unless until up
    us use used uses using usually ve very vs want wanted wants way ways well went what whatever when when's
    whence whenever where where's whereas whereby wherein wherever whether which whichever while whoever
    whole whom whose why why's yes yet ain't ain ll didn doesn don hadn hasn haven isn mustn shouldn wasn
    weren won wouldn able
    """,
)
_GERMAN = _language(
    "German",
    """
    der die das den dem des ein eine einen einem einer eines mein meine meinen meinem meiner dein deine sein
    seine seinen ihr ihre ihren ihrem ihrer unser unsere unseren euer eure kein keine keinen keinem keiner
    dieser diese dieses diesen diesem jeder jede jedes jeden jedem alle allen aller manche viele einige
    welche welcher welches in im ins an am ans auf aus bei beim mit nach seit von vom zu zum zur durch für
    gegen ohne um über unter vor zwischen wegen während trotz
    """,
    """
    ich du er sie es wir man nicht kann kannst können könnte muss müssen musste soll sollen sollte will
    wollen wollte darf dürfen wird werden würde wurde wurden worden bin bist ist sind war waren sei habe
    hast hat haben hatte hatten sehr bitte nie
    """,
    "",
    "",
    """
    und oder aber denn doch sondern als wie wenn weil dass daß ob damit dazu dabei daran darauf davon dann
    da dort hier jetzt nun schon noch nur auch so mehr immer wieder etwas nichts was wer wo wann warum wieso
    mich dich sich uns euch mir dir ihm ihn ihnen selbst bis ab ja nein gibt geht machen macht gemacht kommt
    wurde sowie zwar je hin her etwa eben wohl mal
    """,
)
_FRENCH = _language(
    "French",
    """
    le la les l un une des du au aux de d mon ma mes ton ta tes son sa ses notre nos votre vos leur leurs ce
    cet cette ces quel quelle quels quelles chaque plusieurs tout toute tous toutes à en dans par pour sur
    sous avec sans chez entre vers contre depuis pendant avant après
    """,
    """
    je j tu il elle on nous vous ils elles ne n pas se s me m te t peut peux peuvent pouvez doit dois
    doivent veux veut vais va vont ai as a avons avez ont avait suis es est sommes êtes sont était étaient
    été être avoir très
    """,
    "",
    "de du des d",
    """
    et ou où mais donc or ni car que qu qui quoi dont si comme quand comment pourquoi y plus moins aussi
    bien fait faire faut c ça cela ceci celui celle ceux lui eux moi toi même mêmes encore déjà jamais
    toujours ici là alors puis trop peu beaucoup oui non afin ainsi lorsque
    """,
)
_SPANISH = _language(
    "Spanish",
    """
    el la los las un una unos unas mi mis tu tus su sus nuestro nuestra nuestros nuestras este esta estos
    estas ese esa esos esas aquel aquella cada varios varias todo toda todos todas algún alguna ningún
    ninguna de del al a en por para con sin sobre entre hacia hasta desde contra durante según ante tras
    """,
    """
    yo tú él ella nosotros ellos ellas usted ustedes no se me te lo nos puede puedo pueden podemos debe debo
    deben quiero quiere he ha han hemos había soy es son era eran fue fueron sido ser está están estaba
    estar muy hay
    """,
    "",
    "de del",
    """
    y e o u pero sino porque que qué quien quién cual cuál cuando cuándo como cómo donde dónde si sí más
    menos ya también muy le les eso esto ello hacer hace hizo tiene tengo tienen tener va ir otro otra otros
    otras mismo misma así aún todavía nunca siempre aquí ahí allí entonces pues mientras mucho mucha poco
    tanto
    """,
)
_ITALIAN = _language(
    "Italian",
    """
    il lo la i gli le l un uno una mio mia miei mie tuo tua suo sua suoi sue nostro nostra vostro loro
    questo questa questi queste quel quella quelli quelle ogni di del dello della dei degli delle da dal
    dalla a al allo alla ai agli alle in nel nella nei nelle su sul sulla con per tra fra senza sotto sopra
    verso contro durante
    """,
    """
    io tu lui lei noi voi essi non si mi ti ci vi posso può possono devo deve devono voglio vuole ho hai ha
    abbiamo hanno aveva sono sei è siamo era erano stato stata essere avere molto c'è
    """,
    "",
    "di del della dei delle",
    """
    e ed o ma anche che chi cui se come quando dove perché perchè più meno già ancora sempre mai qui lì là
    così poi allora quindi però fare fatto fa va cosa ne stesso stessa altri altre altro altra tutto tutti
    tutte poco tanto
    """,
)
_PORTUGUESE = _language(
    "Portuguese",
    """
    o a os as um uma uns umas meu minha meus minhas teu tua seu sua seus suas nosso nossa este esta estes
    estas esse essa esses essas aquele aquela cada vários várias todo toda todos todas de do da dos das em
    no na nos nas por pelo pela pelos pelas para com sem sobre entre até desde contra durante ao aos à às
    num numa
    """,
    """
    eu tu ele ela nós eles elas você vocês não se me te lhe posso pode podem devo deve devem quero quer
    tenho tem têm tinha sou é são era eram foi foram sido ser está estão estava estar muito há
    """,
    "",
    "de do da dos das",
    """
    e ou mas porque que quem qual quando como onde se mais menos já também ainda sempre nunca aqui ali lá
    então pois fazer faz fez ter vai ir outro outra outros outras mesmo mesma isso isto aquilo assim muito
    pouco tanto só
    """,
)
_DUTCH = _language(
    "Dutch",
    """
    de het een mijn jouw je zijn haar ons onze hun uw deze dit die dat elke elk ieder geen alle veel enkele
    welke van in op aan bij met naar uit voor door over onder tussen tegen zonder om te tot sinds tijdens
    """,
    """
    ik jij hij zij wij we jullie u men niet kan kunnen kon moet moeten moest zal zullen zou wil willen mag
    mogen wordt worden werd ben bent is was waren heb hebt heeft hebben had er
    """,
    "",
    "van",
    """
    en of maar want dus als dan wie wat waar wanneer waarom hoe omdat zodat toen nog al ook meer minder heel
    zeer wel nu hier daar zo zelf mij me hem ze hen zich iets niets altijd nooit weer doen doet gaan gaat ja
    nee
    """,
)
# No topic is named by one of these, but a question may well be about it: "two", "old", "keep".
_STILL_ASKED_FOR = """
    eight eleven fifteen fifth fifty first five former forty four fourth hundred nine second six ten third
    thousand three twelve twenty two able came come comes coming fewer give given gives go goes going gone
    keep keeps kept know known knows last late later latter let little ltd made make makes making mean means
    need needed needs nobody nothing old once out please put said same say saying says see seem seemed seems
    seen show shown shows take taken takes taking tell thank thanks thing things think thought together told
    took tried try trying turn use used uses using want wanted wants way ways well went
"""
LANGUAGES = (_ENGLISH, _GERMAN, _FRENCH, _SPANISH, _ITALIAN, _PORTUGUESE, _DUTCH)


@functools.cache
def function_words() -> frozenset[str]:
    """The function words of English.

    Those of other languages are detected by occurring in all clusters alike: see
    `nearsay.indexer.clusters.names`.
    """
    return _ENGLISH.all


def language_of(words: set[str]) -> Language:
    """The language with the most distinct function words in a text; English in a tie.

    words: case folded
    """
    return max(LANGUAGES, key=lambda language: len(words & language.all))


def grammatical_words(words: set[str]) -> frozenset[str]:
    """The function words of a text's language: articles, pronouns, prepositions, auxiliaries.

    words: of the text, case folded
    """
    return language_of(words).all - frozenset(_STILL_ASKED_FOR.split())
