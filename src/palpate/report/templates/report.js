// Draws the charts in place of their still images, and narrower for paper, so that their letters can be read there.
(() => {
  "use strict";
  const options = {
    mode: "vega-lite",
    renderer: "svg",
    actions: false,
    ast: true, // expressions are interpreted, so the page's policy need not allow eval
    defaultStyle: false,
    tooltip: { disableDefaultStyle: true, theme: "page" },
  };

  const drawn = []; // charts and their views

  async function draw(chart) {
    const spec = JSON.parse(chart.nextElementSibling.textContent);
    const host = document.createElement("div");
    host.className = "live";
    const still = [...chart.childNodes];
    chart.append(host);
    for (const node of still) if (node.style) node.style.display = "none";
    try {
      drawn.push([chart, (await window.vegaEmbed(host, spec, options)).view]);
      for (const node of still) node.remove();
      // The chart is one image with a description; Vega names each group of marks as an image without one.
      for (const mark of host.querySelectorAll("[role], [aria-roledescription]")) {
        for (const name of ["role", "aria-roledescription", "aria-label"]) mark.removeAttribute(name);
      }
    } catch (error) {
      host.remove();
      for (const node of still) if (node.style) node.style.display = "";
      console.error("A chart could not be drawn:", error);
    }
  }

  async function drawAll() {
    for (const chart of document.querySelectorAll("[data-chart]")) {
      await draw(chart);
      await new Promise((resume) => setTimeout(resume)); // lets the reader scroll in between
    }
    document.documentElement.dataset.charts = "drawn";
  }

  let heights = [];
  window.addEventListener("beforeprint", () => {
    heights = drawn.map(([, view]) => view.height());
    for (const [chart, view] of drawn) {
      const n = chart.closest(".panels").children.length;
      view.width(n === 1 ? 450 : n === 3 ? 300 : 225);
      if (chart.closest(".panels.line, .panels.scatter, .panels.histogram")) view.height(Math.min(view.height(), 190));
      view.run();
    }
  });
  window.addEventListener("afterprint", () => {
    heights.forEach((height, k) => drawn[k][1].width(drawn[k][0].clientWidth).height(height).run());
  });

  drawAll();
})();
