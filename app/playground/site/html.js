/** @file Preact's functions, for all views. A template `html\`<p>${text}</p>\`` never inserts text as HTML. */

export {
  html,
  render,
  Component,
  useState,
  useEffect,
  useLayoutEffect,
  useRef,
  useMemo,
} from "./vendor/htm-preact.js";
