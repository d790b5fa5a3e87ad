/** @file One conversation in each format: a function was called, its result came back, and the user goes on. */

const ARGUMENTS = '{"city": "Paris"}';
const RESULT = '{"temperature": 21, "sky": "sunny"}';
const SYSTEM = "You plan trips. Answer in one or two sentences.";
const QUESTION = "What is the weather in Paris?";
const THOUGHT = "I should look it up.";
const BEFORE = "Let me check.";
const ANSWER = "It is sunny in Paris, 21 °C.";
const NEXT = "Then what shall I pack?";
const AT = "2026-11-22 09:30:00.000";
const AT_2 = "2026-11-22T09:30:00+00:00";

/** @type {Record<string, any[]>} */
export const EXAMPLES = {
  qwen: [
    { role: "system", content: SYSTEM },
    { role: "user", content: QUESTION },
    { role: "assistant", content: "", reasoning_content: THOUGHT },
    { role: "assistant", content: BEFORE },
    { role: "assistant", content: "", function_call: { name: "get_weather", arguments: ARGUMENTS }, extra: { function_id: "call_1" } },
    { role: "function", name: "get_weather", content: RESULT, extra: { function_id: "call_1" } },
    { role: "assistant", content: ANSWER },
    { role: "user", content: NEXT },
  ],
  openai: [
    { role: "system", content: SYSTEM },
    { role: "user", content: QUESTION },
    {
      role: "assistant",
      content: BEFORE,
      reasoning_content: THOUGHT,
      tool_calls: [{ id: "call_1", type: "function", function: { name: "get_weather", arguments: ARGUMENTS } }],
    },
    { role: "tool", tool_call_id: "call_1", content: RESULT },
    { role: "assistant", content: ANSWER },
    { role: "user", content: NEXT },
  ],
  responses: [
    { type: "message", role: "system", content: SYSTEM },
    { type: "message", role: "user", content: QUESTION },
    { type: "reasoning", id: "rs_1", summary: [], content: [{ type: "reasoning_text", text: THOUGHT }] },
    { type: "message", id: "msg_1", role: "assistant", status: "completed", content: [{ type: "output_text", text: BEFORE, annotations: [] }] },
    { type: "function_call", call_id: "call_1", name: "get_weather", arguments: ARGUMENTS },
    { type: "function_call_output", call_id: "call_1", output: RESULT },
    { type: "message", id: "msg_2", role: "assistant", status: "completed", content: [{ type: "output_text", text: ANSWER, annotations: [] }] },
    { type: "message", role: "user", content: NEXT },
  ],
  anthropic: [
    { role: "system", content: SYSTEM },
    { role: "user", content: QUESTION },
    {
      role: "assistant",
      content: [
        { type: "text", text: BEFORE },
        { type: "tool_use", id: "call_1", name: "get_weather", input: JSON.parse(ARGUMENTS) },
      ],
    },
    { role: "user", content: [{ type: "tool_result", tool_use_id: "call_1", content: RESULT }] },
    { role: "assistant", content: ANSWER },
    { role: "user", content: NEXT },
  ],
  autogen: [
    { type: "SystemMessage", content: SYSTEM },
    { type: "TextMessage", source: "user", content: QUESTION },
    { type: "ThoughtEvent", source: "assistant", content: THOUGHT, metadata: { kind: "reasoning" } },
    { type: "ToolCallRequestEvent", source: "assistant", content: [{ id: "call_1", name: "get_weather", arguments: ARGUMENTS }] },
    {
      type: "ToolCallExecutionEvent",
      source: "assistant",
      content: [{ call_id: "call_1", name: "get_weather", content: RESULT, is_error: false }],
    },
    { type: "TextMessage", source: "assistant", content: ANSWER },
    { type: "TextMessage", source: "user", content: NEXT },
  ],
  agentscope: [
    { id: "m1", name: "system", role: "system", content: SYSTEM, metadata: {}, timestamp: AT },
    { id: "m2", name: "user", role: "user", content: QUESTION, metadata: {}, timestamp: AT },
    {
      id: "m3",
      name: "assistant",
      role: "assistant",
      content: [
        { type: "thinking", thinking: THOUGHT },
        { type: "text", text: BEFORE },
        { type: "tool_use", id: "call_1", name: "get_weather", input: JSON.parse(ARGUMENTS) },
      ],
      metadata: {},
      timestamp: AT,
    },
    {
      id: "m4",
      name: "system",
      role: "system",
      content: [{ type: "tool_result", id: "call_1", name: "get_weather", output: RESULT }],
      metadata: {},
      timestamp: AT,
    },
    { id: "m5", name: "assistant", role: "assistant", content: [{ type: "text", text: ANSWER }], metadata: {}, timestamp: AT },
    { id: "m6", name: "user", role: "user", content: NEXT, metadata: {}, timestamp: AT },
  ],
  agentscope2: [
    { id: "m1", name: "system", role: "system", content: [{ type: "text", text: SYSTEM }], metadata: {}, created_at: AT_2 },
    { id: "m2", name: "user", role: "user", content: [{ type: "text", text: QUESTION }], metadata: {}, created_at: AT_2 },
    {
      id: "m3",
      name: "assistant",
      role: "assistant",
      content: [
        { type: "thinking", thinking: THOUGHT },
        { type: "text", text: BEFORE },
        { type: "tool_call", id: "call_1", name: "get_weather", input: ARGUMENTS, state: "finished" },
        { type: "tool_result", id: "call_1", name: "get_weather", output: RESULT, state: "success" },
        { type: "text", text: ANSWER },
      ],
      metadata: {},
      created_at: AT_2,
    },
    { id: "m4", name: "user", role: "user", content: [{ type: "text", text: NEXT }], metadata: {}, created_at: AT_2 },
  ],
};

