// Counts checks and says how they went: a line a check, and at the end
// "N passed, M failed".
let passed = 0;
let failed = 0;

// check runs one check; throwing fails it and the others go on.
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

// finish prints the sum and ends the process: 1 when a check failed.
export function finish() {
  console.log(`${passed} passed, ${failed} failed`);
  process.exit(failed ? 1 : 0);
}
