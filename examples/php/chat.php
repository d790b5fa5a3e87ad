<?php
// Stream a reply of POST /v1/chat, answer its function calls, and stream the answer.
declare(strict_types=1);

const CITY = ['type' => 'object', 'properties' => ['city' => ['type' => 'string']], 'required' => ['city']];
const FUNCTIONS = [['name' => 'get_weather', 'description' => 'The weather of a city', 'parameters' => CITY]];

/** Yields each server-sent event of POST /v1/chat. */
function readEvents(array $messages): Generator
{
    $headers = ['Content-Type: application/json', 'Authorization: Bearer ' . (getenv('PARLEY_API_KEY') ?: 'any')];
    $body = json_encode(['model' => 'demo', 'messages' => $messages, 'functions' => FUNCTIONS], JSON_THROW_ON_ERROR);
    $options = ['method' => 'POST', 'header' => $headers, 'content' => $body, 'ignore_errors' => true, 'timeout' => 60];
    $stream = fopen(getenv('PARLEY_URL') . '/v1/chat', 'r', false, stream_context_create(['http' => $options]));
    if ($stream === false || !str_contains($http_response_header[0], ' 200')) {
        exit_with('HTTP error: ' . ($stream ? stream_get_contents($stream) : 'no connection'));
    }
    $data = '';
    while (($line = fgets($stream)) !== false) {
        $line = rtrim($line, "\r\n");
        if (str_starts_with($line, 'data:')) {
            $data .= substr($line, 5) . "\n";
        } elseif ($line === '' && $data !== '') {
            yield json_decode($data, true, 512, JSON_THROW_ON_ERROR);
            $data = '';
        }
    }
}

/** Prints a reply as it arrives, and returns its messages. */
function streamReply(array $messages): array
{
    $reply = [];
    foreach (readEvents($messages) as $event) {
        if ($event['type'] === 'message.started') {
            echo "[{$event['kind']}] ", $event['message']['function_call']['name'] ?? '', ' ';
        } elseif ($event['type'] === 'message.delta') {
            echo $event['delta']['function_call']['arguments'] ?? array_values($event['delta'])[0];
        } elseif ($event['type'] === 'message.completed') {
            echo "\n";
            $reply[] = $event['message'];
        } elseif ($event['type'] === 'response.failed') {
            exit_with("{$event['error']['code']}: {$event['error']['message']}");
        } elseif ($event['type'] === 'response.completed') {
            return $reply;
        }
    }
    exit_with('the stream was cut off');
}

function exit_with(string $text): never
{
    fwrite(STDERR, "\n$text\n");
    exit(1);
}

$messages = [['role' => 'user', 'content' => 'What is the weather in Paris?']];
while (end($messages)['role'] !== 'assistant') {
    $reply = streamReply($messages);
    array_push($messages, ...$reply);
    foreach (array_filter($reply, fn ($message) => isset($message['function_call'])) as $message) {
        $call = $message['function_call'];
        $result = 'It is 21 °C in ' . json_decode($call['arguments'], true)['city'] . '.';
        echo "[result] $result\n";
        $messages[] = ['role' => 'function', 'name' => $call['name'], 'content' => $result, 'extra' => $message['extra']];
    }
}
