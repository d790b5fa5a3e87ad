// An agent with a tool and an image, which reads on after a lost connection without losing a token.
package main

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"strings"
	"time"
)

type object = map[string]any

var functions = json.RawMessage(`[{"name": "get_weather", "description": "The weather of a city",
	"parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}]`)

const maxLost = 5 // connections that bring nothing new, one after another

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// request asks for a reply, or for the events of this reply after the last one that was read.
func request(body []byte, id string, last float64) (*http.Response, error) {
	method, path := "POST", "/v1/chat"
	if id != "" {
		method, path, body = "GET", fmt.Sprintf("/v1/chat/%s/events?after=%.0f", id, last), nil
	}
	request, err := http.NewRequest(method, os.Getenv("PARLEY_URL")+path, bytes.NewReader(body))
	check(err)
	request.Header = http.Header{"Content-Type": {"application/json"}, "X-Api-Key": {os.Getenv("PARLEY_API_KEY")}}
	return http.DefaultClient.Do(request)
}

// readEvents calls use with each complete server-sent event, until use returns false or the connection is lost.
func readEvents(body io.Reader, use func(object) bool) {
	lines := bufio.NewReader(body)
	for data := ""; ; {
		line, err := lines.ReadString('\n')
		if err != nil {
			return // what was read of an event that was cut is not one
		}
		if strings.HasPrefix(line, "data:") {
			data += line[len("data:"):]
		} else if strings.TrimSpace(line) == "" && data != "" {
			var event object
			check(json.Unmarshal([]byte(data), &event))
			data = ""
			if !use(event) {
				return
			}
		}
	}
}

// followReply calls use with the events of a reply to its end. After a lost connection it resumes the reply where it stopped.
func followReply(body []byte, use func(object)) {
	id, last, ended := "", 0.0, false
	for lost := 1; lost <= maxLost && !ended; lost++ {
		// A request that got no answer at all is sent again. One that got an answer has an ID to resume by.
		response, err := request(body, id, last)
		if err == nil {
			if response.StatusCode != http.StatusOK {
				text, _ := io.ReadAll(response.Body)
				log.Fatalf("%s: %s", response.Status, text)
			}
			if named := response.Header.Get("X-Parley-Response-Id"); named != "" {
				id = named
			}
			readEvents(response.Body, func(event object) bool {
				if seq, _ := event["seq"].(float64); seq > last {
					last, lost = seq, 0
				}
				use(event)
				ended = event["type"] == "response.completed"
				return !ended
			})
			response.Body.Close()
		}
		time.Sleep(time.Duration(lost) * 100 * time.Millisecond)
	}
	if !ended {
		log.Fatal("the stream was cut off")
	}
}

// streamReply prints a reply as it arrives, and returns its messages.
func streamReply(messages []object) (reply []object) {
	// The call of the model goes on for 30 seconds without a client: the time to come back.
	body, err := json.Marshal(object{"model": "demo", "messages": messages, "functions": functions,
		"cancel_on_disconnect": 30})
	check(err)
	followReply(body, func(event object) {
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
		}
	})
	return reply
}

func main() {
	file, err := os.ReadFile("image.png")
	check(err)
	image := "data:image/png;base64," + base64.StdEncoding.EncodeToString(file)
	messages := []object{{"role": "user",
		"content": []object{{"image": image}, {"text": "What is the weather in Paris?"}}}}
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
