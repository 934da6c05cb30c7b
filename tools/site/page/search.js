// The search of the site: each word must be in the title or in the text of a page. Pages with a word in the title come first.
"use strict";
(() => {
  const input = document.getElementById("search");
  const list = document.getElementById("found");
  const menu = document.querySelector(".menu");
  menu.open = window.matchMedia("(min-width: 64rem)").matches;
  const lower = pages.map((p) => ({ page: p, title: p.Title.toLowerCase(), words: p.Words.toLowerCase() }));
  const show = () => {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    list.replaceChildren();
    list.hidden = words.length === 0;
    if (list.hidden) return;
    const score = (p) => words.reduce((n, w) => n + (p.title.includes(w) ? 100 : 0) + Math.min(20, p.words.split(w).length - 1), 0);
    const found = lower.filter((p) => words.every((w) => p.title.includes(w) || p.words.includes(w)));
    found.sort((a, b) => score(b) - score(a));
    for (const { page, words: text } of found.slice(0, 12)) {
      const item = document.createElement("li");
      const link = document.createElement("a");
      link.href = page.File;
      link.textContent = page.Title;
      const excerpt = document.createElement("small");
      const at = Math.max(0, text.indexOf(words[0]) - 40);
      excerpt.textContent = page.Words.slice(at, at + 140);
      item.append(link, excerpt);
      list.append(item);
    }
    if (found.length === 0) {
      const item = document.createElement("li");
      item.textContent = "No page has these words.";
      list.append(item);
    }
  };
  input.addEventListener("input", show);
  input.addEventListener("keydown", (e) => {
    if (e.key === "Escape") { input.value = ""; show(); }
    if (e.key === "Enter" && list.querySelector("a")) list.querySelector("a").click();
  });
})();
