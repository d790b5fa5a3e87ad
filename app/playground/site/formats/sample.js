/** @file The conversation of the examples: a function was called, its result came back, and the user goes on. */

export const ARGUMENTS = '{"city": "Paris"}';
export const RESULT = '{"temperature": 21, "sky": "sunny"}';
export const SYSTEM = "You plan trips. Answer in one or two sentences.";
export const QUESTION = "What is the weather in Paris?";
export const THOUGHT = "I should look it up.";
export const BEFORE = "Let me check.";
export const ANSWER = "It is sunny in Paris, 21 °C.";
export const NEXT = "Then what shall I pack?";
export const AT = "2026-11-22 09:30:00.000";
export const AT_2 = "2026-11-22T09:30:00+00:00";
