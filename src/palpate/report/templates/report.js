// Draws the charts in place of their still images, and opens what is folded before printing.
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

  async function draw(chart) {
    const spec = JSON.parse(chart.nextElementSibling.textContent);
    const host = document.createElement("div");
    host.className = "live";
    const still = [...chart.childNodes];
    chart.append(host);
    for (const node of still) if (node.style) node.style.display = "none";
    try {
      await window.vegaEmbed(host, spec, options);
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

  let folded = [];
  window.addEventListener("beforeprint", () => {
    folded = [...document.querySelectorAll("details:not([open])")];
    for (const part of folded) part.open = true;
  });
  window.addEventListener("afterprint", () => {
    for (const part of folded) part.open = false;
  });

  drawAll();
})();
