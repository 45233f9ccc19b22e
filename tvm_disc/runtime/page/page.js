"use strict";
(() => {
  const graph = document.getElementById("graph");
  const arrows = document.getElementById("arrows");
  const calls = [...document.querySelectorAll("details.call")];
  const foldable = [...document.querySelectorAll("main details")];
  const gutter = parseFloat(getComputedStyle(graph).paddingLeft);

  // Where a call is seen: itself, or the layer that hides it.
  const seen = (call) => {
    const layer = call.closest("details.layer");
    return layer && !layer.open ? layer : call;
  };
  const middle = (element, top) => {
    const head = element.querySelector("summary").getBoundingClientRect();
    return head.height ? head.top - top + head.height / 2 : null;
  };

  function draw() {
    const top = graph.getBoundingClientRect().top;
    const lines = [];
    for (const call of calls) {
      for (const read of call.dataset.reads.split(" ").filter(Boolean)) {
        const source = document.getElementById(`call-${read}`);
        if (!source || seen(source) === seen(call)) continue;
        const from = middle(seen(source), top);
        const to = middle(seen(call), top);
        if (from === null || to === null) continue;
        const x = Math.max(6, gutter - 10 - Math.sqrt(Math.abs(to - from)) * 3);
        const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
        path.setAttribute("d", `M${gutter} ${from} C${x} ${from} ${x} ${to} ${gutter} ${to}`);
        path.dataset.from = source.id;
        path.dataset.to = call.id;
        lines.push(path);
      }
    }
    arrows.replaceChildren(...lines);
  }

  function mark(call, hot) {
    for (const path of arrows.children) {
      const near = path.dataset.from === call.id || path.dataset.to === call.id;
      path.classList.toggle("hot", hot && near);
    }
  }

  const texts = new Map();
  const searched = [...document.querySelectorAll("details.call, details.kernel, #facts tr, #refused tr")];
  for (const element of searched) texts.set(element, element.textContent.toLowerCase());

  function search() {
    const words = document.getElementById("search").value.toLowerCase().split(/\s+/).filter(Boolean);
    let count = 0;
    for (const element of searched) {
      const hit = words.every((word) => texts.get(element).includes(word));
      element.classList.toggle("missed", !hit);
      count += hit;
    }
    document.getElementById("found").textContent = words.length ? `${count} found` : "";
    draw();
  }

  function reveal() {
    const target = location.hash.length > 1 && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (!target) return;
    for (let e = target; e; e = e.parentElement) if (e.tagName === "DETAILS") e.open = true;
    target.classList.remove("missed");
    target.scrollIntoView({ block: "center" });
  }

  const all = (open) => { for (const element of foldable) element.open = open; };
  document.getElementById("open").addEventListener("click", () => all(true));
  document.getElementById("close").addEventListener("click", () => all(false));
  document.getElementById("search").addEventListener("input", search);
  for (const call of calls) {
    call.addEventListener("mouseenter", () => mark(call, true));
    call.addEventListener("mouseleave", () => mark(call, false));
  }
  // Opening moves what is below; "toggle" does not bubble.
  document.addEventListener("toggle", draw, true);
  addEventListener("resize", draw);
  addEventListener("hashchange", reveal);
  draw();
  reveal();
})();