/** What the first screen offers to click. The texts are the strings `try_…`, the questions `question_…`. */
export const FIRST_QUESTIONS = [
  { id: "weather", functions: true },
  { id: "thinking", thinking: "on" },
  { id: "picture", file: drawPicture },
  { id: "pdf", file: writePdf },
  { id: "long" },
];

/** @returns {import("./compose.js").Attachment} a red sun over a green field */
function drawPicture() {
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [240, 150];
  const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
  for (const [colour, y, height] of /** @type {[string, number, number][]} */ ([["#bfe3ff", 0, 100], ["#3c9d5a", 100, 50]])) {
    context.fillStyle = colour;
    context.fillRect(0, y, canvas.width, height);
  }
  context.fillStyle = "#e5533d";
  context.beginPath();
  context.arc(180, 50, 26, 0, 2 * Math.PI);
  context.fill();
  return { name: "landscape.png", mediaType: "image/png", url: canvas.toDataURL("image/png") };
}

/** @returns {import("./compose.js").Attachment} one page with one line */
function writePdf() {
  const page = "BT /F1 18 Tf 60 720 Td (The meeting is on Tuesday at nine, in room 4.) Tj ET";
  const objects = [
    "<< /Type /Catalog /Pages 2 0 R >>",
    "<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
    "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 4 0 R /Resources << /Font << /F1 5 0 R >> >> >>",
    `<< /Length ${page.length} >>\nstream\n${page}\nendstream`,
    "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
  ];
  let text = "%PDF-1.4\n";
  const places = objects.map((body, index) => {
    const place = text.length;
    text += `${index + 1} 0 obj\n${body}\nendobj\n`;
    return `${String(place).padStart(10, "0")} 00000 n \n`;
  });
  const count = objects.length + 1;
  text += `xref\n0 ${count}\n0000000000 65535 f \n${places.join("")}trailer\n<< /Size ${count} /Root 1 0 R >>\nstartxref\n${text.length}\n%%EOF\n`;
  return { name: "meeting.pdf", mediaType: "application/pdf", url: `data:application/pdf;base64,${btoa(text)}` };
}

export const EXAMPLE_FUNCTIONS = [
  {
    name: "get_weather",
    description: "The weather of a city",
    parameters: {
      type: "object",
      properties: { city: { type: "string", description: "The name of the city" } },
      required: ["city"],
    },
  },
  {
    name: "get_time",
    description: "The local time of a city",
    parameters: { type: "object", properties: { city: { type: "string" } }, required: ["city"] },
  },
];
