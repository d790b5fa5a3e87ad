/** @file Reads server-sent events from the body of a response: the browser's EventSource can send no POST. */

/**
 * Yield the text of each frame, without comments, as soon as it is complete.
 * @param {ReadableStream<Uint8Array>} body
 * @returns {AsyncGenerator<string>}
 */
export async function* readFrames(body) {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  let rest = "";
  try {
    for (;;) {
      const { value, done } = await reader.read();
      const read = done ? decoder.decode() : decoder.decode(value, { stream: true });
      const text = read.replaceAll("\r", ""); // Google's lines end with both; JSON has none
      // A frame of megabytes comes in many reads: they are joined, and searched once.
      const complete = text.includes("\n\n") || (text.startsWith("\n") && rest.endsWith("\n"));
      rest += text;
      if (!complete && !done) continue;
      const frames = rest.split("\n\n");
      rest = frames.pop() ?? "";
      for (const frame of frames) {
        const lines = frame.split("\n").filter((line) => line && !line.startsWith(":"));
        if (lines.length) yield lines.join("\n");
      }
      if (done) return;
    }
  } finally {
    reader.releaseLock();
  }
}

/**
 * Return the data of a frame.
 * @param {string} frame
 */
export function readData(frame) {
  const lines = frame.split("\n").filter((line) => line.startsWith("data:"));
  return lines.map((line) => line.slice(line[5] === " " ? 6 : 5)).join("\n");
}
