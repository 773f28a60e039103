// Each fault is found, in a file that is otherwise right.
import { spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { after, test } from "node:test";
import assert from "node:assert/strict";

const PROGRAM = join(import.meta.dirname ?? dirname(new URL(import.meta.url).pathname), "check.mjs");
const folder = mkdtempSync(join(tmpdir(), "workflows-"));
after(() => rmSync(folder, { recursive: true }));

const WORKFLOW = `name: Evaluate
on:
  pull_request:
  schedule:
    - cron: "0 3 * * *"
jobs:
  evaluate:
    runs-on: ubuntu-latest
    steps:
      - uses: actions/checkout@v7
      - uses: ./
        with:
          suite: agent.yaml
      - uses: holodeck-action/holodeck-action/runner@v1
        with:
          suite: \${{ github.event_name }}
  ci:
    uses: ./.github/workflows/ci.yml
`;
const ACTION = `name: Evaluate an agent
description: Evaluates.
branding:
  icon: check-circle
  color: purple
inputs:
  suite:
    description: Suites.
outputs:
  verdict:
    description: The verdict.
runs:
  using: docker
  image: Dockerfile
  args: ["\${{ inputs.suite }}"]
`;

function check(name, text) {
  const file = join(folder, name);
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, text);
  return spawnSync(process.execPath, [PROGRAM, file], { cwd: folder, encoding: "utf8" });
}

for (const [name, text] of [["evaluate.yml", WORKFLOW], ["action.yml", ACTION]]) {
  test(`${name} is right`, () => {
    const { status, stdout } = check(name, text);
    assert.equal(stdout, "1 files checked, 0 findings\n");
    assert.equal(status, 0);
  });
}

for (const [name, text, from, to, says] of [
  ["key.yml", WORKFLOW, "runs-on", "run-on", /:8:5: Unexpected value 'run-on'/],
  ["event.yml", WORKFLOW, "pull_request", "pull_requests", /:3:3: Unexpected value 'pull_requests'/],
  ["schedule.yml", WORKFLOW, "0 3 * * *", "0 25 * * *", /:5:13: Invalid cron/],
  ["context.yml", WORKFLOW, "github.event_name", "githb.event_name", /:16:18: Unrecognized named-value: 'githb'/],
  ["field.yml", WORKFLOW, "github.event_name", "github.event_nam", /:16:18: Context access might be invalid: event_nam/],
  ["local.yml", WORKFLOW, "suite: agent.yaml", "suit: agent.yaml", /:13:11: Invalid action input 'suit'/],
  ["published.yml", WORKFLOW, "suite: $", "suit: $", /:16:11: Invalid action input 'suit'/],
  ["called.yml", WORKFLOW, "workflows/ci.yml", "workflows/cx.yml", /:18:11: Unable to find reusable workflow/],
  ["key/action.yml", ACTION, "outputs", "output", /:9:1: Unexpected value 'output'/],
  ["missing/action.yml", ACTION, "description: Evaluates.\n", "", /: Required property is missing: description/],
  ["colour/action.yml", ACTION, "color: purple", "color: violet", /:5:10: .*violet/],
  ["runs/action.yml", ACTION, "docker", "dockr", /:13:10: .*dockr/],
]) {
  test(`${name} is wrong`, () => {
    assert.ok(text.includes(from));
    const { status, stdout } = check(name, text.replace(from, to));
    assert.match(stdout, says);
    assert.equal(status, 1);
  });
}
