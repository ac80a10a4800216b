// Answers in place of the plugin: those in `answers`, by their paths. `asked` counts the questions. What is not there is
// not answered.
window.answers = ANSWERS;
window.asked = {};
window.session = { server: "https://cluster", namespace: "blue", version: "0", token: "00" };
window.fetch = (path) => {
  asked[path] = (asked[path] ?? 0) + 1;
  const answer = path === "/api/session" ? session : answers[path];
  if (answer === undefined) return new Promise(() => {});
  const status = { Forbidden: 403, NotFound: 404, Busy: 503 }[answer.problem?.reason] ?? (answer.problem ? 502 : 200);
  return Promise.resolve(new Response(JSON.stringify(answer), { status }));
};
location.hash = "#token=00";
