for (const chart of document.querySelectorAll(".chart")) {
  const svg = chart.querySelector("svg"), says = chart.querySelector(".says"), hint = says.textContent;
  const whole = svg.getAttribute("viewBox"), tall = svg.viewBox.baseVal.height;
  const show = (x, width) => svg.setAttribute("viewBox", `${x} 0 ${width} ${tall}`);
  svg.addEventListener("mouseover", event => { says.textContent = event.target.querySelector("title")?.textContent ?? hint; });
  svg.addEventListener("click", event => {
    const bar = event.target.closest("rect");
    if (bar) show(+bar.getAttribute("x"), +bar.getAttribute("width")); else svg.setAttribute("viewBox", whole);
  });
  svg.addEventListener("dblclick", () => svg.setAttribute("viewBox", whole));
  svg.addEventListener("wheel", event => {
    event.preventDefault();
    const view = svg.viewBox.baseVal, box = svg.getBoundingClientRect(), most = +whole.split(" ")[2];
    const at = view.x + view.width * (event.clientX - box.left) / box.width;
    const width = Math.min(most, view.width * (event.deltaY > 0 ? 1.25 : 0.8));
    show(Math.min(Math.max(0, at - (at - view.x) * width / view.width), most - width), width);
  }, { passive: false });
}
