// Where planted credentials were read, and where they appeared.

function canaries(review) {
  const place = document.createDocumentFragment();
  const read = review.of("canary.read");
  const sent = review.of("canary.sent");
  if (!read.length && !sent.length) {
    const planted = get(review.whole.request, "canaries") === true;
    return none(planted ? "They were planted; none was seen to be read, and none was found in what the target gave away." : "None were planted in this run.");
  }
  if (read.length)
    place.append(table("Read", [
      ["Credential", (row) => code(get(row.detail, "canary"))],
      ["Step", (row) => plain(row.step)],
      ["Path", (row) => code(get(row.detail, "path"))],
      ["Times", (row) => count(get(row.detail, "count") ?? 1), "number"],
      ["By", (row) => shown([get(row.detail, "program"), get(row.detail, "process") ? `process ${get(row.detail, "process")}` : ""].filter((part) => !empty(part)).join(", "))],
    ], read));
  if (sent.length)
    place.append(table("Found in what the target gave away", [
      ["Credential", (row) => code(get(row.detail, "canary"))],
      ["Step", (row) => plain(row.step)],
      ["Where", (row) => shown(get(row.detail, "where"))],
      ["Written as", (row) => shown(`${get(row.detail, "encoding") ?? ""}${get(row.detail, "part") === true ? ", a piece of it" : ""}`)],
      ["Times", (row) => count(get(row.detail, "count") ?? 1), "number"],
      ["Place", (row) => code(["name", "names", "path", "port", "program"].map((name) => get(row.detail, name)).filter((part) => !empty(part)).join(" "))],
    ], sent));
  return place;
}
