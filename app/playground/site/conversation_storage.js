/**
 * @file Keeps the conversation of this tab across a reload, in the browser's IndexedDB: sessionStorage takes only 5 MB, and
 * an image may be larger. Without IndexedDB, as in some private windows, a reload starts an empty conversation, which the
 * page says.
 */

/**
 * @typedef {object} Conversation
 * @property {any[]} messages
 * @property {import("./conversation.js").Options} options
 * @property {{body: Record<string, any>, responseId: string} | null} unfinished the reply that was being read
 */

const DATABASE = "parley";
const CONVERSATIONS = "conversations";
const KEPT_DAYS = 7;
const TAB = "parley-tab";
const OPEN = "parley-tab-open";

/** The tab that this one continues: itself before a reload, or the tab that it was made of, whose session it has got. */
const FORMER = sessionStorage.getItem(TAB);
/** The id of this tab. A tab that is left or loaded again is not open meanwhile, so what finds it open is a copy of it. */
const ID = FORMER && !sessionStorage.getItem(OPEN) ? FORMER : String(Math.random()).slice(2);

const open = () => sessionStorage.setItem(OPEN, "yes");
sessionStorage.setItem(TAB, ID);
open();
addEventListener("pageshow", open);
addEventListener("pagehide", () => sessionStorage.removeItem(OPEN));

/** @template T @param {IDBRequest<T>} request @returns {Promise<T>} */
function done(request) {
  return new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });
}

/** @param {IDBTransactionMode} mode @returns {Promise<IDBObjectStore>} */
async function openConversations(mode) {
  const request = indexedDB.open(DATABASE, 1);
  request.onupgradeneeded = () => request.result.createObjectStore(CONVERSATIONS);
  const database = await done(request);
  const transaction = database.transaction(CONVERSATIONS, mode);
  const close = () => database.close();
  transaction.oncomplete = transaction.onabort = transaction.onerror = close;
  return transaction.objectStore(CONVERSATIONS);
}

/** Throws what the browser says against it: it keeps no data, or has no room for more. @param {Conversation} conversation */
export async function saveConversation(conversation) {
  const conversations = await openConversations("readwrite");
  await done(conversations.put({ ...conversation, savedAt: Date.now() }, ID));
}

/**
 * Return the conversation of this tab, and delete those of tabs that were closed long ago. Throws what the browser says
 * against it.
 * @returns {Promise<Conversation | null>}
 */
export async function loadConversation() {
  const conversations = await openConversations("readwrite");
  const [keys, values] = await Promise.all([done(conversations.getAllKeys()), done(conversations.getAll())]);
  const oldest = Date.now() - KEPT_DAYS * 86_400_000;
  keys.forEach((key, index) => values[index].savedAt < oldest && conversations.delete(key));
  return values[keys.indexOf(FORMER ?? ID)] ?? null;
}
