// Runs checks and reports them: one line per check, and at the end "N passed, M failed".
let passed = 0;
let failed = 0;

// check runs one check; an exception fails it, and the other checks still run.
export async function check(name, run) {
  try {
    await run();
    passed++;
    console.log(`ok    ${name}`);
  } catch (err) {
    failed++;
    console.log(`FAIL  ${name}: ${err?.stack ?? err}`);
  }
}

export function expect(condition, message) {
  if (!condition) throw new Error(message);
}

export const failures = () => failed;

// finish prints the totals and ends the process, with exit code 1 when a check failed.
export function finish() {
  console.log(`${passed} passed, ${failed} failed`);
  process.exit(failed ? 1 : 0);
}
