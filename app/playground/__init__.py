"""The playground: a page for the browser, served by the gateway itself. `site` holds its files as the browser gets
them: ES modules, style sheets, texts in two languages, and vendored libraries (`site/vendor/README.md`)."""
