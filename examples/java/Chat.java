// Stream a reply of POST /v1/chat, answer its function calls, and stream the answer. Needs Java 17 and Gson.
import com.google.gson.*;
import java.io.*;
import java.net.URI;
import java.net.http.*;
import java.nio.charset.StandardCharsets;
import java.util.Map;

public class Chat {
    static final HttpClient HTTP = HttpClient.newHttpClient();
    static final Gson GSON = new Gson();
    static final JsonElement FUNCTIONS = JsonParser.parseString("[{'name': 'get_weather', 'description': 'The weather of a city',"
        + "'parameters': {'type': 'object', 'properties': {'city': {'type': 'string'}}, 'required': ['city']}}]");

    /** Prints a reply as it arrives, and returns its messages. */
    static JsonArray streamReply(JsonArray messages) throws Exception {
        var body = GSON.toJson(Map.of("model", "demo", "messages", messages, "functions", FUNCTIONS));
        var request = HttpRequest.newBuilder(URI.create(System.getenv("PARLEY_URL") + "/v1/chat"))
            .headers("Content-Type", "application/json", "Authorization", "Bearer " + System.getenv("PARLEY_API_KEY"))
            .POST(HttpRequest.BodyPublishers.ofString(body)).build();
        var response = HTTP.send(request, HttpResponse.BodyHandlers.ofInputStream());
        var lines = new BufferedReader(new InputStreamReader(response.body(), StandardCharsets.UTF_8));
        if (response.statusCode() != 200) throw new IOException("HTTP " + response.statusCode() + ": " + lines.readLine());
        var reply = new JsonArray();
        var data = new StringBuilder();
        for (var line = lines.readLine(); line != null; line = lines.readLine()) {
            if (line.startsWith("data:")) data.append(line.substring(5)).append('\n');
            if (!line.isEmpty() || data.isEmpty()) continue;
            var event = JsonParser.parseString(data.toString()).getAsJsonObject();
            data.setLength(0);
            switch (event.get("type").getAsString()) {
                case "message.started" -> {
                    var call = event.getAsJsonObject("message").getAsJsonObject("function_call");
                    System.out.printf("[%s] %s ", text(event, "kind"), call == null ? "" : text(call, "name"));
                }
                case "message.delta" -> {
                    var value = event.getAsJsonObject("delta").entrySet().iterator().next().getValue();
                    System.out.print(value.isJsonObject() ? text(value, "arguments") : value.getAsString());
                }
                case "message.completed" -> { reply.add(event.get("message")); System.out.println(); }
                case "response.failed" -> throw new IOException(event.get("error").toString());
                case "response.completed" -> { return reply; }
            }
        }
        throw new IOException("the stream was cut off");
    }

    static String text(JsonElement element, String key) { return element.getAsJsonObject().get(key).getAsString(); }

    public static void main(String[] args) throws Exception {
        System.setOut(new PrintStream(new FileOutputStream(FileDescriptor.out), false, StandardCharsets.UTF_8));
        var messages = JsonParser.parseString("[{'role': 'user', 'content': 'What is the weather in Paris?'}]").getAsJsonArray();
        while (!text(messages.get(messages.size() - 1), "role").equals("assistant")) {
            for (var message : streamReply(messages)) {
                messages.add(message);
                var call = message.getAsJsonObject().getAsJsonObject("function_call");
                if (call == null) continue;
                var result = "It is 21 °C in " + text(JsonParser.parseString(text(call, "arguments")), "city") + ".";
                System.out.println("[result] " + result);
                messages.add(GSON.toJsonTree(Map.of("role", "function", "name", call.get("name"), "content", result,
                    "extra", message.getAsJsonObject().get("extra"))));
            }
        }
    }
}
