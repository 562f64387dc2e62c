"use strict";
(async function () {
  const root = document.documentElement;
  const all = (selector, within) => Array.from((within || document).querySelectorAll(selector));
  const byId = (id) => document.getElementById(id);

  /* Without storage, as in a frame, choices last as long as the page. */
  const storage = {
    get(name) { try { return localStorage.getItem(name); } catch (refused) { return null; } },
    set(name, value) { try { localStorage.setItem(name, value); } catch (refused) { return; } },
  };

  /* Dark or light */
  if (storage.get("theme")) root.dataset.theme = storage.get("theme");
  function turnTheme() {
    const system = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
    root.dataset.theme = (root.dataset.theme || system) === "dark" ? "light" : "dark";
    storage.set("theme", root.dataset.theme);
  }
  byId("theme").addEventListener("click", turnTheme);

  /* Texts of a site are compressed, since they repeat each other. */
  const unpacked = (text) => {
    const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
    return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).text();
  };
  const packed = byId("packed");
  if (packed) {
    packed.outerHTML = await unpacked(packed.textContent);
    if (location.hash) location.replace(location.hash);
  }

  /* Help */
  const help = byId("help");
  byId("keys").addEventListener("click", () => help.showModal());

  /* Sort order and filter are in the # of the address, so that a link keeps them. */
  const state = new URLSearchParams(/=/.test(location.hash) ? location.hash.slice(1) : "");
  function remember(name, value) {
    if (value) state.set(name, value); else state.delete(name);
    const text = state.toString();
    history.replaceState(null, "", text ? "#" + text : location.pathname + location.search);
  }

  function valueOf(row, at) {
    const cell = row.cells[at];
    if (!cell || cell.colSpan > 1) return "";
    const text = cell.dataset.value !== undefined ? cell.dataset.value : cell.textContent.trim();
    const number = Number(text.replace(/,/g, ""));
    return text !== "" && !Number.isNaN(number) ? number : text;
  }
  function compare(a, b) {
    if (a === "" || b === "") return (a === "") - (b === "");
    if (typeof a === "number" && typeof b === "number") return a - b;
    return String(a).localeCompare(String(b), undefined, { numeric: true });
  }
  function sort(button, down) {
    closeDots(button.closest("table"));
    const table = button.closest("table"), at = button.closest("th").cellIndex, sign = down ? -1 : 1;
    const order = (items, rowOf) => items.map((item) => [valueOf(rowOf(item), at), item])
      .sort((a, b) => (a[0] === "" || b[0] === "" ? 1 : sign) * compare(a[0], b[0])).map((pair) => pair[1]);
    const bodies = Array.from(table.tBodies);
    bodies.forEach((body) => body.append(...order(all("tr:not(.group)", body), (row) => row)));
    table.append(...order(bodies, (body) => body.rows[0]));
    all(".sort", table).forEach((other) => {
      delete other.dataset.order;
      other.closest("th").removeAttribute("aria-sort");
    });
    button.dataset.order = down ? "down" : "up";
    button.closest("th").setAttribute("aria-sort", down ? "descending" : "ascending");
    remember(table.id + ".sort", (down ? "-" : "") + at);
  }
  all(".sortable .sort").forEach((button) => {
    const numeric = button.closest("th").classList.contains("num");
    button.addEventListener("click", () => {
      sort(button, button.dataset.order ? button.dataset.order === "up" : numeric);
    });
  });
  all("table.sortable").forEach((table) => {
    const order = state.get(table.id + ".sort");
    const button = order && all("thead th", table)[Math.abs(Number(order))];
    if (button && button.querySelector(".sort")) sort(button.querySelector(".sort"), order[0] === "-");
  });

  function filter(input) {
    closeDots(byId(input.dataset.filter));
    const table = byId(input.dataset.filter);
    const words = (input.value.toLowerCase().match(/"[^"]*"|\S+/g) || [])
      .map((word) => word.replace(/"/g, "")).filter(Boolean);
    for (const body of table.tBodies) {
      const group = body.querySelector(".group"), shared = group ? group.cells[0].textContent : "";
      for (const row of body.rows) {
        const text = (shared + " " + row.textContent).toLowerCase();
        row.hidden = !words.every((word) => text.includes(word));
        if (row !== group) row.classList.toggle("open", words.length > 0 || row.classList.contains("asked"));
      }
      if (group) group.hidden = !all("tr:not(.group)", body).some((row) => !row.hidden);
    }
    none(table, words.length && !all("tbody tr", table).some((row) => !row.hidden));
    remember(table.id + ".filter", input.value);
  }
  /* A filter without matches shows a message and a button that resets it. */
  function none(table, empty) {
    const place = table.closest(".scroll"), earlier = place.nextElementSibling;
    if (earlier && earlier.matches(".no-row")) earlier.remove();
    place.hidden = !!empty;
    if (!empty) return;
    const notice = document.createElement("p"), reset = document.createElement("button");
    notice.className = "fail no-row";
    notice.setAttribute("role", "status");
    reset.type = "button";
    reset.textContent = "Show all";
    reset.addEventListener("click", () => all("[data-filter=" + table.id + "]").forEach((input) => { input.value = ""; filter(input); input.focus(); }));
    notice.append("No line contains all of these words. ", reset);
    place.after(notice);
  }
  all("[data-filter]").forEach((input) => {
    input.addEventListener("input", () => filter(input));
    input.form && input.addEventListener("keydown", (event) => {
      if (event.key === "Enter") event.preventDefault();
    });
    const text = state.get(input.dataset.filter + ".filter");
    if (text) { input.value = text; filter(input); }
  });

  /* Links to a part of this list change only the # of the address. */
  addEventListener("hashchange", () => {
    const parameters = new URLSearchParams(location.hash.slice(1));
    all("[data-filter]").forEach((input) => {
      const name = input.dataset.filter + ".filter";
      if (location.hash && !/=/.test(location.hash)) return;
      input.value = parameters.get(name) || "";
      filter(input);
    });
  });

  /* Groups of rows are opened and closed. */
  function fold(button, open) {
    button.setAttribute("aria-expanded", String(open));
    closeDots(button.closest("tbody"));
    all(".member", button.closest("tbody")).forEach((row) => ["open", "asked"].forEach((name) => row.classList.toggle(name, open)));
  }
  all(".fold").forEach((button) => button.addEventListener("click", () => fold(button, button.getAttribute("aria-expanded") !== "true")));

  /* On narrow screens, lines of wide tables are cards with named figures. */
  all("table.forest").forEach((table) => {
    const names = all("thead th", table).map((head) => (head.matches(".num") ? head.textContent.trim() : ""));
    all("tbody tr", table).forEach((row) => names.forEach((name, at) => {
      if (name && row.cells[at] && row.cells[at].colSpan === 1 && row.cells[at].textContent.trim()) row.cells[at].dataset.label = row.cells[at].dataset.label || name;
    }));
  });

  const readingOf = (links, r, p) => (typeof links === "string" ? links.replace("{r}", r).replace("{p}", p) : links[r][p]);

  /* One dot for each problem of a row: a mean hides two camps */
  const dots = byId("dots-data") && JSON.parse(byId("dots-data").textContent);
  function dotsOf(row) {
    const values = dots.rows[row], box = document.createElement("div"), seen = {};
    const element = (place, name, attributes, text) => {
      const made = document.createElementNS("http://www.w3.org/2000/svg", name);
      Object.entries(attributes).forEach(([key, value]) => made.setAttribute(key, value));
      if (text !== undefined) made.textContent = text;
      return place.appendChild(made);
    };
    const at = (value) => (2 + 96 * (value / dots.most + 1) / 2).toFixed(2) + "%";
    const signed = (value) => (value < 0 ? "−" : "+") + Math.abs(value).toFixed(2);
    const order = values.map((value, p) => p).filter((p) => values[p] !== null).sort((a, b) => values[a] - values[b]);
    const linkOf = (p) => readingOf(dots.links, row, p);
    const svg = element(box, "svg", { class: "dots", "aria-hidden": "true" });
    [-1, -0.5, 0, 0.5, 1].forEach((part) => {
      element(svg, "line", { class: part ? "tick" : "tick zero", x1: at(part * dots.most), x2: at(part * dots.most), y1: 0, y2: "100%" });
      element(svg, "text", { x: at(part * dots.most), y: 11, "text-anchor": "middle" }, signed(part * dots.most));
    });
    let most = 0;
    const marks = order.map((p) => [p, parseFloat(at(values[p]))]).map(([p, x]) => [p, x, (seen[Math.round(x)] = (seen[Math.round(x)] || 0) + 1)]);
    marks.forEach((mark) => { most = Math.max(most, mark[2]); });
    const step = Math.min(7, 110 / most), high = 24 + step * most;
    svg.style.height = high + "px";
    marks.forEach(([p, x, level]) => {
      const link = linkOf(p), place = link ? element(svg, "a", { href: link, tabindex: -1 }) : svg;
      element(element(place, "circle", { cx: x + "%", cy: high - step * (level - 0.5), r: 3 }), "title", {}, dots.problems[p] + ": " + signed(values[p]));
    });
    const ends = document.createElement("p");
    ends.className = "note";
    [["lowest", order[0]], ["highest", order[order.length - 1]]].forEach(([word, p]) => {
      const name = document.createElement(linkOf(p) ? "a" : "span");
      if (linkOf(p)) name.href = linkOf(p);
      name.textContent = dots.problems[p];
      ends.append(word + ": ", name, " " + signed(values[p]) + " · ");
    });
    ends.append(order.length + (order.length === 1 ? " problem" : " problems") + ", one dot each");
    box.append(ends);
    return box;
  }
  function closeDots(within) { all(".dots-of[aria-expanded=true]", within).forEach((button) => button.click()); }
  if (dots && byId("dots")) byId("dots").append(dotsOf(0));
  if (dots) all("tr[data-row]").filter((row) => dots.rows[row.dataset.row].some((value) => value !== null)).forEach((row) => {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "dots-of copy";
    button.textContent = "problems";
    button.setAttribute("aria-expanded", "false");
    button.addEventListener("click", () => {
      const open = button.getAttribute("aria-expanded") === "false";
      button.setAttribute("aria-expanded", String(open));
      if (!open) return row.nextElementSibling.remove();
      const line = document.createElement("tr"), cell = document.createElement("td");
      line.className = "dots-row";
      cell.colSpan = row.cells.length;
      cell.append(dotsOf(row.dataset.row));
      line.append(cell);
      return row.after(line);
    });
    row.cells[0].append(" ", button);
  });

  /* The map: a picture whose fields are named, opened and enlarged */
  const map = byId("map");
  if (map) drawMap();
  function drawMap() {
    const data = JSON.parse(byId("map-data").textContent), pen = map.getContext("2d");
    const whole = { p: 0, r: 0, ps: data.problems.length, rs: data.rows.length };
    const top_ = byId("map-top"), side = byId("map-side");
    let view = whole, at = null, from = null, wide = 0, high = 0;
    const shades = () => all(".swatches i").map((shade) => getComputedStyle(shade).backgroundColor);
    const IMPUTED = 2, FAILED = 4, DOUBT = 8;
    function paint() {
      const room = map.closest("main").clientWidth - 32 - side.offsetWidth;
      wide = Math.max(4, Math.min(88, Math.floor(room / view.rs)));
      high = Math.max(view.ps > 200 ? 3 : 8, Math.min(26, Math.floor(736 / view.ps)));
      const scale = devicePixelRatio || 1;
      map.width = wide * view.rs * scale;
      map.height = high * view.ps * scale;
      map.style.width = wide * view.rs + "px";
      map.style.height = high * view.ps + "px";
      pen.scale(scale, scale);
      const colour = (sign) => getComputedStyle(document.querySelector(sign)).color;
      const colours = shades(), ink = getComputedStyle(map).color, bad = colour(".swatch.failed"), soft = colour(".swatch.not-run");
      const gap = wide > 10 ? 1 : 0;
      pen.font = "11px system-ui, sans-serif";
      pen.textAlign = "center";
      pen.textBaseline = "middle";
      for (let p = 0; p < view.ps; p++) for (let r = 0; r < view.rs; r++) {
        const value = data.fields[view.p + p][view.r + r], state = data.states[view.p + p][view.r + r], x = r * wide, y = p * high;
        pen.strokeStyle = bad;
        pen.lineWidth = 1.5;
        if (!state) {
          pen.fillStyle = soft;
          pen.fillRect(x + wide / 2 - 1, y + high / 2 - 1, 2, 2);
          continue;
        }
        if (state & FAILED) {
          pen.beginPath();
          pen.moveTo(x + 1, y + high - 1); pen.lineTo(x + wide - 1, y + 1);
          pen.moveTo(x + 1, y + 1); pen.lineTo(x + wide - 1, y + high - 1);
          pen.stroke();
          continue;
        }
        const shade = 4 + Math.max(-4, Math.min(4, Math.round(4 * value / data.most)));
        pen.fillStyle = colours[shade];
        pen.fillRect(x, y, wide - gap, high - gap);
        if (state & IMPUTED) {
          pen.save();
          pen.beginPath(); pen.rect(x, y, wide - gap, high - gap); pen.clip();
          pen.strokeStyle = ink;
          pen.globalAlpha = 0.35;
          pen.beginPath();
          for (let start = x - high; start < x + wide; start += 7) { pen.moveTo(start, y + high); pen.lineTo(start + high, y); }
          pen.stroke();
          pen.restore();
        }
        if (state & DOUBT) { pen.strokeStyle = ink; pen.lineWidth = gap ? 2 : 1; pen.strokeRect(x + 1, y + 1, wide - gap - 2, high - gap - 2); }
        if (wide >= 34 && high >= 14) {
          const [red, green, blue] = colours[shade].match(/[\d.]+/g).map(Number);
          pen.fillStyle = red * 0.299 + green * 0.587 + blue * 0.114 > 140 ? "#000" : "#fff";
          pen.fillText((value < 0 ? "−" : "+") + (Math.abs(value) / 100).toFixed(1), x + wide / 2, y + high / 2);
        }
      }
      if (at) { pen.strokeStyle = ink; pen.lineWidth = 2; pen.strokeRect((at.r - view.r) * wide + 0.5, (at.p - view.p) * high + 0.5, wide, high); }
      byId("whole").hidden = view === whole;
      showNames();
    }
    /* Names are text next to the picture: every row up to 40, and every problem that has room. */
    function showNames() {
      const put = (place, text, css, kind) => {
        const name = document.createElement(kind);
        name.textContent = name.title = text;
        Object.assign(name.style, css);
        place.append(name);
        return name;
      };
      top_.replaceChildren();
      side.replaceChildren();
      top_.classList.toggle("named", view.rs <= 40);
      side.style.height = high * view.ps + "px";
      let start = -view.r;
      for (const [name, count] of data.bands) {
        const from = Math.max(0, start), to = Math.min(view.rs, start += count);
        if (from < to) put(top_, name, { left: from * wide + "px", width: (to - from) * wide - 2 + "px" }, "b");
      }
      for (let r = 0; r < view.rs && view.rs <= 40; r++) put(top_, data.rows[view.r + r], { left: (r + 0.5) * wide + "px" }, "span");
      for (let p = 0; p < view.ps; p += Math.ceil(24 / high)) {
        const link = byId("list-0").children[view.p + p].querySelector("a");
        const name = put(side, link ? "" : data.problems[view.p + p], { top: (p + 0.5) * high + "px" }, "span");
        if (link) name.append(link.cloneNode(true));
      }
    }
    const linkAt = ({ p, r }) => readingOf(data.links, data.numbers[1][r], data.numbers[0][p]);
    function say() {
      const value = data.fields[at.p][at.r], state = data.states[at.p][at.r];
      const text = state & FAILED ? "failed" : !state ? "not run" : "ASD " + (value < 0 ? "−" : "+") + (Math.abs(value) / 100).toFixed(2) + (state & IMPUTED ? ", imputed" : "") + (state & DOUBT ? ", flagged" : "");
      byId("field").textContent = data.problems[at.p] + " under " + data.rows[at.r] + ": " + text;
    }
    function field(event) {
      const box = map.getBoundingClientRect();
      const in_ = (value, most) => Math.max(0, Math.min(most - 1, value));
      return { p: view.p + in_(Math.floor((event.clientY - box.top) / high), view.ps), r: view.r + in_(Math.floor((event.clientX - box.left) / wide), view.rs) };
    }
    const choose = (to) => { at = to; say(); paint(); };
    const open = () => { const link = at && linkAt(at); if (link) location.assign(link); };
    const show = (to) => { view = to; paint(); };
    map.addEventListener("pointermove", (event) => {
      choose(field(event));
      if (!from) return;
      pen.strokeStyle = getComputedStyle(map).color;
      pen.setLineDash([4, 3]);
      pen.strokeRect((Math.min(from.r, at.r) - view.r) * wide, (Math.min(from.p, at.p) - view.p) * high, (Math.abs(from.r - at.r) + 1) * wide, (Math.abs(from.p - at.p) + 1) * high);
      pen.setLineDash([]);
    });
    map.addEventListener("pointerdown", (event) => { from = field(event); });
    map.addEventListener("pointerup", (event) => {
      const start = from, to = field(event);
      from = null;
      if (!start) return;
      if (start.p === to.p && start.r === to.r) { at = to; open(); return; }
      show({ p: Math.min(start.p, to.p), r: Math.min(start.r, to.r), ps: Math.abs(start.p - to.p) + 1, rs: Math.abs(start.r - to.r) + 1 });
    });
    map.addEventListener("keydown", (event) => {
      const by = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0], h: [0, -1], l: [0, 1], k: [-1, 0], j: [1, 0] }[event.key];
      if (by) choose({ p: Math.max(view.p, Math.min(view.p + view.ps - 1, (at ? at.p : view.p) + (at ? by[0] : 0))), r: Math.max(view.r, Math.min(view.r + view.rs - 1, (at ? at.r : view.r) + (at ? by[1] : 0))) });
      else if (event.key === "Enter") open();
      else if (event.key === "Escape") show(whole);
      else return;
      event.preventDefault();
      event.stopPropagation();
    });
    byId("whole").addEventListener("click", () => show(whole));
    addEventListener("resize", paint);
    byId("theme").addEventListener("click", paint);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", paint);
    paint();
  }

  /* Search in a site: its texts are in files that load with the first search */
  const search = byId("search");
  if (search && search.dataset.parts) {
    const parts = [], count = Number(search.dataset.parts);
    let query = "";
    window.searched = async (number, lines) => { parts[number] = JSON.parse(await unpacked(lines)); showHits(); };
    const load = () => {
      if (document.querySelector("script[src^=texts]")) return;
      for (let n = 0; n < count; n++) {
        const script = document.createElement("script");
        script.src = "texts-" + n + ".js";
        document.head.append(script);
      }
    };
    const plain = (text) => text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
    function showHits() {
      const words = (query.match(/"[^"]*"|\S+/g) || []).map((word) => word.replace(/"/g, "")).filter(Boolean);
      if (!words.length) return;
      const loaded = parts.filter(Boolean).length;
      const tests = words.map((word) => new RegExp("(^|[^\\p{L}\\p{N}])" + plain(word.replace(/\*$/, "")) + (word.endsWith("*") ? "" : "(?![\\p{L}\\p{N}])"), "iu"));
      const hits = parts.flat().filter((line) => tests.every((test) => test.test(line[2])));
      byId("found").textContent = loaded < count ? "Loading …" : hits.length + (hits.length === 1 ? " text of this site matches." : " texts of this site match.") + (hits.length > 200 ? " The first 200 are listed." : "");
      byId("hits").replaceChildren(...hits.slice(0, 200).map(([link, where, text]) => {
        const line = document.createElement("li"), to = document.createElement("a"), excerpt = document.createElement("p");
        to.href = link;
        to.textContent = where;
        to.dataset.item = "";
        const first = tests[0].exec(text), at = first.index + first[1].length, end = first.index + first[0].length;
        const mark = document.createElement("mark");
        mark.textContent = text.slice(at, end);
        excerpt.className = "text";
        excerpt.append((at > 60 ? "…" : "") + text.slice(Math.max(0, at - 60), at), mark, text.slice(end, end + 80) + (text.length > end + 80 ? "…" : ""));
        line.append(to, excerpt);
        return line;
      }));
    }
    const go = () => { query = search.elements.q.value; remember("q", query); load(); showHits(); };
    search.addEventListener("submit", (event) => { event.preventDefault(); go(); });
    if (state.get("q")) { search.elements.q.value = state.get("q"); go(); }
  }

  /* One world at a time on narrow screens */
  all(".reading").forEach((reading) => {
    const worlds = all(".world-tab", reading);
    const choose = (label) => {
      reading.dataset.world = label;
      worlds.forEach((tab) => tab.setAttribute("aria-pressed", String(tab.value === label)));
      all("[data-w]", reading).forEach((element) => { element.classList.toggle("other-world", element.dataset.w !== label); });
    };
    worlds.forEach((tab) => tab.addEventListener("click", () => choose(tab.value)));
    const target = location.hash && reading.querySelector("#" + CSS.escape(location.hash.slice(1)) + "[data-w]");
    if (worlds.length) choose(target ? target.dataset.w : worlds[0].value);
  });

  /* The shown lines of a table, as CSV without formulas, or as LaTeX */
  const LATEX = { "\\": "\\textbackslash{}", "~": "\\textasciitilde{}", "^": "\\textasciicircum{}", "→": "$\\to$", "−": "$-$", "±": "$\\pm$", "<": "\\textless{}", ">": "\\textgreater{}", "|": "\\textbar{}" };
  function tableOf(table, format) {
    const cells = (row) => Array.from(row.cells).filter((cell) => !cell.matches(".plot")).map((cell) => cell.textContent.replace(/\s+/g, " ").trim());
    const lines = [...all("thead tr", table), ...all("tbody tr", table).filter((row) => row.offsetParent)].map(cells);
    const plain = (cell) => cell.replace(/−/g, "-"), number = (cell) => /^[-+]?[\d.,]+%?$/.test(cell);
    const quoted = (cell) => '"' + (/^[=+\-@]/.test(cell) && !number(cell) ? "'" : "") + cell.replace(/"/g, '""') + '"';
    if (format === "CSV") return lines.map((line) => line.map((cell) => quoted(plain(cell))).join(",")).join("\n") + "\n";
    const escaped = (cell) => cell.replace(/[\\{}&%$#_~^→−±<>|]/g, (sign) => LATEX[sign] || "\\" + sign);
    const [head, ...body] = lines.map((line) => line.map(escaped).join(" & ") + " \\\\");
    const columns = all("thead th:not(.plot)", table).map((th) => (th.matches(".num") ? "r" : "l")).join("");
    return ["\\begin{tabular}{" + columns + "}", "\\toprule", head, "\\midrule", ...body, "\\bottomrule", "\\end{tabular}"].join("\n") + "\n";
  }
  all("table.list").forEach((table) => {
    const bar = document.createElement("p");
    bar.className = "files";
    ["CSV", "LaTeX"].forEach((format) => {
      const button = document.createElement("button");
      button.type = "button";
      button.className = "copy";
      button.textContent = "copy as " + format;
      button.dataset.table = format;
      button.made = () => tableOf(table, format);
      bar.append(button);
    });
    table.closest(".scroll").after(bar);
  });

  /* Copy a table, a turn, a command, or a whole reading */
  const textOf = (article) => all(".text", article).map((part) => part.textContent).join("\n\n");
  function markdownOf(reading) {
    const line = (element) => element.textContent.replace(/\s+/g, " ").trim();
    const parts = ["# " + line(reading.querySelector("h1")), textOf(reading.querySelector(".question")), line(reading.querySelector(".verdict"))];
    parts.push(all(".world-head", reading).map((head) => "- " + line(head)).join("\n"));
    all("article.turn", reading).forEach((turn) => {
      const world = turn.dataset.w ? " (world " + turn.dataset.w + ")" : "";
      const names = all("header > :is(.who, .side, .tag, .probs, .belief .figure)", turn).map(line).join(" · ");
      parts.push("## " + names + world, textOf(turn));
    });
    return parts.filter(Boolean).join("\n\n") + "\n";
  }
  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-copy], [data-markdown], [data-table]");
    if (!button) return;
    const name = button.textContent, reading = button.matches("[data-markdown]") && button.closest(".reading");
    const text = button.made ? button.made() : reading ? markdownOf(reading) : button.dataset.copy || textOf(button.closest("article"));
    const done = (word) => { button.textContent = word; setTimeout(() => { button.textContent = name; }, 1500); };
    if (navigator.clipboard) navigator.clipboard.writeText(text).then(() => done("copied"), () => done("not allowed"));
    else done("not allowed");
  });
  /* Words that differ, and raw text: switches that the browser remembers */
  const turn = {};
  ["diff", "verbatim"].forEach((name) => {
    const button = byId(name);
    if (!button) return;
    turn[name] = () => {
      const on = document.body.classList.toggle(name);
      button.setAttribute("aria-pressed", String(on));
      storage.set(name, on ? "1" : "");
      const notice = byId("no-diff");
      if (notice && name === "diff") notice.textContent = on && !document.querySelector(".differs") ? "No words differ between the worlds here." : "";
      return true;
    };
    button.addEventListener("click", turn[name]);
    if (storage.get(name)) turn[name]();
  });

  /* A note on the turn that has the focus, or on the whole transcript */
  const note = byId("note");
  function openNote() {
    const turn = document.activeElement.closest("article.turn[id]");
    note.querySelector("[name=turn]").value = turn ? turn.id.slice(turn.id.lastIndexOf("-") + 1) : "";
    const chosen = String(getSelection());
    if (chosen) { note.querySelector("textarea").value = chosen.slice(0, 2000); note.querySelector("select").value = "quote"; }
    note.showModal();
    note.querySelector("textarea").focus();
    return true;
  }
  if (note) {
    byId("add-note").addEventListener("click", openNote);
    byId("no-note").addEventListener("click", () => note.close());
  }

  /* Keys */
  const visible = (element) => element.offsetParent !== null && !element.closest("[hidden]");
  function step(selector, by) {
    const elements = all(selector).filter(visible);
    if (!elements.length) return false;
    const at = elements.indexOf(document.activeElement);
    const next = at < 0 ? (by > 0 ? 0 : elements.length - 1) : at + by;
    const to = elements[Math.max(0, Math.min(elements.length - 1, next))];
    to.focus();
    to.scrollIntoView({ block: "nearest" });
    return true;
  }
  const menu = document.querySelector(".views details");
  document.addEventListener("click", (event) => { if (menu && !menu.contains(event.target)) menu.open = false; });
  function follow(key) {
    const current = document.querySelector(".reading:target") || all(".reading")[0];
    const links = all("[data-key]").filter((link) => link.dataset.key === key);
    const link = links.find((a) => current && current.contains(a)) || links.filter(visible)[0];
    if (!link) return false;
    link.click();
    if (menu && menu.contains(link) && menu.open) all("a", menu)[0].focus();
    return true;
  }
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const typing = event.target.matches && event.target.matches("input:not([type=checkbox]), select, textarea");
    if (typing) {
      if (event.key === "Escape") event.target.blur();
      return;
    }
    if (help.open || (note && note.open)) return;
    if (event.key === "Escape" && menu && menu.open) { menu.open = false; menu.firstElementChild.focus(); }
    const done = {
      "?": () => { help.showModal(); return true; },
      x: () => { turnTheme(); return true; },
      d: () => turn.diff && turn.diff(),
      n: () => note && openNote(),
      v: () => turn.verbatim && turn.verbatim(),
      "/": () => { const input = all("[data-filter]").filter(visible)[0] || all("#search input, .find input").filter(visible)[0]; if (input) input.focus(); return !!input; },
      j: () => follow("j") || step("[data-item]", 1),
      k: () => follow("k") || step("[data-item]", -1),
      h: () => follow("h"),
      l: () => follow("l"),
      t: () => step(".turn", 1),
      T: () => step(".turn", -1),
      b: () => step(".moved", 1),
    }[event.key];
    if (done ? done() : follow(event.key)) event.preventDefault();
  });

  /* Live */
  const live = byId("live");
  if (live) watch();
  function watch() {
    const events = new EventSource(live.dataset.events);
    events.onmessage = (event) => {
      const now = JSON.parse(event.data);
      if (byId("state").textContent !== now.state) byId("state").textContent = now.state;
      live.dataset.state = now.mode;
      byId("done").value = now.finished;
      all("[data-live]").forEach((place) => { place.textContent = now[place.dataset.live]; });
      byId("limits").textContent = now.limits;
      byId("limits").parentElement.hidden = !now.limits;
      byId("nothing").textContent = now.note;
      if (now.state === "running") return;
      events.close();
      byId("ended").hidden = false;
    };
    events.onerror = () => { byId("state").textContent = "connection lost: retrying"; };
  }
})();
