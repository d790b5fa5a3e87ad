"""The page at `/`: ES modules with types in JSDoc, sent to the browser as they are, and vendored libraries.

In `site`, `conversation.js` holds the state of the page; `run.js` is one request with its times and frames; a module
of `formats/` reads the frames of one format into a `Reply`, whose parts are the same for all, and writes its messages;
its row is in `formats/index.js`; `views/` shows them. `json_places.js` finds mistakes and paths in a JSON text, and
`failures.js` names a failure by its code. Model text becomes HTML only in `markdown.js`: HTML in it is shown as text,
DOMPurify removes what could run, and Trusted Types make the browser refuse everything else.
"""
