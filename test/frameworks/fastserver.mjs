// A tool server on fastmcp, on the port in its argument.
import { FastMCP } from 'fastmcp';
import { z } from 'zod';

const server = new FastMCP({ name: 'fast', version: '1.0.0' });
server.addTool({
  name: 'join',
  description: 'Join words.',
  parameters: z.object({ words: z.array(z.string()), by: z.string().optional() }),
  execute: async ({ words, by }) => words.join(by ?? ' '),
});
server.addTool({
  name: 'refuse',
  description: 'Fail always.',
  parameters: z.object({}),
  execute: async () => { throw new Error('this tool fails'); },
});
server.addTool({
  name: 'ask',
  description: 'Ask the user, on the standalone stream of the session.',
  parameters: z.object({}),
  execute: async (_, { elicit }) => (await elicit({ message: 'go on?', requestedSchema: { type: 'object', properties: { ok: { type: 'boolean' } } } })).action,
});
await server.start({ transportType: 'httpStream', httpStream: { port: Number(process.argv[2]), host: '127.0.0.1' } });
