/** @file A request as programs send it: curl, Python, JavaScript. */

/** @typedef {"curl" | "python" | "javascript"} Language */

/** @type {Record<Language, string>} */
export const CODE_LANGUAGES = { curl: "curl", python: "Python", javascript: "JavaScript" };

/**
 * @param {Language} language
 * @param {string} url
 * @param {Record<string, any>} body
 * @param {boolean} withKey whether the gateway needs an API key, which is read from PARLEY_API_KEY
 */
export function writeRequest(language, url, body, withKey) {
  switch (language) {
    case "curl":
      return writeCurl(url, body, withKey);
    case "python":
      return writePython(url, body, withKey);
    case "javascript":
      return writeJavaScript(url, body, withKey);
  }
}

/**
 * The body is not an argument: an image is longer than an argument may be, and a here-document needs no quoting.
 * @param {string} url @param {any} body @param {boolean} withKey
 */
function writeCurl(url, body, withKey) {
  const key = withKey ? ` \\\n  -H "authorization: Bearer $PARLEY_API_KEY"` : "";
  const head = `curl -N '${url}' \\\n  -H 'content-type: application/json'${key} \\\n  --data-binary @- <<'END'`;
  return `${head}\n${JSON.stringify(body, null, 2)}\nEND\n`;
}

/** @param {string} url @param {any} body @param {boolean} withKey */
function writePython(url, body, withKey) {
  const headers = withKey ? `\nheaders = {"authorization": f"Bearer {os.environ['PARLEY_API_KEY']}"}` : "";
  const imports = withKey ? "import json\nimport os\n" : "import json\n";
  return `${imports}
import httpx

body = ${pythonValue(body, 0)}${headers}
with httpx.stream("POST", ${JSON.stringify(url)}, json=body,${withKey ? " headers=headers," : ""} timeout=600) as response:
    if response.status_code != 200:
        raise SystemExit(response.read().decode())
    for line in response.iter_lines():
        if line.startswith("data: ") and line != "data: [DONE]":
            print(json.loads(line[6:]))
`;
}

/** @param {string} url @param {any} body @param {boolean} withKey */
function writeJavaScript(url, body, withKey) {
  const key = withKey ? "\n    authorization: `Bearer ${process.env.PARLEY_API_KEY}`," : "";
  return `const body = ${JSON.stringify(body, null, 2)};
const response = await fetch(${JSON.stringify(url)}, {
  method: "POST",
  headers: {
    "content-type": "application/json",${key}
  },
  body: JSON.stringify(body),
});
if (!response.ok) throw new Error(await response.text());
let rest = "";
for await (const text of response.body.pipeThrough(new TextDecoderStream())) {
  const lines = (rest + text).split("\\n");
  rest = lines.pop();
  for (const line of lines) {
    if (line.startsWith("data: ") && line !== "data: [DONE]") {
      console.dir(JSON.parse(line.slice(6)), { depth: null });
    }
  }
}
`;
}

/** @param {any} value @param {number} depth @returns {string} */
function pythonValue(value, depth) {
  if (value === null) return "None";
  if (value === true) return "True";
  if (value === false) return "False";
  if (typeof value !== "object") return JSON.stringify(value);
  const inner = "    ".repeat(depth + 1);
  const outer = "    ".repeat(depth);
  const rows = Array.isArray(value)
    ? value.map((item) => pythonValue(item, depth + 1))
    : Object.entries(value).map(([key, item]) => `${JSON.stringify(key)}: ${pythonValue(item, depth + 1)}`);
  const [open, close] = Array.isArray(value) ? "[]" : "{}";
  const short = `${open}${rows.join(", ")}${close}`;
  if (short.length < 70 && !short.includes("\n")) return short;
  return `${open}\n${rows.map((row) => `${inner}${row},\n`).join("")}${outer}${close}`;
}
