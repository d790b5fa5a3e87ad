// Stream a reply of POST /v1/chat, answer its function calls, and stream the answer.
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"strings"
)

type object = map[string]any

var functions = json.RawMessage(`[{"name": "get_weather", "description": "The weather of a city",
	"parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}]`)

func check(err error) {
	if err != nil {
		log.Fatal("the connection failed, or the stream was cut off: ", err)
	}
}

// streamReply prints a reply as it arrives, and returns its messages.
func streamReply(messages []object) (reply []object) {
	body, _ := json.Marshal(object{"model": "demo", "messages": messages, "functions": functions})
	request, err := http.NewRequest("POST", os.Getenv("PARLEY_URL")+"/v1/chat", bytes.NewReader(body))
	check(err)
	request.Header = http.Header{"Content-Type": {"application/json"}, "X-Api-Key": {os.Getenv("PARLEY_API_KEY")}}
	response, err := http.DefaultClient.Do(request)
	check(err)
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(response.Body)
		log.Fatalf("%s: %s", response.Status, text)
	}
	lines := bufio.NewReader(response.Body)
	for data := ""; ; {
		line, err := lines.ReadString('\n')
		check(err)
		if strings.HasPrefix(line, "data:") {
			data += line[len("data:"):]
		} else if strings.TrimSpace(line) == "" && data != "" {
			var event object
			check(json.Unmarshal([]byte(data), &event))
			data = ""
			message, _ := event["message"].(object)
			switch event["type"] {
			case "message.started":
				call, _ := message["function_call"].(object)
				name, _ := call["name"].(string)
				fmt.Printf("[%s] %s ", event["kind"], name)
			case "message.delta":
				for _, text := range event["delta"].(object) { // one field: its name is the kind
					if call, found := text.(object); found {
						text = call["arguments"]
					}
					fmt.Print(text)
				}
			case "message.completed":
				fmt.Println()
				reply = append(reply, message)
			case "response.failed":
				log.Fatal(event["error"])
			case "response.completed":
				return reply
			}
		}
	}
}

func main() {
	messages := []object{{"role": "user", "content": "What is the weather in Paris?"}}
	for messages[len(messages)-1]["role"] != "assistant" {
		for _, message := range streamReply(messages) {
			messages = append(messages, message)
			if call, found := message["function_call"].(object); found {
				var arguments struct{ City string }
				check(json.Unmarshal([]byte(call["arguments"].(string)), &arguments))
				result := fmt.Sprintf("It is 21 °C in %s.", arguments.City)
				fmt.Println("[result]", result)
				messages = append(messages, object{"role": "function", "name": call["name"],
					"content": result, "extra": message["extra"]})
			}
		}
	}
}
