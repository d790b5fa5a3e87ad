// Stream a reply of POST /v1/chat, answer its function calls, and stream the answer. Needs .NET 8 or newer.
using System;
using System.Collections.Generic;
using System.IO;
using System.Linq;
using System.Net.Http;
using System.Text;
using System.Text.Json;
using System.Threading.Tasks;

static class Chat
{
    static readonly HttpClient Http = new HttpClient();
    static readonly object City = new { type = "object", properties = new { city = new { type = "string" } }, required = new[] { "city" } };
    static readonly object[] Functions = { new { name = "get_weather", description = "The weather of a city", parameters = City } };

    /// <summary>Prints a reply as it arrives, and returns its messages.</summary>
    static async Task<List<JsonElement>> StreamReply(List<object> messages)
    {
        var body = JsonSerializer.Serialize(new { model = "demo", messages, functions = Functions });
        var request = new HttpRequestMessage(HttpMethod.Post, Environment.GetEnvironmentVariable("PARLEY_URL") + "/v1/chat");
        request.Headers.Add("Authorization", "Bearer " + (Environment.GetEnvironmentVariable("PARLEY_API_KEY") ?? "any"));
        request.Content = new StringContent(body, Encoding.UTF8, "application/json");
        using (var response = await Http.SendAsync(request, HttpCompletionOption.ResponseHeadersRead))
        using (var lines = new StreamReader(await response.Content.ReadAsStreamAsync(), Encoding.UTF8))
        {
            if (!response.IsSuccessStatusCode) throw new IOException($"HTTP {(int)response.StatusCode}: {await lines.ReadToEndAsync()}");
            var reply = new List<JsonElement>();
            var data = new StringBuilder();
            for (var line = await lines.ReadLineAsync(); line != null; line = await lines.ReadLineAsync())
            {
                if (line.StartsWith("data:", StringComparison.Ordinal)) data.Append(line, 5, line.Length - 5).Append('\n');
                if (line.Length > 0 || data.Length == 0) continue;
                var frame = JsonSerializer.Deserialize<JsonElement>(data.ToString());
                data.Clear();
                switch (frame.GetProperty("type").GetString())
                {
                    case "message.started":
                        var named = frame.GetProperty("message").TryGetProperty("function_call", out var call);
                        Console.Write($"[{frame.GetProperty("kind")}] {(named ? call.GetProperty("name").GetString() : "")} ");
                        break;
                    case "message.delta":
                        var text = frame.GetProperty("delta").EnumerateObject().First().Value;
                        Console.Write(text.ValueKind == JsonValueKind.Object ? text.GetProperty("arguments").GetString() : text.GetString());
                        break;
                    case "message.completed":
                        Console.WriteLine();
                        reply.Add(frame.GetProperty("message"));
                        break;
                    case "response.failed": throw new IOException(frame.GetProperty("error").ToString());
                    case "response.completed": return reply;
                }
            }
        }
        throw new IOException("the stream was cut off");
    }

    static async Task Main()
    {
        Console.OutputEncoding = new UTF8Encoding(false);
        var messages = new List<object> { new { role = "user", content = "What is the weather in Paris?" } };
        for (var called = true; called;)
        {
            var reply = await StreamReply(messages);
            messages.AddRange(reply.Cast<object>());
            called = false;
            foreach (var message in reply)
            {
                if (!message.TryGetProperty("function_call", out var call)) continue;
                var arguments = JsonSerializer.Deserialize<JsonElement>(call.GetProperty("arguments").GetString());
                var result = $"It is 21 °C in {arguments.GetProperty("city").GetString()}.";
                Console.WriteLine("[result] " + result);
                messages.Add(new { role = "function", name = call.GetProperty("name"), content = result, extra = message.GetProperty("extra") });
                called = true;
            }
        }
    }
}
