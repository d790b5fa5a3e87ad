/** @file Where the reader writes: text, images and PDFs. */

import { addSystem, sendUser, stop, store } from "../conversation.js";
import { html, useEffect, useRef, useState } from "../html.js";
import { t } from "../texts.js";
import { Select } from "./controls.js";
import { FileIcon } from "./parts.js";

/** @typedef {import("../formats/index.js").Attachment} Attachment */

const ACCEPTED = ["image/png", "image/jpeg", "image/gif", "image/webp", "application/pdf"];

/** @param {{busy: boolean}} props */
export function Composer({ busy }) {
  const [text, setText] = useState("");
  const [role, setRole] = useState("user");
  const [files, setFiles] = useState(/** @type {Attachment[]} */ ([]));
  const input = useRef(/** @type {HTMLInputElement | null} */ (null));

  useEffect(() => {
    if (!busy) return undefined;
    const onKey = (/** @type {KeyboardEvent} */ event) => event.key === "Escape" && stop();
    addEventListener("keydown", onKey);
    return () => removeEventListener("keydown", onKey);
  }, [busy]);

  const attach = async (/** @type {Iterable<File>} */ chosen) => {
    const given = [...chosen];
    const others = given.filter((file) => !ACCEPTED.includes(file.type));
    try {
      const read = await Promise.all(given.filter((file) => !others.includes(file)).map(readAttachment));
      setFiles((before) => [...before, ...read]);
      if (others.length) store.set({ problem: { error: { message: t("notAttached", { names: others.map(({ name }) => name).join(", ") }) } } });
    } catch (error) {
      store.set({ problem: { error: { message: String(error) } } });
    }
  };
  const send = async () => {
    if (busy || (!text.trim() && !files.length)) return;
    setText("");
    setFiles([]);
    if (role === "system") {
      addSystem(text);
      setRole("user");
    } else if (!(await sendUser(text, files))) {
      setText(text);
      setFiles(files);
    }
  };
  const onKeyDown = (/** @type {KeyboardEvent} */ event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    send();
  };
  const onPaste = (/** @type {ClipboardEvent} */ event) => {
    const pasted = event.clipboardData?.files ?? [];
    if (!pasted.length) return;
    event.preventDefault();
    attach(pasted);
  };
  const onDrop = (/** @type {DragEvent} */ event) => {
    event.preventDefault();
    attach(event.dataTransfer?.files ?? []);
  };

  return html`<form class="composer" onSubmit=${(/** @type {Event} */ event) => (event.preventDefault(), send())}
      onDrop=${onDrop} onDragOver=${(/** @type {Event} */ event) => event.preventDefault()}>
    ${files.length > 0 && html`<ul class="attachments">${files.map((file, index) => html`<li>
      ${file.mediaType.startsWith("image/") ? html`<img src=${file.url} alt="" />` : html`<${FileIcon} />`} ${file.name}
      <button type="button" class="quiet" aria-label=${t("removeFile", { name: file.name })}
        onClick=${() => setFiles(files.toSpliced(index, 1))}>×</button></li>`)}</ul>`}
    <label for="prompt" class="visually-hidden">${role === "system" ? t("systemPrompt") : t("yourMessage")}</label>
    <textarea id="prompt" rows="3" value=${text} placeholder=${role === "system" ? t("systemPrompt") : t("yourMessage")}
      onInput=${(/** @type {any} */ event) => setText(event.target.value)} onKeyDown=${onKeyDown} onPaste=${onPaste}></textarea>
    <div class="buttons">
      <${Select} label=${t("role")} hidesLabel value=${role} options=${[["user", t("user")], ["system", t("system")]]} onChange=${setRole} />
      <input ref=${input} id="files" class="visually-hidden" type="file" multiple accept=${ACCEPTED.join()} tabindex="-1" aria-hidden="true"
        onChange=${(/** @type {any} */ event) => attach(event.target.files).then(() => (event.target.value = ""))} />
      <button type="button" onClick=${() => input.current?.click()}>${t("attach")}</button>
      <span class="hint keys">${t("sendKeys")}</span>
      ${busy
        ? html`<button type="button" class="danger" onClick=${stop}>${t("stop")} <kbd>Esc</kbd></button>`
        : html`<button type="submit" class="primary">${role === "system" ? t("add") : t("send")}</button>`}
    </div>
  </form>`;
}

/** @param {File} file @returns {Promise<Attachment>} */
function readAttachment(file) {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve({ name: file.name, mediaType: file.type, url: String(reader.result) });
    reader.onerror = () => reject(reader.error);
    reader.readAsDataURL(file);
  });
}
