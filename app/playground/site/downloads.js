/** @file Save what the gateway answers as a file. */

/** The file has the name that the gateway gives it. @param {Response} response */
export async function saveResponse(response) {
  const [, name] = /filename="([^"]+)"/.exec(response.headers.get("content-disposition") ?? "") ?? [];
  const url = URL.createObjectURL(await response.blob());
  const link = document.createElement("a");
  link.href = url;
  link.download = name ?? "download";
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}
