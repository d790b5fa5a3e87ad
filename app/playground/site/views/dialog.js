/** @file A dialog above the page. */

import { html, useEffect, useRef } from "../html.js";
import { useId } from "./controls.js";

/**
 * Properties: `title`; `onClose` is called when the reader leaves the dialog without an answer; `children`.
 * @param {{title: string, onClose: () => void, children?: any}} props
 */
export function Dialog({ title, onClose, children }) {
  const id = useId("dialog");
  const ref = useRef(/** @type {HTMLDialogElement | null} */ (null));
  useEffect(() => {
    const dialog = ref.current;
    dialog?.showModal();
    return () => dialog?.close(); // the focus goes back to what opened it
  }, []);
  return html`<dialog ref=${ref} aria-labelledby=${id} onCancel=${(/** @type {Event} */ event) => (event.preventDefault(), onClose())}>
    <h2 id=${id}>${title}</h2>${children}
  </dialog>`;
}
