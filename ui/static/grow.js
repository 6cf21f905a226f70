// What is shown becomes what was rendered anew: what is equal keeps its nodes, and with them focus, selection and scrolling.

const CODE_END = "</code></pre>";

/** Make the children of `old` those of `fresh`, which is used up. */
export function grow(old, fresh) {
  let at = old.firstChild;
  for (const node of [...fresh.childNodes]) {
    if (!at) {
      old.append(node);
      continue;
    }
    const next = at.nextSibling;
    become(at, node);
    at = next;
  }
  while (at) {
    const next = at.nextSibling;
    at.remove();
    at = next;
  }
}

function become(old, fresh) {
  if (old.isEqualNode(fresh)) return;
  if (old.nodeName !== fresh.nodeName || old.nodeName === "math") old.replaceWith(fresh);
  else if (old.nodeType === Node.TEXT_NODE) retext(old, fresh.data);
  else {
    for (const { name } of [...old.attributes]) if (!fresh.hasAttribute(name)) old.removeAttribute(name);
    for (const { name, value } of fresh.attributes) if (old.getAttribute(name) !== value) old.setAttribute(name, value);
    grow(old, fresh);
  }
}

function retext(node, text) {
  if (text.startsWith(node.data)) node.appendData(text.slice(node.data.length));
  else node.data = text;
}

/** Code grows at its end: only from the last line on that both have is anything read. False if this is not such a case.
 * `keep` is how many characters of both are equal. */
export function growCode(element, old, html, keep) {
  if (!old.startsWith("<pre class=") || !html.startsWith("<pre class=")) return false;
  const code = element.querySelector("pre.code > code");
  const line = html.lastIndexOf("\n", keep - 1) + 1;
  const ends = [old.indexOf(CODE_END, line), html.indexOf(CODE_END, line)];
  if (!code || line <= html.indexOf("<code>") || ends.includes(-1)) return false;
  cut(code, fragment(old.slice(line, ends[0])).textContent.length);
  code.append(fragment(html.slice(line, ends[1])));
  return true;
}

function fragment(html) {
  const holder = document.createElement("template");
  holder.innerHTML = html;
  return holder.content;
}

/** Take the last `count` characters away. */
function cut(element, count) {
  while (count > 0 && element.lastChild) {
    const { lastChild } = element;
    const { length } = lastChild.textContent;
    if (length > count) {
      if (lastChild.nodeType !== Node.TEXT_NODE) return cut(lastChild, count);
      lastChild.deleteData(length - count, count);
      return;
    }
    lastChild.remove();
    count -= length;
  }
}
