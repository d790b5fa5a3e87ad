// An agent with a tool and an image, which reads on after a lost connection without losing a token. Needs .NET 8 or newer.
using System;
using System.Collections.Generic;
using System.IO;
using System.Linq;
using System.Net;
using System.Net.Http;
using System.Text;
using System.Text.Json;
using System.Threading.Tasks;

static class Agent
{
    static readonly HttpClient Http = new HttpClient();
    static readonly object City = new { type = "object", properties = new { city = new { type = "string" } }, required = new[] { "city" } };
    static readonly object[] Functions = { new { name = "get_weather", description = "The weather of a city", parameters = City } };
    const int MaxLost = 5; // connections that bring nothing new, one after another

    /// <summary>Asks for a reply, or for the events of this reply after the last one that was read.</summary>
    static Task<HttpResponseMessage> Send(string body, string id, long last)
    {
        var path = id == null ? "/v1/chat" : $"/v1/chat/{id}/events?after={last}";
        var request = new HttpRequestMessage(id == null ? HttpMethod.Post : HttpMethod.Get, Environment.GetEnvironmentVariable("PARLEY_URL") + path);
        request.Headers.Add("Authorization", "Bearer " + (Environment.GetEnvironmentVariable("PARLEY_API_KEY") ?? "any"));
        if (id == null) request.Content = new StringContent(body, Encoding.UTF8, "application/json");
        return Http.SendAsync(request, HttpCompletionOption.ResponseHeadersRead);
    }

    static string ReadId(HttpResponseMessage response) =>
        response.Headers.TryGetValues("x-parley-response-id", out var named) ? named.First() : null;

    /// <summary>The next complete server-sent event, or null at the end. An event that was cut is not one.</summary>
    static async Task<JsonElement?> ReadEvent(StreamReader lines)
    {
        var data = new StringBuilder();
        for (var line = await lines.ReadLineAsync(); line != null; line = await lines.ReadLineAsync())
        {
            if (line.StartsWith("data:", StringComparison.Ordinal)) data.Append(line, 5, line.Length - 5).Append('\n');
            if (line.Length == 0 && data.Length > 0) return JsonSerializer.Deserialize<JsonElement>(data.ToString());
        }
        return null;
    }

    /// <summary>Gives the events of a reply to `use`, to its end. After a lost connection it resumes the reply where it stopped.</summary>
    static async Task FollowReply(string body, Action<JsonElement> use)
    {
        string id = null;
        long last = 0;
        for (var lost = 1; lost <= MaxLost; lost++)
        {
            try
            {
                // A request that got no answer at all is sent again. One that got an answer has an ID to resume by.
                using (var response = await Send(body, id, last))
                using (var lines = new StreamReader(await response.Content.ReadAsStreamAsync(), Encoding.UTF8))
                {
                    if (response.StatusCode != HttpStatusCode.OK)
                        throw new InvalidOperationException($"HTTP {(int)response.StatusCode}: {await lines.ReadToEndAsync()}");
                    id = ReadId(response) ?? id;
                    for (var read = await ReadEvent(lines); read != null; read = await ReadEvent(lines))
                    {
                        var frame = read.Value;
                        var seq = frame.GetProperty("seq").GetInt64();
                        if (seq > last) (last, lost) = (seq, 0);
                        use(frame);
                        if (frame.GetProperty("type").GetString() == "response.completed") return;
                    }
                }
            }
            catch (Exception error) when (error is HttpRequestException || error is IOException)
            {
                // the connection was lost
            }
            await Task.Delay(100 * lost);
        }
        throw new InvalidOperationException("the stream was cut off");
    }

    /// <summary>Prints a reply as it arrives, and returns its messages.</summary>
    static async Task<List<JsonElement>> StreamReply(List<object> messages)
    {
        var reply = new List<JsonElement>();
        // The call of the model goes on for 30 seconds without a client: the time to come back.
        var body = JsonSerializer.Serialize(new { model = "demo", messages, functions = Functions, cancel_on_disconnect = 30 });
        await FollowReply(body, frame =>
        {
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
                case "response.failed": throw new InvalidOperationException(frame.GetProperty("error").ToString());
            }
        });
        return reply;
    }

    static async Task Main()
    {
        Console.OutputEncoding = new UTF8Encoding(false);
        var image = "data:image/png;base64," + Convert.ToBase64String(File.ReadAllBytes("image.png"));
        var content = new object[] { new { image }, new { text = "What is the weather in Paris?" } };
        var messages = new List<object> { new { role = "user", content } };
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
