// Asks the search of the built site, as its pages do: node search.js WORKER INDEX WORD... prints the page of each first hit.
const fs = require("fs");
const vm = require("vm");

const [worker, index, ...words] = process.argv.slice(2);
const { config, docs } = JSON.parse(fs.readFileSync(index, "utf-8"));
let receive;
let resolve;
const page = {
  console,
  addEventListener: (_, handler) => (receive = handler),
  postMessage: (message) => resolve(message.data),
};
page.self = page;
vm.runInNewContext(fs.readFileSync(worker, "utf-8"), page);

function send(type, data) {
  return new Promise((done) => {
    resolve = done;
    receive({ data: { type, data } });
  });
}

(async () => {
  await send(0, { config, docs, options: { suggest: false } });
  for (const word of words) {
    const { items } = await send(2, word);
    const hits = items[0] || [];
    console.log(hits.length ? hits[0].location.split("#")[0] : "");
  }
})();
