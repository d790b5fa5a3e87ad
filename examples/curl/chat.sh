#!/usr/bin/env bash
# Stream a reply of POST /v1/chat, answer its function calls, and stream the answer. Needs curl and jq.
set -euo pipefail

functions='[{"name": "get_weather", "description": "The weather of a city",
  "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}]'
messages='[{"role": "user", "content": "What is the weather in Paris?"}]'
frames=$(mktemp)
trap 'rm -f "$frames"' EXIT

# Leaves the JSON of the data, and of the body of an error. jq takes values over several lines.
only_json() { sed -u -e 's/^data://' -e '/^\(id\|event\|retry\)\{0,1\}:/d'; }

# shellcheck disable=SC2016
show='if .error then "\n\(.error.code): \(.error.message)\n" | halt_error(1)
  elif .type == "message.started" then "[\(.kind)] \(.message.function_call.name // "") "
  elif .type == "message.delta" then .delta | .reasoning_content // .content // .function_call.arguments
  elif .type == "message.completed" then "\n"
  else empty end'

while [[ $(jq -r '.[-1].role' <<<"$messages") != assistant ]]; do
  jq -n --argjson messages "$messages" --argjson functions "$functions" \
    '{model: "demo", messages: $messages, functions: $functions}' |
    curl -sSN --json @- -H "Authorization: Bearer ${PARLEY_API_KEY:-any}" "$PARLEY_URL/v1/chat" |
    only_json | tee "$frames" | jq -j --unbuffered "$show"
  [[ $(jq -s -r '.[-1].type' "$frames") == response.completed ]] || { echo "the stream was cut off" >&2; exit 1; }
  messages=$(jq -c -s --argjson messages "$messages" \
    '$messages + map(select(.type == "message.completed").message)' "$frames")

  while IFS= read -r message; do
    result="It is 21 °C in $(jq -r '.function_call.arguments | fromjson.city' <<<"$message")."
    echo "[result] $result"
    messages=$(jq -c --argjson call "$message" --arg result "$result" \
      '. + [{role: "function", name: $call.function_call.name, content: $result, extra: $call.extra}]' <<<"$messages")
  done < <(jq -c 'select(.type == "message.completed").message | select(.function_call)' "$frames")
done
