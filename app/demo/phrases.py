"""What the demonstration model can say, in each language it answers in."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Phrases:
    """Sentences of one language; the words in braces are filled in."""

    thought: str
    thought_of_call: str
    thought_of_result: str
    answer: str
    media: str
    check: str
    result: str
    comma: str = ", "
    space: str = " "


PHRASES = {
    "en": Phrases(
        "The user asks: “{quote}”. I am only a demonstration model, so I shall say so and repeat the question.",
        "The user asks: “{quote}”. These functions can help: {names}.",
        "The functions have answered. I shall report what they returned.",
        "I am Parley's built-in demonstration model, so this is not a real answer. You asked: “{quote}”. "
        "To connect a real model, set PARLEY_UPSTREAM_URL to an OpenAI-compatible server or name one in parley.toml.",
        "I see {count} attachment(s), known to me only by media type: {types}.",
        "Let me check.",
        "The function {name} returned: {text}",
    ),
    "zh": Phrases(
        "用户问：“{quote}”。我只是演示模型，所以应当说明这一点，并复述问题。",
        "用户问：“{quote}”。这些函数可以帮忙：{names}。",
        "函数已经返回结果，我来转述。",
        "我是 Parley 内置的演示模型，所以这不是真正的回答。您问的是：“{quote}”。"
        "要接入真实的模型，请把 PARLEY_UPSTREAM_URL 设为兼容 OpenAI 的服务器地址，或在 parley.toml 中写明。",
        "我看到 {count} 个附件，只知道它们的媒体类型：{types}。",
        "我来查一下。",
        "函数 {name} 返回：{text}",
        comma="、",
        space="",
    ),
    "ja": Phrases(
        "ユーザーの質問は「{quote}」です。私はデモ用モデルなので、そのことを伝えて質問を繰り返します。",
        "ユーザーの質問は「{quote}」です。使えそうな関数: {names}。",
        "関数の結果が届きました。それを伝えます。",
        "私は Parley に内蔵されたデモ用モデルなので、これは本当の回答ではありません。ご質問は「{quote}」でした。"
        "本物のモデルにつなぐには、PARLEY_UPSTREAM_URL に OpenAI 互換サーバーを設定するか、parley.toml "
        "に書いてください。",
        "添付が {count} 件見えますが、わかるのはメディアタイプだけです: {types}。",
        "確認します。",
        "関数 {name} の結果: {text}",
        comma="、",
        space="",
    ),
    "ko": Phrases(
        "사용자의 질문은 “{quote}”입니다. 저는 데모 모델이므로 그 사실을 밝히고 질문을 되풀이합니다.",
        "사용자의 질문은 “{quote}”입니다. 도움이 될 함수: {names}.",
        "함수가 결과를 돌려주었습니다. 그대로 전하겠습니다.",
        "저는 Parley에 내장된 데모 모델이라서 이것은 진짜 답변이 아닙니다. 질문하신 내용: “{quote}”. "
        "실제 모델을 연결하려면 PARLEY_UPSTREAM_URL에 OpenAI 호환 서버를 지정하거나 parley.toml에 적어 주세요.",
        "첨부 {count}개가 보이지만 미디어 유형만 알 수 있습니다: {types}.",
        "확인해 보겠습니다.",
        "함수 {name}의 결과: {text}",
    ),
    "ru": Phrases(
        "Пользователь спрашивает: «{quote}». Я лишь демонстрационная модель, так что скажу об этом и повторю вопрос.",
        "Пользователь спрашивает: «{quote}». Помогут эти функции: {names}.",
        "Функции ответили. Передам, что они вернули.",
        "Я встроенная демонстрационная модель Parley, поэтому это не настоящий ответ. Вы спросили: «{quote}». "
        "Чтобы подключить настоящую модель, задайте в PARLEY_UPSTREAM_URL совместимый с OpenAI сервер или впишите "
        "его в parley.toml.",
        "Вижу вложений: {count}; мне известен только их медиатип: {types}.",
        "Сейчас проверю.",
        "Функция {name} вернула: {text}",
    ),
    "es": Phrases(
        "El usuario pregunta: «{quote}». Solo soy un modelo de demostración, así que lo diré y repetiré la pregunta.",
        "El usuario pregunta: «{quote}». Estas funciones pueden ayudar: {names}.",
        "Las funciones han respondido. Contaré lo que devolvieron.",
        "Soy el modelo de demostración integrado de Parley, así que esto no es una respuesta real. Usted "
        "preguntó: «{quote}». "
        "Para conectar un modelo real, ponga en PARLEY_UPSTREAM_URL un servidor compatible con OpenAI o indíquelo "
        "en parley.toml.",
        "Veo {count} adjunto(s); solo conozco su tipo de medio: {types}.",
        "Voy a comprobarlo.",
        "La función {name} devolvió: {text}",
    ),
    "fr": Phrases(
        "L'utilisateur demande : « {quote} ». Je ne suis qu'un modèle de démonstration ; je vais le dire et "
        "répéter la question.",
        "L'utilisateur demande : « {quote} ». Ces fonctions peuvent aider : {names}.",
        "Les fonctions ont répondu. Je vais rapporter leur résultat.",
        "Je suis le modèle de démonstration intégré à Parley, ceci n'est donc pas une vraie réponse. Vous avez "
        "demandé : « {quote} ». "
        "Pour brancher un vrai modèle, donnez à PARLEY_UPSTREAM_URL un serveur compatible OpenAI ou indiquez-le "
        "dans parley.toml.",
        "Je vois {count} pièce(s) jointe(s), dont je ne connais que le type de média : {types}.",
        "Je vérifie.",
        "La fonction {name} a renvoyé : {text}",
    ),
    "de": Phrases(
        "Gefragt wird: „{quote}“. Ich bin nur ein Vorführmodell, also sage ich das und wiederhole die Frage.",
        "Gefragt wird: „{quote}“. Diese Funktionen können helfen: {names}.",
        "Die Funktionen haben geantwortet. Ich gebe ihr Ergebnis wieder.",
        "Ich bin das eingebaute Vorführmodell von Parley, dies ist also keine echte Antwort. Sie haben gefragt: "
        "„{quote}“. "
        "Für ein echtes Modell setzen Sie PARLEY_UPSTREAM_URL auf einen OpenAI-kompatiblen Server oder nennen ihn "
        "in parley.toml.",
        "Ich sehe {count} Anhang/Anhänge und kenne davon nur den Medientyp: {types}.",
        "Ich sehe nach.",
        "Die Funktion {name} lieferte: {text}",
    ),
    "pt": Phrases(
        "O usuário pergunta: “{quote}”. Sou apenas um modelo de demonstração, então direi isso e repetirei a pergunta.",
        "O usuário pergunta: “{quote}”. Estas funções podem ajudar: {names}.",
        "As funções responderam. Vou relatar o que devolveram.",
        "Sou o modelo de demonstração embutido no Parley, portanto esta não é uma resposta real. Você perguntou: "
        "“{quote}”. "
        "Para conectar um modelo real, defina PARLEY_UPSTREAM_URL com um servidor compatível com OpenAI ou "
        "indique-o em parley.toml.",
        "Vejo {count} anexo(s) e só conheço o tipo de mídia: {types}.",
        "Vou verificar.",
        "A função {name} devolveu: {text}",
    ),
    "ar": Phrases(
        "يسأل المستخدم: «{quote}». أنا نموذج تجريبي فقط، لذلك سأقول هذا وأكرر السؤال.",
        "يسأل المستخدم: «{quote}». هذه الدوال قد تفيد: {names}.",
        "أجابت الدوال، وسأنقل ما أعادته.",
        "أنا النموذج التجريبي المدمج في Parley، لذا فهذا ليس جوابا حقيقيا. سألت: «{quote}». "
        "لربط نموذج حقيقي، اجعل PARLEY_UPSTREAM_URL عنوان خادم متوافق مع OpenAI أو سمّه في parley.toml.",
        "أرى مرفقات عددها {count}، ولا أعرف منها إلا نوع الوسائط: {types}.",
        "دعني أتحقق.",
        "أعادت الدالة {name}: {text}",
        comma="، ",
    ),
}
