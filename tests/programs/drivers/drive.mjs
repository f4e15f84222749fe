// Drives the packages for Node.js: `drive.mjs PACKAGE COLUMN` prints what the package gave, as JSON.
import { createAnthropic } from "@ai-sdk/anthropic";
import { createOpenAI } from "@ai-sdk/openai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import Anthropic from "@anthropic-ai/sdk";
import { generateText, isStepCount, jsonSchema, Output, streamText, tool } from "ai";
import fs from "node:fs";
import OpenAI from "openai";
import { zodResponseFormat } from "openai/helpers/zod";
import { z } from "zod";

const { BATON_URL: url, BATON_ROOT: root, BATON_TOKEN: token, PROMPT_FILE: file } = process.env;
const model = "baton/auto";
const prompt = fs.readFileSync(file, "utf8");
const messages = [{ role: "user", content: prompt }];
const City = z.object({
  name: z.string(),
  people: z.number().int(),
  mayor: z.object({ name: z.string() }),
});
const strings = (name) => ({
  type: "object",
  properties: { [name]: { type: "string" } },
  required: [name],
});
const append = ({ word }) => {
  fs.appendFileSync("proof.txt", `${word}\n`);
  return "appended";
};

async function errorNames(ask) {
  const names = [];
  for (const [name, text] of [
    ["baton/nothing", "Hello"],
    [model, "All work and no play. ".repeat(6000)],
  ]) {
    try {
      await ask(name, text);
      names.push("");
    } catch (error) {
      names.push(error.constructor.name);
    }
  }
  return names;
}

async function all(pieces, text = (piece) => piece) {
  const found = [];
  for await (const piece of pieces) if (text(piece)) found.push(text(piece));
  return found;
}

function openai() {
  const client = new OpenAI({ baseURL: url, apiKey: token, maxRetries: 0 });
  const chat = client.chat.completions;
  const offered = (name, parameters, extra = {}) => ({
    type: "function",
    function: { name, parameters: strings(parameters), ...extra },
  });
  const ask = async (model, content) => {
    const messages = [{ role: "user", content }];
    return (await chat.create({ model, messages })).choices[0].message.content;
  };
  return {
    stream: async () =>
      all(await chat.create({ model, messages, stream: true }), (c) => c.choices[0]?.delta.content),
    tools: async () => {
      const tools = [offered("weather", "place")];
      const answer = await chat.create({ model, messages, tools, tool_choice: "required" });
      return JSON.parse(answer.choices[0].message.tool_calls[0].function.arguments);
    },
    structured: async () => {
      const response_format = zodResponseFormat(City, "city");
      const answer = await chat.parse({ model, messages, response_format });
      return answer.choices[0].message.parsed;
    },
    long: () => ask(model, prompt),
    error: () => errorNames(ask),
    loop: () => {
      const tools = [offered("append", "word", { function: append, parse: JSON.parse })];
      return chat.runTools({ model, messages, tools }).finalContent();
    },
  };
}

function anthropic() {
  const client = new Anthropic({ baseURL: root, apiKey: token, maxRetries: 0 });
  const max_tokens = 1000;
  const ask = async (model, content) => {
    const messages = [{ role: "user", content }];
    return (await client.messages.create({ model, max_tokens, messages })).content[0].text;
  };
  return {
    stream: () =>
      all(client.messages.stream({ model, max_tokens, messages }), (event) => event.delta?.text),
    tools: async () => {
      const tools = [{ name: "weather", input_schema: strings("place") }];
      const tool_choice = { type: "any" };
      const asked = { model, max_tokens, messages, tools, tool_choice };
      const answer = await client.messages.create(asked);
      return answer.content.find((block) => block.type === "tool_use").input;
    },
    structured: async () => {
      const schema = { ...z.toJSONSchema(City), $schema: undefined };
      const output_config = { format: { type: "json_schema", schema } };
      const answer = await client.messages.create({ model, max_tokens, messages, output_config });
      return City.parse(JSON.parse(answer.content[0].text));
    },
    long: () => ask(model, prompt),
    error: () => errorNames(ask),
    loop: async () => {
      const tools = [{ name: "append", input_schema: strings("word") }];
      const turns = [...messages];
      for (;;) {
        const asked = { model, max_tokens, tools, messages: turns };
        const answer = await client.messages.create(asked);
        const calls = answer.content.filter((block) => block.type === "tool_use");
        if (!calls.length) return answer.content[0].text;
        turns.push({ role: "assistant", content: answer.content });
        const content = calls.map((call) => ({
          type: "tool_result",
          tool_use_id: call.id,
          content: append(call.input),
        }));
        turns.push({ role: "user", content });
      }
    },
  };
}

function vercel(provider) {
  const asked = { prompt, maxRetries: 0 };
  const ask = async (name, prompt) =>
    (await generateText({ model: provider(name), prompt, maxRetries: 0 })).text;
  const offered = (name, execute) =>
    tool({ description: name, inputSchema: jsonSchema(strings(name)), execute });
  return {
    stream: () => all(streamText({ model: provider(model), ...asked }).textStream),
    tools: async () => {
      const tools = { weather: offered("place") };
      const toolChoice = "required";
      const given = await generateText({ model: provider(model), ...asked, tools, toolChoice });
      return given.toolCalls[0].input;
    },
    structured: async () => {
      const output = Output.object({ schema: City });
      return (await generateText({ model: provider(model), ...asked, output })).output;
    },
    long: () => ask(model, prompt),
    error: () => errorNames(ask),
    loop: async () => {
      const tools = { append: offered("word", append) };
      const stopWhen = isStepCount(6);
      return (await generateText({ model: provider(model), ...asked, tools, stopWhen })).text;
    },
  };
}

const packages = {
  openai,
  anthropic,
  "ai-openai-compatible": () =>
    vercel(
      createOpenAICompatible({
        name: "baton",
        baseURL: url,
        apiKey: token,
        supportsStructuredOutputs: true,
      }),
    ),
  "ai-openai": () => vercel(createOpenAI({ baseURL: url, apiKey: token })),
  "ai-anthropic": () => vercel(createAnthropic({ baseURL: `${root}/v1`, apiKey: token })),
};
const [, , name, column] = process.argv;
console.log(JSON.stringify(await packages[name]()[column]()));
