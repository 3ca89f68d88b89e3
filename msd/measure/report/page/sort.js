for (const head of document.querySelectorAll("th")) head.addEventListener("click", () => {
  const body = head.closest("table").tBodies[0], column = head.cellIndex;
  const value = row => row.cells[column].dataset.value ?? row.cells[column].textContent;
  const order = head.dataset.order = head.dataset.order === "up" ? "down" : "up";
  const rows = [...body.rows].sort((a, b) => value(a).localeCompare(value(b), undefined, { numeric: true }));
  body.append(...(order === "up" ? rows : rows.reverse()));
});
