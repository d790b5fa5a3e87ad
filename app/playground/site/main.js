/** @file Starts the page, or says why it cannot be shown: a script or a text may be missing, or the browser may keep nothing for it. */

try {
  const { startPage } = await import("./page.js");
  await startPage();
} catch (error) {
  const box = document.createElement("p");
  box.className = "problem";
  box.setAttribute("role", "alert");
  box.textContent = `The page cannot be shown (${error instanceof Error ? error.message : error}). Load it again. The browser must allow this page to store data.`;
  document.getElementById("app")?.replaceChildren(box);
  throw error;
}
