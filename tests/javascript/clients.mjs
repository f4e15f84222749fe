// Uses Baton through the clients for JavaScript; prints what each of them got, as JSON.
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { generateText, streamText } from "ai";
import OpenAI from "openai";

const { BATON_URL: baseURL, BATON_TOKEN: apiKey } = process.env;
const client = new OpenAI({ baseURL, apiKey, maxRetries: 0 });
const messages = [{ role: "user", content: "Hello there" }];
const model = "baton/mini";
const seen = {};

const whole = await client.chat.completions.create({ model, messages });
seen.chat = whole.choices[0].message.content;

seen.chatStream = "";
for await (const chunk of await client.chat.completions.create({ model, messages, stream: true })) {
  seen.chatStream += chunk.choices[0]?.delta?.content ?? "";
}

seen.responses = (await client.responses.create({ model, input: "Hello there" })).output_text;

seen.responsesStream = "";
const events = await client.responses.create({ model, input: "Hello there", stream: true });
for await (const event of events) {
  if (event.type === "response.output_text.delta") seen.responsesStream += event.delta;
}

const parameters = { type: "object", properties: { place: { type: "string" } } };
const tools = [{ type: "function", function: { name: "weather", parameters } }];
const asked = [{ role: "user", content: "Call the tool" }];
const called = await client.chat.completions.create({ model, messages: asked, tools });
seen.tool = JSON.parse(called.choices[0].message.tool_calls[0].function.arguments);

const json_schema = { name: "thing", schema: { type: "object", properties: {} } };
const response_format = { type: "json_schema", json_schema };
const formed = await client.chat.completions.create({ model, messages, response_format });
seen.schema = formed.choices[0].message.content;

const baton = createOpenAICompatible({ name: "baton", baseURL, apiKey, includeUsage: true })(model);
const generated = await generateText({ model: baton, prompt: "Hello there" });
seen.sdk = generated.text;
seen.sdkTokens = generated.usage.outputTokens;
seen.sdkStream = "";
for await (const text of streamText({ model: baton, prompt: "Hello there" }).textStream) {
  seen.sdkStream += text;
}

console.log(JSON.stringify(seen));
