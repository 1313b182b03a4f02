// How each framework connects to an MCP server over HTTP, lists its tools and calls one. open
// returns {tools, call, close}: tools is a map from the name to the framework's description of
// the tool for a model; call returns the framework's result for the agent.
import { join } from 'node:path';

const described = (list, of) => Object.fromEntries(list.map((tool) => [tool.name, of(tool)]));

// asked answers the server's questions to the user; without it the client declares no elicitation.
export const aisdk = async (url, headers, asked) => {
  const { experimental_createMCPClient: create, ElicitationRequestSchema } = await import('@ai-sdk/mcp');
  const client = await create({ transport: { type: 'http', url, headers }, ...(asked && { capabilities: { elicitation: {} } }) });
  if (asked) client.onElicitationRequest(ElicitationRequestSchema, asked);
  const tools = await client.tools();
  return {
    tools: Object.fromEntries(Object.entries(tools).map(([name, t]) => [name, { description: t.description, schema: t.inputSchema?.jsonSchema }])),
    call: (name, args) => tools[name].execute(args, { toolCallId: '1', messages: [] }),
    close: () => client.close(),
  };
};

const langchain = async (url, headers) => {
  const { MultiServerMCPClient } = await import('@langchain/mcp-adapters');
  const client = new MultiServerMCPClient({ throwOnLoadError: true, mcpServers: { gateway: { transport: 'http', url, headers } } });
  const tools = await client.getTools();
  return {
    tools: described(tools, (t) => ({ description: t.description, schema: t.schema })),
    call: (name, args) => tools.find((t) => t.name === name).invoke(args),
    close: () => client.close(),
  };
};

const openai = async (url, headers) => {
  const { MCPServerStreamableHttp } = await import('@openai/agents');
  const server = new MCPServerStreamableHttp({ url, name: 'gateway', requestInit: { headers }, cacheToolsList: false });
  await server.connect();
  return {
    tools: described(await server.listTools(), (t) => ({ description: t.description, schema: t.inputSchema })),
    call: (name, args) => server.callTool(name, args),
    close: () => server.close(),
  };
};

const mastra = async (url, headers) => {
  const { MCPClient } = await import('@mastra/mcp');
  const client = new MCPClient({ id: url, servers: { gateway: { url: new URL(url), requestInit: { headers } } } });
  const tools = await (client.listTools ?? client.getTools).call(client);
  const named = Object.fromEntries(Object.entries(tools).map(([name, t]) => [name.replace(/^gateway_/, ''), t]));
  return {
    tools: Object.fromEntries(Object.entries(named).map(([name, t]) => [name, { description: t.description }])),
    call: (name, args) => named[name].execute({ context: args }),
    close: () => client.disconnect(),
  };
};

// mcp-remote is a stdio program in front of a server; the official client uses it.
const remote = async (url, headers) => {
  const { Client } = await import('@modelcontextprotocol/sdk/client/index.js');
  const { StdioClientTransport } = await import('@modelcontextprotocol/sdk/client/stdio.js');
  const client = new Client({ name: 'svc-check', version: '1.0.0' }, { capabilities: {} });
  await client.connect(new StdioClientTransport({
    command: process.execPath,
    args: [join(import.meta.dirname, 'node_modules/mcp-remote/dist/proxy.js'), url, '--allow-http', '--transport', 'http-only',
      ...Object.entries(headers).flatMap(([name, value]) => ['--header', `${name}: ${value}`])],
    stderr: 'ignore',
  }));
  return {
    tools: described((await client.listTools()).tools, ({ name, ...rest }) => rest),
    call: (name, args) => client.callTool({ name, arguments: args }),
    close: () => client.close(),
  };
};

const mcpuse = async (url, headers) => {
  const { MCPClient } = await import('mcp-use');
  const client = MCPClient.fromDict({ mcpServers: { gateway: { url, headers } } });
  const session = await client.createSession('gateway');
  const tools = await session.connector.listTools();
  return {
    tools: described(tools, ({ name, ...rest }) => rest),
    call: (name, args) => session.connector.callTool(name, args),
    close: () => client.closeAllSessions(),
  };
};

export const adapters = { 'AI SDK': aisdk, LangChain: langchain, 'OpenAI Agents': openai, 'mcp-remote': remote };

// These are not dependencies, because they need more than 800 MB; each is tested when it is
// named and installed beside them:
//   npm install --no-save @mastra/core@0.24.9 @mastra/mcp@0.14.5 mcp-use@1.34.6 langchain@1
export const more = { Mastra: mastra, 'mcp-use': mcpuse };
