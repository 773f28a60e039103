module.exports = class {
  id() {
    return "greeter-agent";
  }
  async callApi(prompt) {
    if (prompt.includes("boom")) throw new Error("provider 500");
    if (prompt.includes("softly")) return { error: "API error: 500 provider down" };
    const output = process.env.WORSE && prompt.includes("hey") ? "no greeting" : "ok " + prompt;
    return { output, tokenUsage: { prompt: 10, completion: 5, total: 15 }, cost: 0.01 };
  }
};
