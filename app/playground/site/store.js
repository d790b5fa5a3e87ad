/** @file The state of the page: one object, replaced at each change, and the views that follow it. */

import { useEffect, useState } from "./html.js";

/**
 * @template T
 * @param {T} initial
 */
export function createStore(initial) {
  let state = initial;
  /** @type {Set<() => void>} */
  const listeners = new Set();
  return {
    get: () => state,
    /** @param {Partial<T>} changes */
    set(changes) {
      state = { ...state, ...changes };
      this.notify();
    },
    /** Tell the views that an object inside the state has changed. */
    notify() {
      for (const listener of [...listeners]) listener();
    },
    /** @param {() => void} listener */
    subscribe(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
  };
}

/**
 * Return the state, and render the component again whenever it changes.
 * @template T
 * @param {ReturnType<typeof createStore<T>>} store
 * @returns {T}
 */
export function useStore(store) {
  const [, setTick] = useState(0);
  useEffect(() => {
    const unsubscribe = store.subscribe(() => setTick((tick) => tick + 1));
    return () => void unsubscribe();
  }, [store]);
  return store.get();
}
