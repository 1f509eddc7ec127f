// Elements, made without HTML, so that every text is shown as text.

/**
 * @typedef {string | number | Node | null | undefined} Child
 * @typedef {Record<string, string | number | boolean | ((event: Event) => void) | undefined>} Attributes
 */

/**
 * An element with these attributes and children. An attribute that begins with `on` is a listener.
 * @template {keyof HTMLElementTagNameMap} Tag
 * @param {Tag} tag
 * @param {Attributes} [attributes]
 * @param {...Child} children
 * @returns {HTMLElementTagNameMap[Tag]}
 */
export function el(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") made.addEventListener(name.slice(2), value);
    else if (value === true) made.setAttribute(name, "");
    else if (value !== false && value !== undefined) made.setAttribute(name, String(value));
  }
  made.append(...children.filter((child) => child !== null && child !== undefined).map((child) => (child instanceof Node ? child : String(child))));
  return made;
}

/** Writes a text, if it is another one. @param {Node} node @param {string} text */
export function write(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/** An element that is there. @param {string} id */
export function byId(id) {
  const found = document.getElementById(id);
  if (!found) throw new Error(`no element ${id}`);
  return found;
}

/**
 * @template Item
 * @typedef {{ title: string, number?: boolean, head?: boolean, show: (item: Item) => string | Node }} Column
 */

/**
 * A table whose rows are kept: only cells with another text are written.
 * @template Item
 */
export class Table {
  /**
   * @param {string} caption
   * @param {Column<Item>[]} columns
   * @param {string} empty what stands there without rows
   */
  constructor(caption, columns, empty) {
    this.columns = columns;
    /** @type {Map<string, { row: HTMLTableRowElement, cells: HTMLTableCellElement[] }>} */
    this.rows = new Map();
    const heads = columns.map((column) => el("th", { scope: "col", role: "columnheader", class: column.number ? "number" : undefined }, column.title));
    this.body = el("tbody", { role: "rowgroup" });
    this.table = el("table", { class: "table", role: "table" }, el("caption", {}, caption), el("thead", { role: "rowgroup" }, el("tr", { role: "row" }, ...heads)), this.body);
    this.none = el("p", { class: "faint" }, empty);
    this.element = el("div", {}, this.table, this.none);
  }

  /** Shows these rows in this order. @param {[string, Item][]} items */
  show(items) {
    const keys = new Set(items.map(([key]) => key));
    for (const [key, { row }] of this.rows) {
      if (!keys.has(key)) {
        row.remove();
        this.rows.delete(key);
      }
    }
    items.forEach(([key, item], place) => {
      const row = this.update(key, item);
      if (this.body.children[place] !== row) this.body.insertBefore(row, this.body.children[place] ?? null);
    });
    this.none.hidden = items.length > 0;
    this.table.hidden = items.length === 0;
  }

  /** Shows one row anew. @param {string} key @param {Item} item */
  update(key, item) {
    let known = this.rows.get(key);
    if (!known) {
      known = this.make();
      this.rows.set(key, known);
    }
    this.columns.forEach((column, place) => {
      const cell = known.cells[place];
      if (!cell) return;
      const shown = column.show(item);
      if (typeof shown === "string") {
        write(cell, shown);
        cell.classList.toggle("empty", shown === "");
      } else if (cell.firstChild !== shown) cell.replaceChildren(shown);
    });
    return known.row;
  }

  make() {
    const cells = this.columns.map((column) =>
      column.head
        ? el("th", { scope: "row", role: "rowheader" })
        : el("td", { role: "cell", "data-label": column.title, class: column.number ? "number" : undefined }),
    );
    return { row: el("tr", { role: "row" }, ...cells), cells };
  }
}

/** Makes one thing for each name. @template Thing @param {(name: string) => Thing} make */
export function kept(make) {
  /** @type {Map<string, Thing>} */
  const all = new Map();
  return (/** @type {string} */ name) => {
    const known = all.get(name) ?? make(name);
    all.set(name, known);
    return known;
  };
}

/** A part of a view. @param {string} title @param {string} [style] @param {...Child} children */
export function part(title, style, ...children) {
  return el("section", { "aria-label": title, class: style }, el("h2", {}, title), ...children);
}

/** Tells people what came of their order. @param {string} text */
export function say(text) {
  byId("said").textContent = text;
  clearTimeout(said);
  said = window.setTimeout(() => byId("said").replaceChildren(), 8000);
}

let said = 0;
