"use strict";
(function () {
  const all = (selector, within) => Array.from((within || document).querySelectorAll(selector));
  const byId = (id) => document.getElementById(id);

  /* Raters: sliders, which nothing fills in but the rater */
  all(".percents").forEach((group) => {
    const sliders = all(".slide", group);
    const numbers = sliders.map((slider) => byId(slider.dataset.for));
    function mark(at) {
      const slider = sliders[at], set = numbers[at].value !== "";
      slider.classList.toggle("untouched", !set);
      slider.setAttribute("aria-valuetext", set ? numbers[at].value + "%" : "not set");
      if (set) slider.value = numbers[at].value;
    }
    function put(at, slid) {
      const typed = Number(numbers[at].value), tiny = !slid && typed > 0 && typed <= 1;
      if (numbers.length === 2 && numbers[at].value !== "" && !tiny) {
        numbers[1 - at].value = String(Math.round((100 - Number(numbers[at].value)) * 1e6) / 1e6);
      } else if (numbers.length === 2 && tiny) numbers[1 - at].value = "";
      numbers.forEach((number, each) => mark(each));
      const sum = numbers.reduce((so, number) => so + Number(number.value), 0);
      const whole = numbers.every((number) => number.value !== "");
      const parts = "Write percentages: 70 for 0.7.";
      byId("sum").textContent = tiny ? parts : numbers.length > 2 ? "In all: " + Math.round(sum * 100) / 100 + "%" : "";
      const amiss = Math.abs(sum - 1) < 0.005 ? parts : "The percentages add up to " + sum + ", not to 100.";
      numbers[0].setCustomValidity(whole && Math.abs(sum - 100) > 0.5 ? amiss : "");
    }
    sliders.forEach((slider, at) => {
      slider.hidden = false;
      // A click where the thumb already stands moves nothing, and is meant all the same.
      ["input", "click"].forEach((moved) => slider.addEventListener(moved, () => { numbers[at].value = slider.value; put(at, true); }));
      numbers[at].addEventListener("input", () => put(at));
    });
    put(0);
    group.addEventListener("restored", () => put(0, true));
  });
  const written = byId("words");
  if (written) byId("text").addEventListener("input", (event) => {
    written.textContent = String(event.target.value.split(/\s+/).filter(Boolean).length);
  });

  /* Drafts: what is typed stays in this browser until it is saved, whatever happens to the page */
  const task = byId("task"), draft = task && "draft " + task.elements.ticket.value + " " + task.getAttribute("action");
  const inStorage = (act) => { try { return act(window.localStorage); } catch (refused) { return null; } };
  if (task) {
    const fields = () => Array.from(task.elements).filter((each) => each.name && each.type !== "hidden");
    const before = JSON.parse(inStorage((all) => all.getItem(draft)) || "{}");
    const isSet = (each) => each.type === "radio" || each.type === "checkbox" ? each.checked : each.value !== "";
    if (!fields().some(isSet)) fields().forEach((each) => {
      if (!(each.name in before)) return;
      if (each.type === "radio") each.checked = before[each.name] === each.value;
      else if (each.type !== "checkbox") each.value = before[each.name];
    });
    all(".percents", task).forEach((group) => group.dispatchEvent(new Event("restored")));
    const keep = () => {
      const now = {};
      fields().filter(isSet).forEach((each) => { now[each.name] = each.value; });
      inStorage((all) => all.setItem(draft, JSON.stringify(now)));
    };
    task.addEventListener("input", keep);
    task.addEventListener("click", keep);
  }

  /* An answer is sent until it is saved: the server may be away for a while. */
  all("form[data-keep]").forEach((form) => {
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      if (form.dataset.sending) return;
      form.dataset.sending = "1";
      all("button", form).forEach((button) => { button.disabled = true; });
      const body = new URLSearchParams(new FormData(form));
      const told = byId("sending");
      function again(why) {
        told.textContent = why;
        setTimeout(send, 2000);
      }
      function send() {
        fetch(form.action, { method: "POST", body: body, headers: { "X-Script": "1" } }).then((answer) => {
          if (answer.ok) {
            inStorage((all) => all.removeItem(draft));
            answer.text().then((next) => location.assign(next));
          }
          else if (answer.status === 503) again("The study is just being resumed. Your answer is sent as soon as it is.");
          else form.submit();
        }, () => again("No connection. Your answer is kept on this page, and sent as soon as there is one."));
      }
      told.textContent = "Saving …";
      send();
    });
  });
  const waiting = byId("waiting");
  if (waiting) {
    const events = new EventSource(waiting.dataset.events);
    events.onmessage = () => { events.close(); location.assign("/"); };
  }
  if (byId("fault")) byId("fault").focus();
})();
