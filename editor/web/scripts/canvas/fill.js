// Fills what is enclosed: every pixel that is not painted and that no path over such pixels joins to the border.
export function fillHoles(alpha, width, height) {
  const outside = new Uint8Array(width * height);
  const spans = [];
  const visit = (x, y) => {
    const at = y * width + x;
    if (alpha[at] || outside[at]) return;
    let [left, right] = [x, x];
    while (left > 0 && !alpha[at - x + left - 1] && !outside[at - x + left - 1]) left--;
    while (right < width - 1 && !alpha[at - x + right + 1] && !outside[at - x + right + 1]) right++;
    outside.fill(1, y * width + left, y * width + right + 1);
    spans.push([y, left, right]);
  };
  for (let x = 0; x < width; x++) { visit(x, 0); visit(x, height - 1); }
  for (let y = 0; y < height; y++) { visit(0, y); visit(width - 1, y); }
  while (spans.length) {
    const [y, left, right] = spans.pop();
    for (let x = left; x <= right; x++) {
      if (y > 0) visit(x, y - 1);
      if (y < height - 1) visit(x, y + 1);
    }
  }
  for (let i = 0; i < alpha.length; i++) if (!alpha[i] && !outside[i]) alpha[i] = 255;
}
