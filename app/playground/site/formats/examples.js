/** @file What the page offers to try. */

/** What the first screen offers to click. The texts are the strings `try_…`, the questions `question_…`. */
export const FIRST_QUESTIONS = [
  { id: "weather", functions: true },
  { id: "tools", server: "example" },
  { id: "thinking", thinking: "on" },
  { id: "picture", file: drawPicture },
  { id: "pdf", file: writePdf },
  { id: "long" },
];

/** @returns {import("./index.js").Attachment} a red sun over a green field */
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

/** @returns {import("./index.js").Attachment} one page with one line */
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
