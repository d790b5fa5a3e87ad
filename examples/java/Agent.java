// An agent with a tool and an image, which reads on after a lost connection without losing a token. Needs Java 17 and Gson.
import com.google.gson.*;
import java.io.*;
import java.net.URI;
import java.net.http.*;
import java.nio.charset.StandardCharsets;
import java.nio.file.*;
import java.util.*;
import java.util.function.Consumer;

public class Agent {
    static final HttpClient HTTP = HttpClient.newHttpClient();
    static final Gson GSON = new Gson();
    static final JsonElement FUNCTIONS = JsonParser.parseString("[{'name': 'get_weather', 'description': 'The weather of a city',"
        + "'parameters': {'type': 'object', 'properties': {'city': {'type': 'string'}}, 'required': ['city']}}]");
    static final int MAX_LOST = 5; // connections that bring nothing new, one after another

    /** Asks for a reply, or for the events of this reply after the last one that was read. */
    static HttpResponse<InputStream> send(String body, String id, long last) throws Exception {
        var path = id == null ? "/v1/chat" : "/v1/chat/" + id + "/events?after=" + last;
        var request = HttpRequest.newBuilder(URI.create(System.getenv("PARLEY_URL") + path))
            .headers("Content-Type", "application/json", "Authorization", "Bearer " + System.getenv("PARLEY_API_KEY"));
        if (id == null) request.POST(HttpRequest.BodyPublishers.ofString(body));
        return HTTP.send(request.build(), HttpResponse.BodyHandlers.ofInputStream());
    }

    /** The next complete server-sent event, or null at the end. An event that was cut is not one. */
    static JsonObject readEvent(BufferedReader lines) throws IOException {
        var data = new StringBuilder();
        for (var line = lines.readLine(); line != null; line = lines.readLine()) {
            if (line.startsWith("data:")) data.append(line.substring(5)).append('\n');
            if (line.isEmpty() && !data.isEmpty()) return JsonParser.parseString(data.toString()).getAsJsonObject();
        }
        return null;
    }

    /** Gives the events of a reply to `use`, to its end. After a lost connection it resumes the reply where it stopped. */
    static void followReply(String body, Consumer<JsonObject> use) throws Exception {
        String id = null;
        long last = 0;
        for (var lost = 1; lost <= MAX_LOST; lost++) {
            // A request that got no answer at all is sent again. One that got an answer has an ID to resume by.
            HttpResponse<InputStream> response;
            try { response = send(body, id, last); } catch (IOException e) { response = null; }
            if (response != null && response.statusCode() != 200)
                throw new IllegalStateException("HTTP " + response.statusCode() + ": " + new String(response.body().readAllBytes(), StandardCharsets.UTF_8));
            if (response != null) {
                id = response.headers().firstValue("x-parley-response-id").orElse(id);
                try (var lines = new BufferedReader(new InputStreamReader(response.body(), StandardCharsets.UTF_8))) {
                    for (var event = readEvent(lines); event != null; event = readEvent(lines)) {
                        if (event.get("seq").getAsLong() > last) { last = event.get("seq").getAsLong(); lost = 0; }
                        use.accept(event);
                        if (text(event, "type").equals("response.completed")) return;
                    }
                } catch (IOException e) {
                    // the connection was lost
                }
            }
            Thread.sleep(100 * lost);
        }
        throw new IllegalStateException("the stream was cut off");
    }

    /** Prints a reply as it arrives, and returns its messages. */
    static JsonArray streamReply(JsonArray messages) throws Exception {
        var reply = new JsonArray();
        // The call of the model goes on for 30 seconds without a client: the time to come back.
        var body = Map.of("model", "demo", "messages", messages, "functions", FUNCTIONS, "cancel_on_disconnect", 30);
        followReply(GSON.toJson(body), event -> {
            switch (text(event, "type")) {
                case "message.started" -> {
                    var call = event.getAsJsonObject("message").getAsJsonObject("function_call");
                    System.out.printf("[%s] %s ", text(event, "kind"), call == null ? "" : text(call, "name"));
                }
                case "message.delta" -> {
                    var value = event.getAsJsonObject("delta").entrySet().iterator().next().getValue();
                    System.out.print(value.isJsonObject() ? text(value, "arguments") : value.getAsString());
                }
                case "message.completed" -> { reply.add(event.get("message")); System.out.println(); }
                case "response.failed" -> throw new IllegalStateException(event.get("error").toString());
            }
        });
        return reply;
    }

    static String text(JsonElement element, String key) { return element.getAsJsonObject().get(key).getAsString(); }

    public static void main(String[] args) throws Exception {
        System.setOut(new PrintStream(new FileOutputStream(FileDescriptor.out), false, StandardCharsets.UTF_8));
        var image = "data:image/png;base64," + Base64.getEncoder().encodeToString(Files.readAllBytes(Path.of("image.png")));
        var content = List.of(Map.of("image", image), Map.of("text", "What is the weather in Paris?"));
        var messages = GSON.toJsonTree(List.of(Map.of("role", "user", "content", content))).getAsJsonArray();
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
