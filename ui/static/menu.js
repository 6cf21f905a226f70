// A small menu beside a button: arrow keys, letters, Escape; a choice may open another list in its place.

import { byId, h, icon } from "./dom.js";

const EDGE = 8; // pixels kept free at the window's edges
let open = null;

/** Show a menu. `choices` are {label, icon, run, href, more, danger, checked, separate}, empty ones are left out:
 * `more` is a list (or a function that makes one) that takes the menu's place, `href` a file to fetch. `back()` tells what
 * has the focus afterwards, where that is not the button. */
export function openMenu(button, choices, { label = "Menu", at = null, back = null } = {}) {
  const same = open?.button === button;
  open?.close();
  if (!same) open = new Menu(button, choices, label, at, back ?? from(button));
}

/** In a row of a list the button is no stop of the Tab key: the focus goes back to where it was in the row. */
function from(button) {
  const { activeElement } = document;
  const element = button.closest("[data-row]")?.contains(activeElement) ? activeElement : button;
  return () => element;
}

class Menu {
  constructor(button, choices, label, at, back) {
    this.button = button;
    this.back = back;
    this.at = at;
    this.element = h("div.menu-box", {
      role: "menu", "aria-label": label, "data-testid": "menu", onkeydown: (event) => this.#key(event),
      oncontextmenu: (event) => event.preventDefault(), // comes when the key is let go that has opened it
    });
    button.setAttribute("aria-expanded", "true");
    byId("pc").append(this.element);
    this.away = (event) => {
      if (!this.element.contains(event.target) && !button.contains(event.target)) this.close(false);
    };
    this.gone = () => this.close(false);
    document.addEventListener("pointerdown", this.away, true);
    addEventListener("resize", this.gone);
    this.#fill(choices);
  }

  close(back = true) {
    if (open === this) open = null;
    document.removeEventListener("pointerdown", this.away, true);
    removeEventListener("resize", this.gone);
    const inside = this.element.contains(document.activeElement);
    this.element.remove();
    this.button.removeAttribute("aria-expanded");
    if (back && inside) this.back()?.focus({ preventScroll: true });
  }

  #fill(choices, upper = null) {
    const items = choices.filter(Boolean).map((choice) => this.#item(choice));
    if (upper) {
      const back = { label: upper.label, icon: "left", stay: true, run: () => this.#fill(upper.choices, upper.upper) };
      items.unshift(this.#item(back, "menu-item back"));
    }
    this.current = { choices, upper };
    this.element.replaceChildren(...items);
    this.#place();
    this.element.querySelectorAll("[role^=menuitem]")[upper ? 1 : 0]?.focus({ preventScroll: true });
  }

  #item(choice, kind = "menu-item") {
    const properties = {
      class: `${kind}${choice.danger ? " danger" : ""}${choice.separate ? " separate" : ""}`,
      role: choice.checked === undefined ? "menuitem" : "menuitemradio", tabIndex: -1, "data-testid": choice.testid,
      "aria-checked": choice.checked === undefined ? null : String(choice.checked),
      "aria-haspopup": choice.more ? "menu" : null,
      onclick: () => this.#choose(choice),
    };
    const parts = [choice.icon ? icon(choice.icon) : h("i"), h("span", {}, choice.label),
      choice.more ? icon("right", 14) : choice.checked ? icon("check", 14) : null];
    return choice.href ? h("a", { ...properties, href: choice.href, download: "" }, ...parts)
      : h("button", { type: "button", ...properties }, ...parts);
  }

  #choose(choice) {
    if (choice.more) {
      const more = typeof choice.more === "function" ? choice.more() : choice.more;
      return this.#fill(more, { label: choice.label, ...this.current });
    }
    if (!choice.stay) this.close();
    choice.run?.();
  }

  #place() {
    const { element } = this;
    const from = this.at ?? this.button.getBoundingClientRect();
    const [width, height] = [element.offsetWidth, element.offsetHeight];
    const left = Math.max(EDGE, Math.min(this.at ? from.x : from.right - width, innerWidth - width - EDGE));
    const below = (this.at ? from.y : from.bottom + 4);
    const top = below + height + EDGE <= innerHeight ? below : Math.max(EDGE, (this.at ? from.y : from.top - 4) - height);
    element.style.left = `${left}px`;
    element.style.top = `${top}px`;
  }

  #key(event) {
    const items = [...this.element.querySelectorAll("[role^=menuitem]")];
    const at = items.indexOf(document.activeElement);
    const to = { ArrowDown: (at + 1) % items.length, ArrowUp: (at - 1 + items.length) % items.length, Home: 0,
      End: items.length - 1 }[event.key];
    if (to !== undefined) items[to].focus();
    else if (event.key === "Escape") this.close();
    else if (event.key === "Tab") return this.close();
    else if (event.key === "ArrowRight" && items[at]?.ariaHasPopup) items[at].click();
    else if (event.key === "ArrowLeft" && this.current.upper) items[0].click();
    else if (event.key.length === 1 && event.key !== " " && !event.ctrlKey && !event.metaKey) {
      const letter = event.key.toLowerCase();
      const hit = [...items.slice(at + 1), ...items].find((one) => one.textContent.toLowerCase().startsWith(letter));
      hit?.focus();
    } else return;
    event.preventDefault();
    event.stopPropagation();
  }
}
