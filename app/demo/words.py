"""What a text is about: its telling words, and ideas that many languages name differently."""

import re


def words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_FILLER = words(
    """
    a an the is are was be do does did can could will would shall should i you he she it we they me my your
    our their this that these those
    what which who whom whose where when why how there here of in on at to for from by with and or but not no
    yes if as than then so about
    please tell show give get fetch find set make run call use want need know let current currently now today
    tomorrow one any all some
    tool tools function functions data info information user item value name return returns given also just
    like look up check answer ask
    qué que cómo como quién dónde cuál cuándo es está en y de un una por para hace hay del mi el la los las
    le les des est quel quelle comment qui où quand pourquoi et il fait dans pour du au je moi
    der die das ist wie was wer wo wann warum und von ein eine im den dem für mir bitte ich es
    o os as qual quem onde por em um uma no na do da você são não hoje
    какая какой какое какие что как где когда кто и в на не сейчас скажи
    """
)

_IDEAS = {
    "weather": "weather forecast temperature climate temps 天气 天氣 气温 天気 気温 날씨 기온 погод температур "
    "tiempo clima temperatura météo "
    "wetter temperatur tempo previsão الطقس الحرارة",
    "time": "time clock timezone 时间 時間 几点 幾點 何時 시간 몇 врем час hora horas heure uhr uhrzeit spät zeit "
    "الساعة الوقت",
    "date": "date calendar day 日期 日历 几号 何日 日付 날짜 дата число fecha datum التاريخ",
    "search": "search web google browse query lookup 搜索 搜寻 查找 検索 검색 поиск найди ищи busca buscar "
    "cherche recherche suche such "
    "pesquisa pesquisar ابحث",
    "calculate": "calculate calculator compute math sum add plus minus multiply times divide 计算 計算 加 乘 계산 "
    "더하 посчита вычисл "
    "сколько calcula suma calcule combien rechne berechne soma احسب",
    "image": "image picture draw paint photo illustration 图片 画 图像 画像 絵 그림 이미지 нарису картин imagen "
    "dibuja dessine zeichne bild "
    "desenhe imagem صورة ارسم",
    "translate": "translate translation 翻译 翻譯 翻訳 번역 перевед перевод traduce traduis traduire übersetze "
    "traduza ترجم",
    "mail": "email mail e-mail 邮件 郵件 メール 메일 письмо почт correo courriel nachricht البريد",
    "news": "news headlines 新闻 新聞 ニュース 뉴스 новост noticias actualités nachrichten notícias أخبار",
    "price": "price stock quote cost share 股票 股价 价格 株価 値段 주가 가격 цена стоит акци precio acciones "
    "prix preis aktie preço سعر",
    "code": "code python execute interpreter script 代码 程序 コード 코드 код código codice الكود",
    "convert": "convert conversion exchange currency rate 换算 汇率 変換 為替 환율 변환 курс convierte convertis "
    "umrechnen converta حول",
}
_NAMED = {code: tuple(names.split()) for code, names in _IDEAS.items()}

_WORD = re.compile(r"[^\W\d_]+")
_SUM = re.compile(r"\d\)?\s*(?:[+*/×÷^]|\s-\s)\s*\(?\d")
_HUMP = re.compile(r"(?<=[a-z])(?=[A-Z])")
_HAN = re.compile(r"[\u3400-\u9fff]{2,}")
_GREETINGS = words(
    "hello hi hey thanks thank good bye 你好 您好 嗨 谢谢 再见 こんにちは おはよう ありがとう 안녕 고마워 привет "
    "здравствуй спасибо "
    "hola gracias bonjour salut merci hallo danke servus olá oi obrigado مرحبا شكرا"
)


def is_filler(word: str) -> bool:
    """Whether a word says nothing about what is asked, or names an idea rather than a thing."""
    return word.casefold() in _FILLER or bool(_ideas(word.casefold()))


def terms(text: str) -> frozenset[str]:
    """Telling words (casefolded, no plural), pairs of Han characters, and ideas written as `~idea`."""
    folded = _HUMP.sub(" ", text).casefold()
    found = {_singular(word) for word in _WORD.findall(folded) if word not in _FILLER}
    for run in _HAN.findall(folded):
        found.update(run[at : at + 2] for at in range(len(run) - 1))
    return frozenset(word for word in found if len(word) > 1) | _ideas(folded)


def _singular(word: str) -> str:
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word


def _ideas(folded: str) -> frozenset[str]:
    said = set(_WORD.findall(folded))
    sums = frozenset(["~calculate"] if _SUM.search(folded) else [])
    return sums | frozenset(
        f"~{idea}" for idea, names in _NAMED.items() if any(_says(name, folded, said) for name in names)
    )


def _says(name: str, folded: str, said: set[str]) -> bool:
    """Scripts without word ends or with many endings match inside a word."""
    return name in said if name[0] < "\u0250" else name in folded


def is_small_talk(text: str) -> bool:
    """Whether a text greets or thanks and asks nothing."""
    folded = text.casefold().strip()
    said = _WORD.findall(folded)
    if not said:
        return True
    greets = any(folded.startswith(each) if each[0] > "\u0250" else said[0] == each for each in _GREETINGS)
    return (greets and len(said) <= 4 and len(folded) <= 30) or folded.rstrip(" ?!.") in _PHRASES


_PHRASES = frozenset(("who are you", "how are you", "what are you", "what can you do", "你是谁", "how are you doing"))
