# Stream a reply of POST /v1/chat, answer its function calls, and stream the answer.
require "json"
require "net/http"

URL = URI(ENV.fetch("PARLEY_URL"))
CITY = { type: "object", properties: { city: { type: "string" } }, required: ["city"] }
FUNCTIONS = [{ name: "get_weather", description: "The weather of a city", parameters: CITY }]

# Yields the JSON of each server-sent event, however the stream is cut into pieces.
def read_events(response)
  rest = "".b
  data = []
  response.read_body do |piece|
    rest << piece
    while (line = rest.slice!(/\A[^\n]*\n/n))
      line = line.force_encoding("UTF-8").chomp
      if line.start_with?("data:")
        data << line.delete_prefix("data:")
      elsif line.empty? && !data.empty?
        yield JSON.parse(data.join("\n"))
        data.clear
      end
    end
  end
end

# Prints a reply as it arrives, and returns its messages.
def stream_reply(http, messages)
  headers = { "Content-Type" => "application/json", "Authorization" => "Bearer #{ENV.fetch("PARLEY_API_KEY", "any")}" }
  request = Net::HTTP::Post.new("#{URL.path}/v1/chat", headers)
  request.body = JSON.generate(model: "demo", messages: messages, functions: FUNCTIONS)
  reply = []
  last = nil
  http.request(request) do |response|
    abort "HTTP #{response.code}: #{response.body}" unless response.is_a?(Net::HTTPOK)
    read_events(response) do |event|
      case last = event["type"]
      when "message.started" then print "[#{event["kind"]}] #{event.dig("message", "function_call", "name")} "
      when "message.delta" then print event.dig("delta", "function_call", "arguments") || event["delta"].values.first
      when "message.completed" then puts or reply << event["message"]
      when "response.failed" then abort "\n#{event.dig("error", "code")}: #{event.dig("error", "message")}"
      end
    end
  end
  last == "response.completed" ? reply : abort("\nthe stream was cut off")
end

# Calls the function, and returns the message with its result.
def answer_call(message)
  call = message["function_call"]
  result = "It is 21 °C in #{JSON.parse(call["arguments"])["city"]}."
  puts "[result] #{result}"
  { role: "function", name: call["name"], content: result, extra: message["extra"] }
end

$stdout.sync = true
messages = [{ "role" => "user", "content" => "What is the weather in Paris?" }]
Net::HTTP.start(URL.host, URL.port, use_ssl: URL.scheme == "https") do |http|
  until messages.last["role"] == "assistant"
    reply = stream_reply(http, messages)
    messages += reply + reply.select { |message| message["function_call"] }.map { |message| answer_call(message) }
  end
end
