/** @file Reads and changes the functions of a request, as a form shows them. What the form does not show is kept. */

/**
 * @typedef {object} Parameter
 * @property {string} name
 * @property {Record<string, any>} schema
 * @property {boolean} required
 */

export const TYPES = ["string", "number", "integer", "boolean", "array", "object"];

/** @param {any} value */
const isObject = (value) => typeof value === "object" && value !== null && !Array.isArray(value);

/** Whether a form can show this entry: a function, or OpenAI's tool around one. @param {any} entry */
export const fitsForm = (entry) => isObject(entry) && isObject(unwrap(entry));

/** @param {any} entry @returns {Record<string, any>} the function itself */
export const unwrap = (entry) => (entry.type === "function" && entry.function !== undefined ? entry.function : entry);

/** @param {any} entry @param {Record<string, any>} changes of the function @returns {any} */
export function change(entry, changes) {
  const changed = { ...unwrap(entry), ...changes };
  return unwrap(entry) === entry ? changed : { ...entry, function: changed };
}

/** @param {any} entry @returns {Parameter[] | null} null if the schema is not that of an object with properties */
export function readParameters(entry) {
  const { parameters = {} } = unwrap(entry);
  if (!isObject(parameters) || (parameters.type ?? "object") !== "object") return null;
  const { properties = {}, required = [] } = parameters;
  if (!isObject(properties) || !Array.isArray(required) || !Object.values(properties).every(isObject)) return null;
  return Object.entries(properties).map(([name, schema]) => ({ name, schema, required: required.includes(name) }));
}

/** @param {any} entry @param {Parameter[]} rows @returns {any} the entry with these parameters */
export function writeParameters(entry, rows) {
  const { required: _, ...others } = unwrap(entry).parameters ?? {};
  const properties = Object.fromEntries(rows.map(({ name, schema }) => [name, schema]));
  const required = rows.filter((row) => row.required).map(({ name }) => name);
  return change(entry, { parameters: { type: "object", ...others, properties, ...(required.length && { required }) } });
}

/** @param {string} stem @param {string[]} taken @returns {string} the stem with the first number that is free */
export function freeName(stem, taken) {
  let number = 1;
  while (taken.includes(`${stem}_${number}`)) number += 1;
  return `${stem}_${number}`;
}
